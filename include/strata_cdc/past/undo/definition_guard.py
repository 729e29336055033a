"""What a script does first in its transaction: it locks the tables' definitions, compares them with those for which it
was made, and fails where one differs. Values of ENUM and SET are written as numbers, and texts as bytes of a charset:
both mean something else after an ALTER TABLE. It also fails where several changes could not be rolled back.

The metadata lock of a SELECT lasts until the transaction ends, even if it asks for no row, so that no DDL comes between
this check and COMMIT (MySQL 9.7, MariaDB 11.8 and 10.11).
Not here: what each statement finds (`script.py`), definitions (`schema/model/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.changes.select.statement import quoted_table
from strata_cdc.past.undo.columns import is_settable
from strata_cdc.past.undo.literals import encoded, hides_labels, utf8_text
from strata_cdc.past.undo.steps import IN_SESSION
from strata_cdc.schema.model.create_sql import quoted
from strata_cdc.schema.model.types import INTEGERS, TypeKind, parse_column_type, shown_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName

_WITHOUT_WIDTH: Final = frozenset({*INTEGERS, TypeKind.YEAR})
"""Their display width means nothing, and servers differ in whether they show it."""
REFUSE: Final = (
    # A client that goes on after errors (mysql --force) comes to the end of the script, which rolls back.
    "SET @strata_other = @strata_altered",
    # Such a client must find no row: not all engines roll back.
    f"SET {IN_SESSION} = {IN_SESSION} AND @strata_altered IS NULL",
    "SET @strata_end = IF(@strata_altered IS NULL, 'DO 0', 'SELECT CONCAT(''nothing was changed: a table is not as "
    "this script needs it: '', @strata_altered) AS strata')",
    "PREPARE strata_end FROM @strata_end",
    "EXECUTE strata_end",
    "SET @strata_end = IF(@strata_altered IS NULL, 'DO 0', CONCAT('DO (SELECT 1 FROM `altered, nothing was changed`."
    "`', REPLACE(LEFT(@strata_altered, 60), '`', '``'), '`)'))",
    "PREPARE strata_end FROM @strata_end",
    "EXECUTE strata_end",
)
"""Fails if a table is not as expected; the name of a table that is not there carries the first words of it."""


def guard_lines(tables: Iterable[tuple[TableName, TableDefinition]], *, needs_rollback: bool) -> Iterator[str]:
    """The statements, for the beginning of a transaction.

    Args:
        tables: The tables that the script changes, as it expects them.
        needs_rollback: Whether the script has several changes, which all have to go if one of them fails.
    """
    tables = list(tables)
    for name, _ in tables:
        yield f"SELECT 1 FROM {quoted_table(name)} LIMIT 0"  # noqa: S608 - quoted names
    yield "SET @strata_altered = @strata_other"
    for name, definition in tables:
        # First, since a query on labels fails where a column is gone.
        yield _check_columns(name, definition.columns)
        if needs_rollback:
            yield _check_engine(name)
        for column in filter(hides_labels, definition.columns):
            yield from _check_labels(name, column)
    yield from REFUSE


def _check_columns(name: TableName, columns: Sequence[Column]) -> str:
    """Collects the columns that differ in name, type, collation, or in how the server sets them."""
    now = (
        f"SELECT {_exact('COLUMN_NAME')} AS c, {_exact(_facts_now(columns))} AS f, 'now' AS t "  # noqa: S608 - literals
        f"FROM information_schema.COLUMNS WHERE {_is_table(name)}"
    )
    before = [
        f"SELECT {_exact(utf8_text(column.name))}, {_exact(utf8_text(_facts(column)))}, 'before'"
        for column in columns
        if not column.hidden
    ]
    differing = " UNION ALL ".join([now, *before])
    differing = f"SELECT c, f, MIN(t) AS t FROM ({differing}) AS e GROUP BY c, f HAVING COUNT(*) = 1"  # noqa: S608 - likewise
    listed = "GROUP_CONCAT(CONCAT(c, ' ', t, ': ', f) ORDER BY c, t SEPARATOR ', ')"
    return _collect(f"(SELECT CONCAT({utf8_text(f'{name}: ')}, {listed}) FROM ({differing}) AS d)")  # noqa: S608 - likewise


def _check_engine(name: TableName) -> str:
    """Collects a table whose engine has no transactions. With GTIDs, MySQL refuses a second change of it (error 1785),
    and the first one stays."""
    query = f"SELECT ENGINE FROM information_schema.TABLES WHERE {_is_table(name)}"  # noqa: S608 - literals
    fault = f"CONCAT({utf8_text(f'{name}: ROLLBACK does nothing in its engine ')}, ENGINE)"
    engines = "information_schema.ENGINES"
    return _collect(f"(SELECT {fault} FROM {engines} WHERE ENGINE = ({query}) AND TRANSACTIONS <> 'YES')")  # noqa: S608 - likewise


def _is_table(name: TableName) -> str:
    """The condition in information_schema."""
    return f"TABLE_SCHEMA = {utf8_text(name.database)} AND TABLE_NAME = {utf8_text(name.table)}"


def _collect(difference: str) -> str:
    return f"SET @strata_altered = NULLIF(CONCAT_WS('; ', @strata_altered, {difference}), '')"


def _exact(text: str) -> str:
    return f"CONVERT({text} USING utf8mb4) COLLATE utf8mb4_bin"


def _facts(column: Column) -> str:
    """What statements depend on, as `_facts_now` reads it."""
    kind = parse_column_type(column.column_type)
    is_short = kind.kind in _WITHOUT_WIDTH or hides_labels(column)
    unsigned = " unsigned" if kind.unsigned else ""
    facts = [f"{kind.kind.value}{unsigned}" if is_short else shown_text(column.column_type)]
    if column.collation not in {None, "binary"}:
        facts.append(_without_alias(str(column.collation)))
    if not is_settable(column):
        facts.append("generated")
    elif column.on_update is not None:
        facts.append("on update")
    return " ".join(facts)


def _facts_now(columns: Sequence[Column]) -> str:
    hidden = ", ".join(utf8_text(column.name) for column in columns if hides_labels(column))
    doubtful = ", ".join(utf8_text(column.name) for column in columns if column.on_update_in_doubt)
    short = ", ".join(f"'{kind.value}'" for kind in sorted(_WITHOUT_WIDTH))
    is_short = f"DATA_TYPE IN ({short})" + (f" OR COLUMN_NAME IN ({hidden})" if hidden else "")
    on_update = "LOCATE('on update', EXTRA)" + (f" AND COLUMN_NAME NOT IN ({doubtful})" if doubtful else "")
    return (
        f"CONCAT_WS(' ', IF({is_short}, CONCAT(DATA_TYPE, IF(LOCATE(' unsigned', COLUMN_TYPE) AND DATA_TYPE NOT IN "
        "('enum', 'set'), ' unsigned', '')), COLUMN_TYPE), "
        "NULLIF(IF(LEFT(COLLATION_NAME, 5) = 'utf8_', CONCAT('utf8mb3', SUBSTRING(COLLATION_NAME, 5)), "
        "COLLATION_NAME), 'binary'), "
        "IF(LOCATE('STORED GENERATED', EXTRA) OR LOCATE('VIRTUAL GENERATED', EXTRA), 'generated', "
        f"IF({on_update}, 'on update', NULL)))"
    )


def _without_alias(collation: str) -> str:
    """Servers before 8.0.29 call utf8mb3 utf8."""
    return collation.replace("utf8_", "utf8mb3_", 1) if collation.startswith("utf8_") else collation


def _check_labels(name: TableName, column: Column) -> Iterator[str]:
    """Collects a column whose labels have other numbers, where information_schema does not show their characters.

    A recursive query has the types of its first part, so that numbers become labels; no row of the table is read.
    """
    kind = parse_column_type(column.column_type)
    labels, charset = kind.labels, column.character_set or "binary"
    raw = column.label_bytes or [encoded(charset, label).hex() for label in labels]
    of_label = "1 << n" if kind.kind is TypeKind.SET else "n + 1"
    rows = (
        f"WITH RECURSIVE c (n, x) AS (SELECT 0, {quoted(column.name)} FROM (SELECT 1 AS `-`) AS `-` LEFT JOIN "  # noqa: S608 - quoted names
        f"{quoted_table(name)} ON FALSE UNION ALL SELECT n + 1, {of_label} FROM c WHERE n < {len(labels)}) "
        "SELECT n, HEX(x) AS x FROM c"
    )
    expected = ", ".join(f"({at}, '{text.upper()}')" for at, text in enumerate(raw, start=1))
    # The query fails if there are fewer labels now.
    yield "SET @strata_labels = 0"
    yield f"SET @strata_labels = (SELECT COUNT(*) FROM ({rows}) AS l WHERE (n, x) IN ({expected}))"  # noqa: S608 - likewise
    yield _collect(f"IF(@strata_labels = {len(labels)}, NULL, {utf8_text(f'{name}: labels of {column.name}')})")
