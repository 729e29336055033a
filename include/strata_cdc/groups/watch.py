"""Which source delays a group, since when, and why; writes a line to the log if the delay is long.
Not here: the watermark (`merge.py`), the status on request (`status.py`)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from strata_cdc.groups.logged_times import ADVICE, WAITS
from strata_cdc.streams.transaction_texts import time_text

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Ints
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
            max_skew: A delay is not logged until it is longer than this (microseconds), and longer than a few seconds.
        """
        self._group, self._max_skew = group, max_skew
        self._patience = max(_LEAST_SECONDS, max_skew / 1e6)
        self._watermark: int | None = None
        self.since = 0.0
        """When the watermark reached its present value: seconds, by this machine's clock; 0 before the first check."""
        self._reported = 0.0
        self._early: dict[str, int] = {}
        """When the next line about times in the future may be logged, by source: microseconds UTC."""
        self._waits: set[str] = set()
        """Sources that prove nothing by being idle; everything that their servers had executed was read."""
        self.gone: dict[str, tuple[StrataError, float]] = {}
        """Sources whose servers do not answer, with the reason and the time since when."""

    def look(self, merge: Merge[Any], now: float) -> None:
        """Logs it if the watermark has not moved for long.

        Args:
            now: Seconds, by this machine's clock.
        """
        watermark = merge.watermark
        if watermark is None:  # Nothing more comes.
            return
        if watermark != self._watermark:
            if self._reported:
                _LOG.warning("group %s: the watermark goes on", self._group)
            self._watermark, self.since, self._reported = watermark, now, 0.0
        elif now - self.since >= self._patience and now - self._reported >= _AGAIN_SECONDS:
            self._reported = now
            _LOG.warning("%s", self.line(merge))

    def line(self, merge: Merge[Any]) -> str:
        """Returns the state of the group, in one line."""
        holder = merge.holder or "nobody"
        why = ""
        if holder in self.gone:
            why = f" ({self.gone[holder][0].message})"
        elif holder in self._waits:
            why = f" ({WAITS}; {ADVICE})"
        watermark = f"the watermark is at {time_text(merge.watermark)}" if merge.watermark else "no watermark yet"
        return (
            f"group {self._group}: {watermark} since {time_text(int(self.since * 1e6))}, held by {holder}{why}; "
            f"skew {merge.skew / 1e6:.1f} s"
        )

    def waits_for_next(self, source: str) -> None:
        """Notes that a source is idle, and proves nothing by that."""
        self._waits.add(source)

    def look_ahead(self, source: str, times: Ints, now: int) -> None:
        """Logs it if the newest transactions of a source are in the future.

        Args:
            times: Their times, which ascend (microseconds UTC, in the group's time).
            now: The group's time.
        """
        ahead = int(times[-1]) - now if len(times) else 0
        if ahead > self._max_skew and now >= self._early.get(source, 0):
            self._early[source] = now + int(_AGAIN_SECONDS * 1e6)
            _LOG.warning(
                "group %s: the newest time of %s is %.0f s in the future: what has it, and all that follows in this "
                "source, waits until then",
                self._group,
                source,
                ahead / 1e6,
            )

    def is_gone(self, source: str, error: StrataError, now: float) -> None:
        """Notes that a server does not answer."""
        if source not in self.gone:
            _LOG.warning("group %s: %s does not answer: %s", self._group, source, error.message)
            self.gone[source] = error, now

    def answers(self, source: str) -> None:
        """Notes that a server has answered."""
        self._waits.discard(source)
        if self.gone.pop(source, None):
            _LOG.warning("group %s: %s answers again", self._group, source)
