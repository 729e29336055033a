"""Labels of ENUM and SET, and defaults, as the server keeps them. For labels, information_schema and SHOW CREATE TABLE
show `?` for each character beyond U+FFFF, and nothing after a cut character (measured with 9.7.4). For a default of
BINARY or VARBINARY, information_schema shows nothing from a zero byte on; SHOW CREATE TABLE shows everything.
Not here: the rest of a definition (`engine.py`), how labels are shown (`schema/apply/labels.py`)."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pymysql
from msgspec.structs import replace
from pymysql.constants import SERVER_STATUS

from strata_cdc.errors import DdlError
from strata_cdc.schema.apply.labels import hidden_bytes, shown_label
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.model.binary_defaults import hidden_default, known_bytes, may_hide_bytes
from strata_cdc.schema.model.charsets import CHARSETS
from strata_cdc.schema.model.create_sql import quoted
from strata_cdc.schema.model.definition import TableDefinition
from strata_cdc.schema.model.types import LABELLED, Family, TypeKind, parse_column_type
from strata_cdc.schema.replay.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from strata_cdc.schema.model.definition import Column, TableName

_COLUMNS_AT_ONCE: Final = 50
"""Number of columns in one statement; each opens a table."""
_ANY_COLLATION: Final = "utf8mb4_0900_ai_ci"
"""The collation of a database, if a statement needs one."""
_LOST: Final = "?"
_REFUSALS: Final = {
    1044: "the user may not read it",
    1142: "the user may not read it",
    1143: "the user may not read it",
    1049: "its database is gone",
    1054: "a column is gone",
    1064: "servers before 8.0 do not tell it",
    1146: "it is gone",
    1205: "somebody else holds it locked",
    1265: "its labels have changed since",
    1412: "it was altered",
}
"""MySQL's error numbers (share/messages_to_clients.txt) for failures of one table, after which other tables can be
queried."""


class _Question(NamedTuple):
    """A query for one column."""

    table: TableName
    column: Column
    labels: int
    """The number of labels; 0 queries the default."""
    is_empty: bool = False
    """Whether the table is known to have no rows."""

    def query(self, number: int) -> str:
        """Rows of `number`, the label's number, and its bytes in hexadecimal. No row of the table is read.

        The rows of a recursive expression have the types of its first part, here the type of the column; so numbers
        there are converted to labels. An outer join without a match has the type and the default, without a row.
        """
        column = f"t.{quoted(self.column.name)}"
        database, table = quoted(self.table.database), quoted(self.table.table)
        source = f"(SELECT 1) AS one LEFT JOIN {database}.{table} AS t ON FALSE"
        if not self.labels and not self.column.nullable:
            # Without a row the result is NULL; for a table without rows, a count gives a row with the default.
            own = f"SELECT {number}, 0, HEX(DEFAULT({column})) FROM {database}.{table} AS t"  # noqa: S608 - quoted names
            return f"({own} {'HAVING COUNT(*) = 0' if self.is_empty else 'LIMIT 1'})"
        if not self.labels:
            return f"SELECT {number}, 0, HEX(DEFAULT({column})) FROM {source}"  # noqa: S608 - quoted names
        value = "1 << n" if parse_column_type(self.column.column_type).kind is TypeKind.SET else "n + 1"
        return (
            f"SELECT * FROM (WITH RECURSIVE c (n, x) AS (SELECT 0, {column} FROM {source} UNION ALL "  # noqa: S608 - quoted names
            f"SELECT n + 1, {value} FROM c WHERE n < {self.labels}) SELECT {number}, n, HEX(x) FROM c WHERE n > 0) "
            f"AS c{number}"
        )


class ExactTexts:
    """Queries a server for texts that its information_schema may have lost.

    Args:
        connection: To the server; in a transaction, the metadata locks of the queries are released at once.
    """

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self._connection = connection
        self.doubtful: dict[TableName, str] = {}
        """Why the exact texts of a table cannot be read, if information_schema has lost some of them."""
        self.has_queried = False

    def complete(
        self, page: Mapping[TableName, TableDefinition], masked: Collection[tuple[TableName, str]] = ()
    ) -> dict[TableName, TableDefinition]:
        """The definitions with exact labels and defaults.

        Args:
            masked: Columns with a masking policy. A query has what the policy makes of them, not what they are.

        Raises:
            pymysql.err.MySQLError: The connection to the server was lost.
        """
        by_table: dict[TableName, dict[str, Column]] = defaultdict(dict)
        every = [question for name, definition in page.items() for question in _questions(name, definition)]
        questions = [question for question in every if (question.table, question.column.name) not in masked]
        for question in every:
            if (question.table, question.column.name) in masked:
                self._refuse(question, "it has a masking policy")
        for at in range(0, len(questions), _COLUMNS_AT_ONCE):
            for question, texts in self._answers(questions[at : at + _COLUMNS_AT_ONCE]):
                columns = by_table[question.table]
                try:
                    columns[question.column.name] = _with_texts(
                        columns.get(question.column.name, question.column), texts, question
                    )
                except DdlError as error:
                    self.doubtful[question.table] = f"column {question.column.name}: {error.message}"
        for name, definition in page.items():
            by_table[name].update(self._binary_defaults(name, definition))
        return {name: _with_columns(definition, by_table[name]) for name, definition in page.items()}

    def _binary_defaults(self, name: TableName, definition: TableDefinition) -> dict[str, Column]:
        """The columns with the bytes of their defaults that are not shown; no columns if the user may not see them."""
        hidden = [column for column in definition.columns if may_hide_bytes(column)]
        written = self._written(name) if hidden else None
        columns: dict[str, Column] = {}
        for column in hidden:
            written_column = None if written is None else written.column(column.name)
            raw = (
                None
                if written_column is None or written_column.column_type != column.column_type
                else known_bytes(written_column)
            )
            if raw is not None:
                columns[column.name] = replace(column, default_bytes=hidden_default(column, raw))
        return columns

    def _written(self, name: TableName) -> TableDefinition | None:
        """A table as SHOW CREATE TABLE shows it."""
        self.has_queried = True
        try:
            with self._released(), self._connection.cursor() as cursor:
                cursor.execute(f"SHOW CREATE TABLE {quoted(name.database)}.{quoted(name.table)}")
                [(_, statement)] = cursor.fetchall()
        except pymysql.MySQLError as error:
            if (error.args[0] if error.args else 0) in _REFUSALS:
                return None
            raise
        catalog = Catalog()
        catalog.put_database(name.database, _ANY_COLLATION)
        catalog.apply(read_ddl_or_gap(str(statement), DdlContext(name.database)))
        definition = catalog.get(name)
        return definition if isinstance(definition, TableDefinition) else None

    def _answers(self, batch: Sequence[_Question]) -> Iterable[tuple[_Question, list[bytes | None]]]:
        try:
            yield from self._ask(batch)
        except pymysql.MySQLError as error:
            reason = _REFUSALS.get(error.args[0] if error.args else 0)
            if reason is None:
                raise
            if len(batch) > 1:
                for question in batch:
                    yield from self._answers([question])
            else:
                self._refuse(batch[0], reason)

    def _refuse(self, question: _Question, reason: str) -> None:
        """Leaves what information_schema shows, unless it may have lost something."""
        if _may_be_lost(question.column):
            message = f"characters of column {question.column.name} are not known: information_schema shows `?`"
            self.doubtful[question.table] = f"{message} for them, and {reason}"

    def _ask(self, batch: Sequence[_Question]) -> list[tuple[_Question, list[bytes | None]]]:
        self.has_queried = True
        answers: list[list[bytes | None]] = [[None] * max(question.labels, 1) for question in batch]
        with self._released(), self._connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(question.query(at) for at, question in enumerate(batch)))
            rows = cursor.fetchall()
        for at, number, text in rows:
            answers[int(at)][max(int(number) - 1, 0)] = None if text is None else bytes.fromhex(text)
        for at, question in enumerate(batch):
            if not question.labels and answers[at] == [None] and not question.is_empty:
                answers[at] = self._ask([question._replace(is_empty=True)])[0][1]
        return list(zip(batch, answers, strict=True))

    @contextmanager
    def _released(self) -> Iterator[None]:
        """Releases the locks that were taken meanwhile: else a transaction would lock DDL out of the tables until its
        end."""
        if not self._connection.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS:
            yield
            return
        with self._connection.cursor() as cursor:
            cursor.execute("SAVEPOINT strata_texts")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK TO SAVEPOINT strata_texts")


def _questions(name: TableName, definition: TableDefinition) -> Iterable[_Question]:
    for column in definition.columns:
        column_type = parse_column_type(column.column_type)
        if column_type.kind in LABELLED and (_has_lost(column.column_type) or not _shows_all(column)):
            yield _Question(name, column, len(column_type.labels))
        is_text = column_type.kind.facts.family in {Family.CHARACTERS, Family.LABELS}
        if is_text and column.default and _has_lost(column.default) and not column.default_is_expression:
            yield _Question(name, column, 0)


def _shows_all(column: Column) -> bool:
    """Whether a label without `?` is exact: if each byte is a character, no character can be cut."""
    charset = column.character_set or "binary"
    return charset != "binary" and CHARSETS[charset].max_bytes == 1


def _has_lost(text: str) -> bool:
    return _LOST in text


def _may_be_lost(column: Column) -> bool:
    return _has_lost(column.column_type) or _has_lost(column.default or "")


def _with_texts(column: Column, texts: Sequence[bytes | None], question: _Question) -> Column:
    """The column with the server's answer.

    Raises:
        DdlError: A label is not text in its charset, or the default is not reported.
    """
    charset = column.character_set or "binary"
    raw = tuple(text or b"" for text in texts)
    if not question.labels:
        if texts[0] is None:
            raise DdlError("the server does not tell its default")
        return replace(column, default=shown_label(raw[0], charset))
    shown = parse_column_type(column.column_type).labels
    if any(label and not text for label, text in zip(shown, raw, strict=True)):
        # MariaDB keeps a SET of such a query in one byte, and then only the first eight labels have texts (11.8).
        if _has_lost(column.column_type):
            raise DdlError("the server does not tell its labels")
        return column
    kind = replace(parse_column_type(column.column_type), labels=tuple(shown_label(label, charset) for label in raw))
    return replace(column, column_type=kind.text, label_bytes=hidden_bytes(raw, charset))


def _with_columns(definition: TableDefinition, columns: Mapping[str, Column]) -> TableDefinition:
    if not columns:
        return definition
    return replace(definition, columns=tuple(columns.get(column.name, column) for column in definition.columns))
