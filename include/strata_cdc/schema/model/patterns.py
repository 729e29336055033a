"""Patterns of `database.table` in settings, forms and commands: `*`, `?` and `[...]` as in file names; and patterns of
`database.table.column`.
Not here: which tables a source has (`schema/history/`), which of their intervals are pending (`pipeline/plan/`)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import Usage
from strata_cdc.fields import near_names
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from strata_cdc.schema.model.definition import TableName


_BLANKS: Final = (" ", "\t", "\r", "\n")


def can_match(pattern: str) -> bool:
    """Whether a table can exist that a pattern matches: each table has a dot in its full name."""
    return bool(set(pattern) & set(".*?["))


def require_matchable(patterns: Iterable[str]) -> None:
    """Refuses patterns that can never match.

    Raises:
        Usage: A pattern has no dot, and no wildcard that may stand for one; or it is empty, or ends with a blank.
    """
    for pattern in patterns:
        if pattern.endswith(_BLANKS) or not pattern:
            # sql/table.cc, `check_table_name`: no name ends with a blank.
            raise Usage(
                f'"{pattern}" matches no table: it {"ends with a blank" if pattern else "is empty"}',
                remedy="Write database.table, as in shop.orders, without blanks or lines after it.",
            )
        if not can_match(pattern):
            raise Usage(
                f'"{pattern}" matches no table: it has no dot', remedy=f'Write database.table, as in "{pattern}.*".'
            )


def matches(table: TableName, patterns: Iterable[str], *, folded: bool) -> bool:
    """Whether one of some patterns matches a table.

    Args:
        table: The table as the binlog names it.
        folded: Whether the server ignores the case of table names (`lower_case_table_names` is not 0).
    """
    name = str(table)
    if folded:
        name, patterns = fold_name(name), map(fold_name, patterns)
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def is_selected(table: TableName, tables: Sequence[str], exclude: Sequence[str], *, folded: bool) -> bool:
    """Whether a table matches patterns of settings, and none of those that exclude tables; see `matches`."""
    return matches(table, tables, folded=folded) and not matches(table, exclude, folded=folded)


def matches_column(table: TableName, column: str, patterns: Iterable[str], *, folded: bool) -> bool:
    """Whether one of some patterns of `database.table.column` matches a column; MySQL ignores the case of columns.

    Args:
        table: The table as the binlog names it.
        folded: See `matches`.
    """
    parts = (pattern.rpartition(".") for pattern in patterns)
    return any(
        fnmatchcase(fold_name(column), fold_name(name)) and matches(table, (of,), folded=folded)
        for of, _, name in parts
    )


def unmatched(patterns: Sequence[str], tables: Collection[TableName], *, folded: bool) -> list[str]:
    """The patterns that match none of some tables."""
    return [pattern for pattern in patterns if not any(matches(table, (pattern,), folded=folded) for table in tables)]


def meant_by(pattern: str, tables: Collection[TableName]) -> str | None:
    """The known pattern or table that is most similar to a pattern that matches no table; None if nothing is
    similar."""
    names = {str(table): str(table) for table in tables}
    for table in tables:
        every = f"{table.database}.*"
        names |= {every: every, table.database: every}
    return next((names[name] for name in near_names(pattern, sorted(names))), None)
