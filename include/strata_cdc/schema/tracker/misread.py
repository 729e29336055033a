"""Whether rows could be read with a definition of a table that a snapshot has disproved, and mean something else.
Not here: what follows from that (`reconcile.py`).

A change that is not in the binlog (`sql_log_bin = 0`) came at an unknown time after the definition was confirmed last.
If it gave the rows another form, those from before it fit the former definition, and the others fit only the newer: the
types in a TABLE_MAP show that. Names and labels are not in there by default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.schema.model.types import LABELLED, parse_column_type

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Column, TableDefinition

DISPROVED: Final = (
    "a snapshot found it with other columns or labels than the stream has, and nothing that was logged shows since when"
)


def misreads(replayed: TableDefinition, shown: TableDefinition, *, logs_charsets: bool) -> bool:
    """Whether a row of one definition may fit the other, and have other values there.

    Args:
        replayed: By the stream.
        shown: By the server.
        logs_charsets: Whether each TABLE_MAP has the charsets of text and the signs of integers: MySQL's have, those of
            MariaDB with its default settings do not.
    """
    before, after = _by_name(replayed), _by_name(shown)
    if before.keys() - after.keys() and after.keys() - before.keys():
        return True
    if [name for name in before if name in after] != [name for name in after if name in before]:
        return True
    return any(_differ(before[name], after[name], logs_charsets) for name in before.keys() & after.keys())


def _by_name(definition: TableDefinition) -> dict[str, Column]:
    return {column.name.casefold(): column for column in definition.columns}


def _differ(column: Column, other: Column, logs_charsets: bool) -> bool:  # noqa: FBT001 - handed through
    """Whether values of one column may be read as others of the other. Labels that were added at the end change no
    number that was in use."""
    kind, other_kind = parse_column_type(column.column_type), parse_column_type(other.column_type)
    if kind.kind in LABELLED and any(a != b for a, b in zip(kind.labels, other_kind.labels, strict=False)):
        return True
    if logs_charsets:
        return False
    facts, other_facts = kind.kind.facts, other_kind.kind.facts
    if facts is not other_facts:
        # As VARBINARY lie UUID, INET6 and others.
        is_bytes = facts.logged_as_bytes is not None or other_facts.logged_as_bytes is not None
        return is_bytes or facts.code == other_facts.code
    return (kind.unsigned, column.character_set) != (other_kind.unsigned, other.character_set)
