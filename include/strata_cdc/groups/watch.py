"""Who holds a group up, since when, and why; a line in the log where it takes long.
Not here: the watermark (`merge.py`), what people ask for (`progress`)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from strata_cdc.streams.transaction_texts import time_text

if TYPE_CHECKING:
    from strata_cdc.errors import StrataError
    from strata_cdc.groups.merge import Merge

_LOG: Final = logging.getLogger("strata.group")
_LEAST_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 60.0


class Watch:
    """Looks at the merge of one group after each step."""

    def __init__(self, group: str, max_skew: int) -> None:
        """Nobody holds it up yet.

        Args:
            group: Its name.
            max_skew: For so long (microseconds) nothing is said, and not for a few seconds.
        """
        self._group = group
        self._patience = max(_LEAST_SECONDS, max_skew / 1e6)
        self._stands_at: int | None = None
        self.since = 0.0
        """When the watermark has come to where it is: seconds, of this machine's clock; 0 before the first look."""
        self._said = 0.0
        self.gone: dict[str, tuple[StrataError, float]] = {}
        """Sources whose servers do not answer: why, and since when."""

    def look(self, merge: Merge[Any], now: float) -> None:
        """Says so if the watermark has stood for long.

        Args:
            merge: The merge.
            now: Seconds, of this machine's clock.
        """
        watermark = merge.watermark
        if watermark != self._stands_at:
            if self._said:
                _LOG.warning("group %s: the watermark goes on", self._group)
            self._stands_at, self.since, self._said = watermark, now, 0.0
        elif now - self.since >= self._patience and now - self._said >= _AGAIN_SECONDS:
            self._said = now
            _LOG.warning("%s", self.line(merge))

    def line(self, merge: Merge[Any]) -> str:
        """How the group stands, in one line."""
        holder = merge.holder or "nobody"
        why = f" ({self.gone[holder][0].message})" if holder in self.gone else ""
        return (
            f"group {self._group}: the watermark stands at {time_text(merge.watermark or 0)} since "
            f"{time_text(int(self.since * 1e6))}, held by {holder}{why}; skew {merge.skew / 1e6:.1f} s"
        )

    def is_gone(self, source: str, error: StrataError, now: float) -> None:
        """A server does not answer."""
        if source not in self.gone:
            _LOG.warning("group %s: %s does not answer: %s", self._group, source, error.message)
            self.gone[source] = error, now

    def answers(self, source: str) -> None:
        """A server has answered."""
        if self.gone.pop(source, None):
            _LOG.warning("group %s: %s answers again", self._group, source)
