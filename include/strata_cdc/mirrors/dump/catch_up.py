"""Lands and tracks what the server has executed, even if another process is doing the same.
Not here: landing and tracking themselves (`landing/`, `tracking/`)."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Final

from strata_cdc.files.lock import when_free
from strata_cdc.landing.land_source import land_or_wait, refuse_statement_format
from strata_cdc.tracking.notice_ddl import track_source

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.config.settings import Source

_WAIT_SECONDS: Final = 600
_PAUSE_SECONDS: Final = 0.5


class CatchUp:
    """May be called from any thread; only one call at a time works.

    Args:
        source: The source.
        engine: Its store.
    """

    def __init__(self, source: Source, engine: sa.Engine) -> None:
        self._source, self._engine = source, engine
        self._lock = Lock()
        self._is_checked = False

    def __call__(self) -> None:
        """Lands and tracks what the server has executed by now.

        Raises:
            AlreadyRunningError: Another process has been landing or tracking for too long.
            SourceSettingsError: At the first call: the server logs statements, so that landing would be useless.
            SourceUnavailableError: The server does not answer.
        """
        with self._lock:
            if not self._is_checked:
                refuse_statement_format(self._source)
                self._is_checked = True
            # A run of the pipeline may be doing the same for a moment.
            for step in (lambda: land_or_wait(self._source), lambda: track_source(self._source, self._engine)):
                when_free(step, time.monotonic() + _WAIT_SECONDS, _PAUSE_SECONDS)
