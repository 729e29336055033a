"""The numbers of the sources for the first page, read in a thread of their own: the lake may take seconds, and a page
waits for a moment only. The page shows what was read last, and how old it is.
Not here: what the numbers are (`ops/metrics.py`), showing them (`overview.py`)."""

from __future__ import annotations

from threading import Condition, Thread
from time import monotonic
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.errors import StrataError
from strata_cdc.serve.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Read = Callable[[str], Mapping[str, float | None]]

_WAIT_SECONDS: Final = 0.05


class SourceNumbers(Struct, frozen=True):
    """The numbers of a source as they were read last."""

    numbers: Mapping[str, float | None]
    """By the names of `SourceMetrics`; empty if they could not be read."""
    age_seconds: float
    error: str | None = None


class _KeptNumbers(Struct, frozen=True):
    numbers: Mapping[str, float | None]
    error: str | None
    at: float
    took: float


class Numbers:
    """Reads the numbers of sources, one after the other, in a thread that ends when nobody waits for any."""

    def __init__(self, read: Read, limits: Limits = Limits()) -> None:
        """Args:
        read: Gives the numbers of one source; a `StrataError` is shown instead of them.
        limits: How often they are read.
        """
        self._read, self._limits = read, limits
        self._kept: dict[str, _KeptNumbers] = {}
        self._wanted: dict[str, None] = {}
        self._is_reading = False
        self._changed = Condition()

    def numbers_of(self, sources: Iterable[str]) -> dict[str, SourceNumbers]:
        """What is known of some sources; of those that are missing nothing has been read yet."""
        names = list(sources)
        with self._changed:
            due = [name for name in names if self._is_due(name)]
            self._wanted |= dict.fromkeys(due)
            if due and not self._is_reading:
                self._is_reading = True
                # A daemon: nobody waits for it when the web server ends.
                Thread(target=self._work, name="strata-numbers", daemon=True).start()
            self._changed.wait_for(lambda: not self._wanted.keys() & due, _WAIT_SECONDS)
            now = monotonic()
            known = {name: self._kept[name] for name in names if name in self._kept}
        return {
            name: SourceNumbers(reading.numbers, now - reading.at, reading.error) for name, reading in known.items()
        }

    def _is_due(self, name: str) -> bool:
        kept, limits = self._kept.get(name), self._limits
        if kept is None:
            return True
        return monotonic() - kept.at > max(limits.least_age_seconds, limits.age_share * kept.took)

    def _work(self) -> None:
        try:
            while (name := self._next()) is not None:
                kept = self._read_one(name)
                with self._changed:
                    self._kept[name] = kept
                    del self._wanted[name]
                    self._changed.notify_all()
        except BaseException:
            # Threading's hook reports it; the next look at the page tries again.
            with self._changed:
                self._wanted.clear()
                self._is_reading = False
                self._changed.notify_all()
            raise

    def _next(self) -> str | None:
        with self._changed:
            name = next(iter(self._wanted), None)
            # In the same breath as the look, so that nobody adds a name for which no thread is left.
            self._is_reading = name is not None
            return name

    def _read_one(self, name: str) -> _KeptNumbers:
        began = monotonic()
        try:
            numbers, error = self._read(name), None
        except StrataError as refused:
            numbers, error = {}, refused.message
        now = monotonic()
        return _KeptNumbers(numbers, error, now, now - began)
