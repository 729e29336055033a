"""What others are told of: a DDL statement on a live server, a schema version. Airflow stores them with its events.
Not here: finding them (`watch_ddl.py`, `notify_versions.py`), telling them (`dags/`, `plugins/`)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from strata_cdc.files.stored import take_stored

STATEMENT_CHARACTERS = 1000
MOST_TABLES = 20
"""What a notice holds of a statement; the whole of it is in the version table."""


class DdlNotice(Struct, frozen=True):
    """One DDL statement in a server's stream; where `lost` is set, transactions that can no longer be looked at."""

    id: str
    """`SOURCE/GTID/NUMBER`: the same wherever and however often the notice is made."""
    source: str
    gtid: str
    """Of the statement's transaction; of all that was lost."""
    committed_at: int
    """Microseconds UTC."""
    tables: tuple[str, ...]
    """Those that it names, at most `MOST_TABLES`."""
    statement: str
    """At most `STATEMENT_CHARACTERS`."""
    lost: bool = False


def read_notice(payload: Any) -> DdlNotice:
    """What Airflow has stored of a notice; it has no number yet.

    Raises:
        DamagedFileError: It is something else.
    """
    return take_stored(payload, DdlNotice, newest=1, file="payload of an asset event", remedy="Look who wrote it.")


class VersionNotice(Struct, frozen=True):
    """A schema version in the store."""

    version: int
    """Its id."""
    source: str
    gtid: str
    statement_no: int
    """In its transaction, from 1."""
    committed_at: int
    """Microseconds UTC."""
    origin: str
    tables: tuple[str, ...]
    """The first `MOST_TABLES` by name; `*` stands for all."""
    statement: str
    """At most `STATEMENT_CHARACTERS`."""
