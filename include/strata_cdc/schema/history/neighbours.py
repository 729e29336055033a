"""The versions of a table next to the one that is valid: what rows may have been written under, if not under that one.
Not here: whether rows fit one of them (`changes/crossing.py`)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.errors import Location
from strata_cdc.schema.model.definition import definition_from_json
from strata_cdc.schema.model.quadrants import DdlKind, Quadrant, kind_between, logged_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName

_MOST_STEPS: Final = 32
"""Versions that are looked at on each side: most DDL changes columns."""


class Neighbour(Struct, frozen=True, omit_defaults=True):
    """The nearest version before or after a valid one that has other columns."""

    quadrant: Quadrant
    """That of rows which have the neighbour's columns."""
    definition: bytes
    """As JSON, compressed: a run has those of all of its tables, and needs hardly any."""
    made_by: str
    """What made it, for people."""
    kind: DdlKind
    """Of the DDL between both versions."""
    ddl: Location
    """The position of that DDL."""

    def read_definition(self) -> TableDefinition:
        """The definition as a value."""
        return definition_from_json(zlib.decompress(self.definition).decode())


def find_neighbours(
    table: TableName,
    entries: Iterable[StoredEntry],
    version_id: int,
    definition_of: Callable[[str], TableDefinition],
) -> tuple[Neighbour, ...]:
    """The neighbours of a version: the one before it first. Beyond a gap nothing is known.

    Args:
        table: The table.
        entries: Its timeline, or its lineage.
        version_id: The valid version.
        definition_of: Returns the definition with a fingerprint.
    """
    own = list(entries)
    at = next((at for at, entry in enumerate(own) if (entry.version_id, entry.name) == (version_id, table)), None)
    if at is None or own[at].fingerprint is None:
        return ()
    before = _nearest(own[at], own[:at][::-1], definition_of, Quadrant.OLD_NEW)
    after = _nearest(own[at], own[at + 1 :], definition_of, Quadrant.NEW_OLD)
    return (*before, *after)


def _nearest(
    valid: StoredEntry, others: Sequence[StoredEntry], definition_of: Callable[[str], TableDefinition], side: Quadrant
) -> Iterator[Neighbour]:
    """The nearest of some entries with other columns, if there is one."""
    definition = definition_of(valid.fingerprint or "")
    columns, last, is_made_again = logged_columns(definition), valid, False
    for entry in others[:_MOST_STEPS]:
        if entry.gap is not None:
            return
        if entry.fingerprint is None:
            is_made_again = is_made_again or bool(entry.name.table)
            continue
        other = definition_of(entry.fingerprint)
        if logged_columns(other) == columns:
            last = entry
            continue
        has_ids = valid.columns is not None and entry.columns is not None
        near, far = _columns(valid, definition, has_ids=has_ids), _columns(entry, other, has_ids=has_ids)
        old, new, ddl = (far, near, last) if side is Quadrant.OLD_NEW else (near, far, entry)
        kind = DdlKind.CREATE_TABLE if is_made_again else kind_between(old, new)
        # A snapshot can show another table than the one that was replayed.
        kind = kind if ddl.is_statement else DdlKind.STATE
        yield Neighbour(side, zlib.compress(other.to_json().encode(), 1), _made_by(entry), kind, _location(ddl))
        return


def _columns(entry: StoredEntry, definition: TableDefinition, *, has_ids: bool) -> dict[Hashable, Column]:
    """The columns of a version by their ids; by their names, if a version was stored without ids."""
    ids = entry.columns
    if ids is None or not has_ids:
        return {column.name.casefold(): column for column in definition.columns}
    return dict(zip(ids.ids, definition.columns, strict=True))


def _location(entry: StoredEntry) -> Location:
    return Location(entry.gtid, None, entry.binlog_file, entry.binlog_pos)


def _made_by(entry: StoredEntry) -> str:
    if entry.is_statement:
        return f"made at {_location(entry)}"
    return entry.made_by
