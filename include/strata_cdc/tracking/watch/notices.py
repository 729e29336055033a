"""Notices for others: of a DDL statement on a live server, of a schema version. Airflow stores them with its events.
Not here: finding what they report (`watch_ddl.py`, `notify_versions.py`), sending them (`airflow/`)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from strata_cdc.files.stored import take_stored

STATEMENT_CHARACTERS = 1000
MOST_TABLES = 20
"""How much of a statement a notice holds; the version table has the whole statement."""


class DdlNotice(Struct, frozen=True):
    """One DDL statement in a server's stream; where `lost` is set, transactions that can no longer be read."""

    id: str
    """`SOURCE/GTID/NUMBER`: the same wherever and however often the notice is made."""
    source: str
    gtid: str
    """Of the statement's transaction; or of all transactions that were lost."""
    committed_at: int
    """Microseconds UTC."""
    tables: tuple[str, ...]
    """The tables that the statement names, at most `MOST_TABLES`."""
    statement: str
    """At most `STATEMENT_CHARACTERS`."""
    lost: bool = False


def read_notice(payload: Any) -> DdlNotice:
    """Reads the form of a notice that Airflow has stored; it has no format number yet.

    Raises:
        DamagedFileError: The payload is no notice.
    """
    return take_stored(
        payload, DdlNotice, newest=1, file="payload of an asset event", remedy="Find out which program wrote it."
    )


class VersionNotice(Struct, frozen=True):
    """A schema version in the store."""

    version: int
    """Its id."""
    source: str
    gtid: str
    statement_no: int
    """Number of the statement in its transaction, from 1."""
    committed_at: int
    """Microseconds UTC."""
    origin: str
    tables: tuple[str, ...]
    """The first `MOST_TABLES` by name; `*` means all tables."""
    statement: str
    """At most `STATEMENT_CHARACTERS`."""
