"""What a new version of Strata has to change in the stores of the settings, and doing it.

Lakes need no change: every version reads the files of all former formats, and rewrites none.
Not here: the steps from format to format (`store/migrations.py`), what versions of tables lack
(`schema/history/older_versions.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.counted import counted
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.store.database import OnMissing, describe_url, find_format, open_store
from strata_cdc.store.migrations import FORMAT, check_format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.config.settings import Settings


class StoreUpgrade(Struct, frozen=True):
    """One store, and what its upgrade changes."""

    store: str
    """Its URL without the password."""
    sources: tuple[str, ...]
    stored_format: int | None
    """None: there is no store yet."""
    wanted_format: int = FORMAT

    @property
    def is_due(self) -> bool:
        """Whether something has to be changed."""
        return self.stored_format is not None and self.stored_format < self.wanted_format

    def line(self) -> str:
        """What is to be done, or that nothing is."""
        what = f"{self.store} ({counted(len(self.sources), 'source')})"
        if self.stored_format is None:
            return f"{what}: there is no store yet"
        if not self.is_due:
            return f"{what}: format {self.stored_format}, as this version writes it"
        return f"{what}: format {self.stored_format} becomes {self.wanted_format}"


def stores_of(settings: Settings) -> Iterator[StoreUpgrade]:
    """Each store of the settings, with its format; nothing is changed.

    Raises:
        StoreUnavailableError: A database does not answer.
        AccessDeniedError: A user may not read it.
        StoreFormatError: A store is newer than this version, or not Strata's.
    """
    by_url: dict[str, list[str]] = {}
    for name in sorted(settings.sources):
        by_url.setdefault(settings.source(name).store_url, []).append(name)
    for url, names in by_url.items():
        format_ = find_format(url)
        if format_ is not None:
            check_format(format_)
        yield StoreUpgrade(describe_url(url), tuple(names), format_)


def upgrade_store(settings: Settings, store: StoreUpgrade) -> None:
    """Brings a store to this version's format, and adds what its versions of tables lack.

    If it is killed, the next call goes on. Other processes of this version may work meanwhile; those of the former
    version must have ended.

    Raises:
        StoreUnavailableError: The database does not answer.
        AccessDeniedError: The user may not change its tables.
    """
    engine = open_store(settings.source(store.sources[0]).store_url, OnMissing.REFUSE)
    for name in store.sources:
        # Reading completes what older versions of Strata did not store.
        SchemaStore(engine).all_entries(name)
