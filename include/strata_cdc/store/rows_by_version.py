"""How many rows of a table each of its schema versions has decoded, from the notes of commits.
Not here: rows over time (`rows_in_time.py`), storing the notes (`ledgers.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.store.database import read_rows
from strata_cdc.store.json_columns import from_column
from strata_cdc.store.ledgers import PublishedDetails
from strata_cdc.store.tables import published_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class VersionSum(Struct, frozen=True):
    """What readers have of one version of a table."""

    rows: int
    bytes: int | None
    """Bytes of the files, as they are stored; None if a former version of Strata did not store it."""


class VersionSums(Struct, frozen=True):
    """What readers have of a table's versions."""

    found: Mapping[tuple[str, int], VersionSum]
    """By the table (`full_names.py`) and the version's id."""
    since: int | None
    """Start of the oldest interval that is counted (microseconds UTC); None: all are counted."""


def rows_by_version(engine: sa.Engine, source: str, tables: Iterable[str], *, limit: int = 2000) -> VersionSums:
    """Sums over the newest intervals of some tables, which are the names that one table has had.

    Args:
        tables: Names as in `full_names.py`.
        limit: How many intervals are counted at most.
    """
    columns = published_interval.c
    query = (
        sa.select(columns.table_name, columns.start_at, columns.rows, columns.details)
        .where(columns.source == source, columns.table_name.in_(sorted(set(tables))))
        .order_by(columns.start_at.desc())
        .limit(limit + 1)
    )
    notes = read_rows(engine, query)
    sums: dict[tuple[str, int], VersionSum] = {}
    for table, _, rows, text in notes[:limit]:
        for version, added in _versions(rows, from_column(text, PublishedDetails, "published_interval.details")):
            before = sums.get((table, version), VersionSum(0, 0))
            size = None if before.bytes is None or added.bytes is None else before.bytes + added.bytes
            sums[table, version] = replace(before, rows=before.rows + added.rows, bytes=size)
    return VersionSums(sums, notes[limit - 1].start_at if len(notes) > limit else None)


def _versions(rows: int, details: PublishedDetails) -> Iterator[tuple[int, VersionSum]]:
    for of_version in details.by_version:
        yield of_version.version_id, VersionSum(of_version.rows, of_version.bytes)
    # An old note of several versions does not have the number of rows of each.
    if not details.by_version and len(details.schema_versions) == 1:
        yield details.schema_versions[0], VersionSum(rows, None)
