"""Patterns of `database.table`, as settings, forms and commands have them: `*`, `?` and `[...]` as in file names; and
of `database.table.column`.
Not here: which tables a source has (`schema/history/`), what is owed of them (`pipeline/plan/`)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from strata_cdc.errors import Usage
from strata_cdc.fields import near_names
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from strata_cdc.schema.model.definition import TableName


def can_match(pattern: str) -> bool:
    """Whether there can be a table that a pattern matches: each has a dot in its name."""
    return bool(set(pattern) & set(".*?["))


def require_matchable(patterns: Iterable[str]) -> None:
    """Lets nobody wait for what cannot be.

    Raises:
        Usage: A pattern has no dot, and nothing that stands for one.
    """
    for pattern in patterns:
        if not can_match(pattern):
            raise Usage(
                f'"{pattern}" matches no table: it has no dot', remedy=f'Write database.table, as in "{pattern}.*".'
            )


def matches(table: TableName, patterns: Iterable[str], *, folded: bool) -> bool:
    """Whether a table is meant by one of some patterns.

    Args:
        table: The table as the binlog names it.
        patterns: The patterns.
        folded: Whether the server takes names of any case for the same (`lower_case_table_names` is not 0).
    """
    name = str(table)
    if folded:
        name, patterns = fold_name(name), map(fold_name, patterns)
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def matches_column(table: TableName, column: str, patterns: Iterable[str], *, folded: bool) -> bool:
    """Whether a column is meant by one of some patterns of `database.table.column`; MySQL has columns in any case.

    Args:
        table: The table as the binlog names it.
        column: The column.
        patterns: The patterns.
        folded: As `matches` has it.
    """
    parts = (pattern.rpartition(".") for pattern in patterns)
    return any(
        fnmatchcase(fold_name(column), fold_name(name)) and matches(table, (of,), folded=folded)
        for of, _, name in parts
    )


def unmatched(patterns: Sequence[str], tables: Collection[TableName], *, folded: bool) -> list[str]:
    """The patterns that mean none of some tables."""
    return [pattern for pattern in patterns if not any(matches(table, (pattern,), folded=folded) for table in tables)]


def meant_by(pattern: str, tables: Collection[TableName]) -> str | None:
    """The pattern or table that is most like a pattern which matches none of the tables; None if nothing is like it."""
    found = {str(table): str(table) for table in tables}
    for table in tables:
        every = f"{table.database}.*"
        found |= {every: every, table.database: every}
    return next((found[name] for name in near_names(pattern, sorted(found))), None)
