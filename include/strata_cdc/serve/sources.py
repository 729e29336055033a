"""The sources that pages speak of, and their stores, opened once.
Not here: queries of a store (`schema/answers/`)."""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final

from strata_cdc.config.source_kinds import TICDC
from strata_cdc.errors import UnknownSourceError
from strata_cdc.store.database import find_store

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

    from strata_cdc.config.settings import Settings, Source


_SETTINGS_SECONDS: Final = 5.0


class Sources:
    """The sources of the settings. A store is opened when it is first needed, and never created."""

    def __init__(self, load: Callable[[], Settings]) -> None:
        """Args:
        load: Reads the settings; they are read again every few seconds, so that a source that is added is there.
        """
        self._read = load
        self._settings: tuple[float, Settings] | None = None
        self._engines: dict[str, sa.Engine] = {}
        self._lock = Lock()

    def _load(self) -> Settings:
        now = monotonic()
        if self._settings is None or now - self._settings[0] > _SETTINGS_SECONDS:
            self._settings = now, self._read()
        return self._settings[1]

    def names(self) -> list[str]:
        """The sources in order of name.

        Raises:
            SettingsError: The settings cannot be read.
        """
        return sorted(self._load().sources)

    def has_server(self, name: str) -> bool:
        """Whether a source's changes come from a server.

        Raises:
            SettingsError: The settings cannot be read.
        """
        return self._load().sources[name].kind != TICDC

    def clock_bound(self) -> int | None:
        """As the settings have it: by how much servers' clocks may differ, microseconds.

        Raises:
            SettingsError: The settings cannot be read.
        """
        return self._load().clock_bound

    def rows_in_airflow(self) -> bool:
        """As the settings have it: whether the page in Airflow shows rows.

        Raises:
            SettingsError: The settings cannot be read.
        """
        return self._load().rows_in_airflow

    def find(self, source: str) -> Source:
        """A source.

        Raises:
            UnknownSourceError: The settings have no such source.
        """
        settings = self._load()
        if source not in settings.sources:
            known = ", ".join(sorted(settings.sources)) or "none"
            raise UnknownSourceError(f"there is no source {source!r}; the settings have: {known}", source=source)
        return settings.source(source)

    def store(self, source: str) -> sa.Engine | None:
        """The store of a source; None if nothing has been stored yet.

        Raises:
            UnknownSourceError: The settings have no such source.
            StoreUnavailableError: The database does not answer.
        """
        url = self.find(source).store_url
        with self._lock:
            if url not in self._engines:
                store = find_store(url)
                if store is None:
                    return None
                self._engines[url] = store
            return self._engines[url]
