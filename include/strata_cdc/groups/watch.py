"""Which source delays a group, since when, and why; writes a line to the log if the delay is long.
Not here: the watermark (`merge.py`), the status on request (`status.py`)."""

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
    """Checks the merge of one group after each step."""

    def __init__(self, group: str, max_skew: int) -> None:
        """No source delays the group yet.

        Args:
            group: Name of the group.
            max_skew: A delay is not logged until it is longer than this (microseconds), and longer than a few seconds.
        """
        self._group = group
        self._patience = max(_LEAST_SECONDS, max_skew / 1e6)
        self._stands_at: int | None = None
        self.since = 0.0
        """When the watermark reached its present value: seconds, by this machine's clock; 0 before the first check."""
        self._said = 0.0
        self.gone: dict[str, tuple[StrataError, float]] = {}
        """Sources whose servers do not answer, with the reason and the time since when."""

    def look(self, merge: Merge[Any], now: float) -> None:
        """Logs it if the watermark has not moved for long.

        Args:
            merge: The merge.
            now: Seconds, by this machine's clock.
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
        """Returns the state of the group, in one line."""
        holder = merge.holder or "nobody"
        why = f" ({self.gone[holder][0].message})" if holder in self.gone else ""
        return (
            f"group {self._group}: the watermark is at {time_text(merge.watermark or 0)} since "
            f"{time_text(int(self.since * 1e6))}, held by {holder}{why}; skew {merge.skew / 1e6:.1f} s"
        )

    def is_gone(self, source: str, error: StrataError, now: float) -> None:
        """Notes that a server does not answer."""
        if source not in self.gone:
            _LOG.warning("group %s: %s does not answer: %s", self._group, source, error.message)
            self.gone[source] = error, now

    def answers(self, source: str) -> None:
        """Notes that a server has answered."""
        if self.gone.pop(source, None):
            _LOG.warning("group %s: %s answers again", self._group, source)
