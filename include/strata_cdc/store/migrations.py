"""The store's format: a number in the store, and the steps from each number to the next.
Not here: what the tables are for (`tables.py`), connections (`database.py`)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from strata_cdc.errors import StoreFormatError
from strata_cdc.store.tables import (
    METADATA,
    file_merge,
    notified_position,
    partition_change,
    published_interval,
    quarantine_decision,
    read_again,
    row_removal,
    schema_version,
    source_lake,
    store_format,
    table_comparison,
    table_interval,
    table_version,
    temporary_tables,
    tracked_position,
    view_version,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FORMAT: Final = 14
"""What this version of Strata reads and writes."""


def _adding(table: sa.Table, *columns: str) -> Callable[[sa.Connection], None]:
    """The step that makes a table, or adds columns to one that exists."""
    if columns:
        return lambda connection: _add_columns(connection, table, *columns)
    return lambda connection: table.create(connection, checkfirst=True)


def _add_partition_change(connection: sa.Connection) -> None:
    if sa.inspect(connection).has_table(partition_change.name):
        connection.execute(partition_change.delete())
    partition_change.create(connection, checkfirst=True)
    # What was done to partitions earlier is not stored.
    columns = tracked_position.c
    for source, seq in connection.execute(sa.select(columns.source, columns.seq)).all():
        values = {"seq": seq, "binlog_pos": 0, "database_name": "", "table_name": "", "statement": "", "sql_mode": 0}
        connection.execute(partition_change.insert().values(source=source, **values))


def _add_read_again(connection: sa.Connection) -> None:
    read_again.create(connection, checkfirst=True)
    _add_partition_change(connection)
    # Earlier statements have no time zone: tables that depend on it are read again.
    _add_columns(connection, schema_version, "time_zone")


def _add_column_ids(connection: sa.Connection) -> None:
    # Who asks for versions first gives the ids (`schema/history/older_versions.py`).
    _add_columns(connection, table_version, "column_ids")
    _add_columns(connection, tracked_position, "last_column_id")


def _add_effects_and_commit_index(connection: sa.Connection) -> None:
    # Who asks for versions or removals first decides them (`schema/history/older_versions.py`).
    _add_columns(connection, table_version, "effect")
    _add_columns(connection, row_removal, "effects")
    wanted = "published_interval_version"
    if wanted not in {index["name"] for index in sa.inspect(connection).get_indexes(published_interval.name)}:
        next(index for index in published_interval.indexes if index.name == wanted).create(connection)


def _add_columns(connection: sa.Connection, table: sa.Table, *names: str) -> None:
    """Adds empty columns, except those that exist."""
    present = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    for name in names:
        if name not in present:
            kind = table.c[name].type.compile(dialect=connection.dialect)
            connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN {name} {kind}"))


STEPS: Mapping[int, Callable[[sa.Connection], None]] = {
    1: _adding(notified_position),
    2: _adding(row_removal),
    3: _adding(temporary_tables),
    # Intervals that were closed earlier are counted by the next plan.
    4: _adding(table_interval),
    5: _adding(quarantine_decision),
    6: _add_read_again,
    # Who ran the earlier statements is not stored.
    7: _adding(schema_version, "server_id", "thread_id", "invoker"),
    # The next command that writes checks that its lake has what the store calls published.
    8: _adding(source_lake),
    9: _add_column_ids,
    10: _add_effects_and_commit_index,
    # No interval has been merged with its neighbours yet.
    11: _adding(file_merge),
    # What was compared before is not stored.
    12: _adding(table_comparison),
    # ALTER VIEW was not stored: the texts of views are known from the next snapshot, or their next statement, on.
    13: _adding(view_version, "definition"),
}
"""For each format, the step to the next one; a step may be run again after it was killed."""


def stored_format(connection: sa.Connection) -> int | None:
    """The format of the store; None if there is none yet.

    Raises:
        StoreFormatError: The database has tables of these names that Strata did not make.
    """
    present = sa.inspect(connection)
    if present.has_table(store_format.name):
        number = connection.execute(sa.select(store_format.c.format)).scalar_one_or_none()
        if number is not None:
            return int(number)
        # If it was killed between making the tables and writing the number, making them again completes it.
        return None
    if present.has_table(schema_version.name):
        raise StoreFormatError(
            "the database has a table schema_version that is not Strata's",
            remedy="Give the store a database of its own: name another database at the end of its URL.",
        )
    return None


def check_format(number: int) -> None:
    """Refuses a store that a newer version has made.

    Raises:
        StoreFormatError: The format is newer than this version knows.
    """
    if number > FORMAT:
        raise StoreFormatError(
            f"the store has format {number}, this version reads up to {FORMAT}",
            remedy="Install the version of Strata that made it, or a newer one.",
        )


def migrate(connection: sa.Connection) -> None:
    """Makes the tables, or brings them to this version's format. The caller holds the lock on doing so.

    Raises:
        StoreFormatError: The store is newer than this version, or not Strata's.
    """
    stored = stored_format(connection)
    if stored is None:
        _create_tables(connection)
        connection.execute(store_format.insert().values(id=1, format=FORMAT))
        return
    check_format(stored)
    for number in range(stored, FORMAT):
        STEPS[number](connection)
        connection.execute(store_format.update().values(format=number + 1))


def _create_tables(connection: sa.Connection) -> None:
    if connection.dialect.name == "sqlite":
        for statement in _sqlite_statements():
            connection.exec_driver_sql(statement)
        return
    # The table with the number comes first: a store whose making was killed is recognized as Strata's, and completed.
    store_format.create(connection, checkfirst=True)
    METADATA.create_all(connection, checkfirst=True)


@cache
def _sqlite_statements() -> tuple[str, ...]:
    """What makes the tables and their indexes where they are missing. Writing these texts takes longer than running
    them, and SQLite needs no version of a server for it: a process that makes many stores writes them once."""
    dialect = sqlite.dialect()
    made: list[CreateTable | CreateIndex] = []
    for table in METADATA.sorted_tables:
        made.append(CreateTable(table, if_not_exists=True))
        made.extend(CreateIndex(index, if_not_exists=True) for index in table.indexes)
    return tuple(str(element.compile(dialect=dialect)) for element in made)
