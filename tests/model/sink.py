"""The stream as a changefeed would give it to its sink: rows by the names of columns, decoded with the schema of done
DDL, and DDL as text.
Not here: the files of a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from tests.model.jobs import Kind
from tests.model.replay import stored_table
from tests.model.stream import RowChange, SchemaChange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.cluster import Cluster
    from tests.model.schema import Column, Schema
    from tests.model.store import Row
    from tests.model.stream import Stream

Values = dict[str, int | str | None]
KEY: Final = "id"
_ACTIONS: Final = {
    Kind.ADD_COLUMN: 5,
    Kind.DROP_COLUMN: 6,
    Kind.ADD_INDEX: 7,
    Kind.DROP_INDEX: 8,
    Kind.TRUNCATE_TABLE: 11,
    Kind.MODIFY_COLUMN: 12,
    Kind.ADD_PARTITION: 19,
    Kind.DROP_PARTITION: 20,
    Kind.TRUNCATE_PARTITION: 23,
    Kind.EXCHANGE_PARTITION: 42,
    Kind.MULTI_SCHEMA: 61,
}
"""TiDB's numbers of DDL (`pkg/meta/model`, ActionType)."""


class SinkColumn(Struct, frozen=True):
    """A column as a sink describes it. A column that replaces another by MODIFY COLUMN has its name."""

    id: int
    name: str
    type: str
    default: int | None


class SinkDdl(Struct, frozen=True):
    """A DDL, and the table that it made."""

    finished_ts: int
    action: int
    query: str
    columns: tuple[SinkColumn, ...]
    parts: tuple[int, ...]
    """The physical ids that it has now."""


class SinkRow(Struct, frozen=True):
    """A change: `old` or `new` is None where there is none."""

    commit_ts: int
    table: str
    part: int
    key: int
    version: int
    """The schema version of the node that wrote it, which no sink shows."""
    old: Values | None
    new: Values | None


Rows = dict[tuple[int, int], Values]
"""The rows of a table, by physical id and key."""


def applied(rows: Rows, change: SinkDdl | SinkRow) -> Rows:
    """A table after one more change."""
    if isinstance(change, SinkDdl):
        parts = {part for part, _ in rows} & set(change.parts)
        return {row: _converted(values, change.columns) for row, values in rows.items() if row[0] in parts}
    others = {row: values for row, values in rows.items() if row != (change.part, change.key)}
    return others if change.new is None else {**others, (change.part, change.key): change.new}


def _converted(values: Values, columns: tuple[SinkColumn, ...]) -> Values:
    cast = {"INT": int, "VARCHAR": str}
    known = {column.name: values.get(column.name, column.default) for column in columns}
    casts = {column.name: cast[column.type] for column in columns}
    return {KEY: values[KEY]} | {name: None if value is None else casts[name](value) for name, value in known.items()}


def sink_columns(schema: Schema) -> tuple[SinkColumn, ...]:
    """The columns of a table, without its key `id INT`."""
    return tuple(
        SinkColumn(column.id, _name(column), "VARCHAR" if column.is_text else "INT", column.default)
        for column in schema.public_columns
    )


def sink_changes(stream: Stream) -> Iterator[SinkDdl | SinkRow]:
    """The stream in its order. Rows of partitions or tables that the schema does not have are dropped."""
    schema = stream.first
    for change in stream.changes:
        if isinstance(change, SchemaChange):
            yield _ddl(change, schema)
            schema = change.schema
        elif any(part.id == change.part for part in schema.public_parts):
            yield _row(change, schema)


def _ddl(change: SchemaChange, old: Schema) -> SinkDdl:
    parts = tuple(part.id for part in change.schema.public_parts)
    columns = sink_columns(change.schema)
    return SinkDdl(change.finished_ts, _ACTIONS[change.kind], _query(change, old), columns, parts)


def _row(change: RowChange, schema: Schema) -> SinkRow:
    part = next(part for part in schema.public_parts if part.id == change.part)

    def values(row: Row | None) -> Values | None:
        if row is None:
            return None
        return {KEY: change.key} | {
            _name(column): row.get(column.id, column.default) for column in schema.public_columns
        }

    old, new = values(change.before), values(change.after)
    return SinkRow(change.commit_ts, part.table, change.part, change.key, change.schema.number, old, new)


def _name(column: Column) -> str:
    return f"c{column.lineage}"


def _query(change: SchemaChange, old: Schema) -> str:
    """The statement, as far as it is about columns or drops something; of other DDL its kind."""
    before = {column.lineage: column for column in old.public_columns}
    after = {column.lineage: column for column in change.schema.public_columns}
    clauses = [
        f"ADD COLUMN {_name(column)} INT DEFAULT {column.default}"
        for lineage, column in after.items()
        if lineage not in before
    ]
    clauses += [f"DROP COLUMN {_name(column)}" for lineage, column in before.items() if lineage not in after]
    clauses += [
        f"MODIFY COLUMN {_name(column)} {'VARCHAR(20)' if column.is_text else 'INT'}"
        for lineage, column in after.items()
        if lineage in before and before[lineage].id != column.id
    ]
    if change.kind is Kind.MULTI_SCHEMA:
        clauses.append("DROP INDEX i1")
    if clauses:
        return f"ALTER TABLE t {', '.join(clauses)}"
    return "TRUNCATE TABLE t" if change.kind is Kind.TRUNCATE_TABLE else f"ALTER TABLE t {change.kind.value} x"


def users_rows(cluster: Cluster) -> Rows:
    """The rows that users of the newest version see, as a sink names their columns."""
    columns = cluster.newest.public_columns
    return {
        (row.part, row.key): {KEY: row.key} | {_name(column): values[column.id] for column in columns}
        for row, values in stored_table(cluster).items()
    }
