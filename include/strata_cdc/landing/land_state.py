"""How far a landing is: reported while it runs, and kept beside the segments for later readers.
Not here: where a landing continues, which only the segments say (`cut_segments.py`)."""

from __future__ import annotations

import logging
import time
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from strata_cdc.clock import from_micros, now_micros
from strata_cdc.counted import counted
from strata_cdc.errors import DamagedFileError, LakeUnavailableError, StoreFormatError
from strata_cdc.files.stored import decode_stored
from strata_cdc.landing.landed import landing_folder

if TYPE_CHECKING:
    from collections.abc import Callable

STATE_FILE = "state.json"
_FORMAT = 1
_LOG = logging.getLogger("strata.land")
_LOG_SECONDS = 60.0
_STORE_SECONDS = 10.0
_MEGABYTE = 1 << 20


class Doing(StrEnum):
    """What a landing was doing when its state was stored."""

    LANDING = "landing"
    FOLLOWING = "following"
    ENDED = "ended"
    FAILED = "failed"


class CompleteUntil(Struct, frozen=True):
    """A time before which nothing was committed that has not landed."""

    time: int
    """By the server's clock, microseconds UTC."""
    seq: int
    """Ordinal of the last transaction that had landed then."""


class LandProgress(Struct, frozen=True):
    """How far a landing is."""

    transactions: int
    of_transactions: int
    """How many are to land, as far as is known; a server that is followed executes more."""
    bytes: int
    clock: int
    """Commit time of the newest complete transaction, microseconds UTC; 0 before the first."""
    lag_seconds: float | None = None
    """From that time to now by the server's clock, 0 if everything that it executed has landed; from the checkpoint of
    a TiCDC sink to now; None for files."""
    expire_seconds: int | None = None
    """Seconds after a binlog's last event until the server may delete it; None: it does not delete it, or for files."""
    complete: CompleteUntil | None = None
    """The newest that is known; None of files, and of a server that does not show it (`ServerState.committed`)."""

    def __str__(self) -> str:
        lag = "" if self.lag_seconds is None else f", {self.lag_seconds:.1f} s late"
        until = f", committed until {from_micros(self.clock):%Y-%m-%d %H:%M:%S} UTC" if self.clock else ""
        return (
            f"{self.transactions:,} of {counted(self.of_transactions, 'transaction')}, {self.bytes / _MEGABYTE:,.1f} MB"
            f"{until}{lag}"
        )


class LandState(Struct, frozen=True):
    """The newest state of a source's landing."""

    doing: Doing
    at: int
    """When it was stored, by this machine's clock, microseconds UTC."""
    origin: str
    """The server, or the folder of the files."""
    transactions: int
    bytes: int
    lag_seconds: float | None
    error: str | None = None
    expire_seconds: int | None = None
    """As in `LandProgress`."""
    complete: CompleteUntil | None = None
    """As in `LandProgress`."""


class _StoredState(LandState, frozen=True, kw_only=True):
    format: int = _FORMAT


class LandNotes:
    """Records progress: a line in the log every minute, the state in the lake every ten seconds."""

    def __init__(
        self,
        lake: str,
        source: str,
        origin: str,
        doing: Doing,
        also: Callable[[LandProgress], None] | None = None,
        log_seconds: float = _LOG_SECONDS,
    ) -> None:
        """Starts without progress.

        Args:
            lake: Folder or URL of the lake.
            source: Name of the source.
            origin: As in `LandState`.
            doing: LANDING or FOLLOWING.
            also: Called with each progress.
            log_seconds: Seconds between lines in the log.
        """
        self._log_seconds = log_seconds
        self._folder = landing_folder(lake, source)
        self._source, self._origin, self._doing, self._also = source, origin, doing, also
        self._last = LandProgress(0, 0, 0, 0)
        self._logged = time.monotonic()
        self._stored = self._logged - _STORE_SECONDS

    def tell(self, progress: LandProgress) -> None:
        """Records how far the landing is."""
        self._last = progress
        now = time.monotonic()
        if self._also:
            self._also(progress)
        if now - self._logged >= self._log_seconds:
            self._logged = now
            _LOG.info("%s: %s", self._source, progress)
        if now - self._stored >= _STORE_SECONDS:
            self._stored = now
            self._store(self._doing)

    def retry(self, error: Exception, seconds: float) -> None:
        """Records that a connection broke, and that the next try is after this many seconds."""
        _LOG.warning("%s: %s Trying again in %.0f s.", self._source, error, seconds)
        self._store(self._doing, str(error))

    def end(self) -> None:
        """Records that the landing ended without an error."""
        _LOG.info("%s: landed %s", self._source, self._last)
        self._store(Doing.ENDED)

    def fail(self, error: Exception) -> None:
        """Records that the landing ended with an error."""
        self._store(Doing.FAILED, str(error))

    def _store(self, doing: Doing, error: str | None = None) -> None:
        last = self._last
        at = now_micros()
        state = LandState(
            doing,
            at,
            self._origin,
            last.transactions,
            last.bytes,
            last.lag_seconds,
            error,
            last.expire_seconds,
            last.complete,
        )
        try:
            self._folder.write(STATE_FILE, msgspec.json.encode(_StoredState(**asdict(state))))
        except LakeUnavailableError as refused:
            # Nothing depends on it, and the next important write uses the same storage.
            _LOG.warning("%s: the state of the landing cannot be stored: %s", self._source, refused)


def read_state(lake: str, source: str) -> LandState | None:
    """The state that the newest landing stored; None if there is none that this version of Strata reads."""
    folder = landing_folder(lake, source)
    if not folder.exists(STATE_FILE):
        return None
    try:
        remedy = "The next `strata land` writes it again."
        return decode_stored(
            folder.read_file(STATE_FILE), LandState, newest=_FORMAT, file=folder.join(STATE_FILE), remedy=remedy
        )
    except (DamagedFileError, StoreFormatError) as error:
        # Nothing depends on it.
        _LOG.warning("%s", error)
        return None
