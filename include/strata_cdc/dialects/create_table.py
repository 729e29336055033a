"""Writes a schema version as CREATE TABLE of another engine, as a tree of sqlglot.
Not here: types (`types.py`), MySQL's own form (`schema/model/create_sql.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from sqlglot import exp

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.types import ForeignType, foreign_type
from strata_cdc.schema.model.definition import KeyKind
from strata_cdc.schema.model.types import TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.schema.model.definition import Column, Key, TableDefinition, TableName

_HAS_COLUMN_COMMENTS = frozenset({Dialect.SPARK, Dialect.SNOWFLAKE, Dialect.CLICKHOUSE})
_HAS_COMMENT_STATEMENTS = frozenset({Dialect.DUCKDB, Dialect.POSTGRES})
_HAS_PRIMARY_KEYS = frozenset(set(Dialect) - {Dialect.SPARK, Dialect.MYSQL})
_WITH_ZERO_DATES = frozenset({TypeKind.DATE, TypeKind.DATETIME, TypeKind.TIMESTAMP})
_HAS_UNIQUE_KEYS = frozenset({Dialect.DUCKDB, Dialect.POSTGRES, Dialect.SNOWFLAKE})


class ForeignTable(Struct, frozen=True):
    """The statements that create the table in another engine."""

    statements: tuple[str, ...]
    """CREATE TABLE; then statements for comments, if the engine has such statements."""
    lost: tuple[str, ...]
    """What MySQL's table has, and the statements do not express."""


def create_table(name: TableName, definition: TableDefinition, dialect: Dialect) -> ForeignTable:
    """Returns the table for another engine. A schema with the name of the database must exist there.

    Args:
        dialect: The engine; not MySQL.
    """
    types = {column.name: foreign_type(column.column_type, dialect) for column in definition.columns}
    table = exp.Table(this=_name(name.table), db=_name(name.database))
    elements: list[exp.Expr] = [_column(column, types[column.name], dialect) for column in definition.columns]
    elements += _keys(definition, dialect)
    made = exp.Create(
        this=exp.Schema(this=table, expressions=elements), kind="TABLE", properties=_properties(definition, dialect)
    )
    return ForeignTable(
        tuple(
            expression.sql(dialect.value, pretty=True) for expression in (made, *_comments(table, definition, dialect))
        ),
        tuple(_lost(definition, types, dialect)),
    )


def _name(text: str) -> exp.Identifier:
    return exp.to_identifier(text, quoted=True)


def _column(column: Column, kind: ForeignType, dialect: Dialect) -> exp.ColumnDef:
    constraints: list[exp.Expr] = []
    built = exp.DataType.build(kind.text, dialect=dialect.value)
    if dialect is Dialect.CLICKHOUSE:
        # Arrays cannot be NULL in this engine.
        built.set("nullable", column.nullable and not built.is_type(exp.DataType.Type.ARRAY))
    elif not column.nullable:
        constraints.append(exp.NotNullColumnConstraint())
    if column.comment and dialect in _HAS_COLUMN_COMMENTS:
        constraints.append(exp.CommentColumnConstraint(this=exp.Literal.string(column.comment)))
    if column.comment and dialect is Dialect.BIGQUERY:
        about = exp.Property(this=exp.var("description"), value=exp.Literal.string(column.comment))
        constraints.append(exp.Properties(expressions=[about]))
    return exp.ColumnDef(
        this=_name(column.name),
        kind=built,
        constraints=[exp.ColumnConstraint(kind=constraint) for constraint in constraints],
    )


def _keys(definition: TableDefinition, dialect: Dialect) -> Iterator[exp.Expr]:
    for key in definition.keys:
        names = [_name(part.column) for part in key.parts if part.column is not None]
        if not _is_kept(key, dialect):
            continue
        if key.kind is KeyKind.PRIMARY:
            options = ["NOT ENFORCED"] if dialect is Dialect.BIGQUERY else []
            yield exp.PrimaryKey(expressions=names, options=options)
        else:
            yield exp.UniqueColumnConstraint(this=exp.Schema(expressions=names))


def _is_kept(key: Key, dialect: Dialect) -> bool:
    """Whether the engine has such a key; only MySQL has prefixes and expressions in keys."""
    if any(part.column is None or part.lengths != (None,) for part in key.parts):
        return False
    if key.kind is KeyKind.PRIMARY:
        return dialect in _HAS_PRIMARY_KEYS
    return key.kind is KeyKind.UNIQUE and dialect in _HAS_UNIQUE_KEYS


def _properties(definition: TableDefinition, dialect: Dialect) -> exp.Properties | None:
    if dialect is not Dialect.CLICKHOUSE:
        return None
    key = [exp.Column(this=_name(name)) for name in definition.primary_key]
    order = exp.Order(expressions=[exp.Ordered(this=exp.Tuple(expressions=key))])
    return exp.Properties(expressions=[exp.EngineProperty(this=exp.to_identifier("MergeTree")), order])


def _comments(table: exp.Table, definition: TableDefinition, dialect: Dialect) -> Iterator[exp.Comment]:
    if dialect not in _HAS_COMMENT_STATEMENTS:
        return
    for column in definition.columns:
        if column.comment:
            yield exp.Comment(
                this=exp.Column(
                    this=_name(column.name), table=table.this.copy(), db=table.args["db"].copy(), catalog=None
                ),
                kind="COLUMN",
                expression=exp.Literal.string(column.comment),
            )


def _lost(definition: TableDefinition, types: dict[str, ForeignType], dialect: Dialect) -> Iterator[str]:
    for column in definition.columns:
        lost = types[column.name].lost
        if lost is not None:
            yield f"{column.name}: {lost}"
    yield from (f"key {key.name}" for key in definition.keys if not _is_kept(key, dialect))
    yield from _named("the defaults of", [column.name for column in definition.columns if column.default is not None])
    yield from _named("ON UPDATE of", [column.name for column in definition.columns if column.on_update is not None])
    yield from _named("AUTO_INCREMENT of", [column.name for column in definition.columns if column.auto_increment])
    yield from _named(
        "that MySQL computes", [column.name for column in definition.columns if column.generated is not None]
    )
    yield from _named("zero dates, NULL in the lake, which NOT NULL refuses in", _undated(definition))
    yield from _named("that SELECT * leaves out", [column.name for column in definition.columns if column.invisible])
    yield from _named("the collations of", _collated(definition))
    if definition.options:
        yield "the partitioning"


def _undated(definition: TableDefinition) -> list[str]:
    """Columns that may hold `0000-00-00`, NOT NULL or not: MySQL takes it unless NO_ZERO_DATE is in the `sql_mode`."""
    return [
        column.name
        for column in definition.columns
        if not column.nullable and parse_column_type(column.column_type).kind in _WITH_ZERO_DATES
    ]


def _collated(definition: TableDefinition) -> list[str]:
    """Columns whose texts are not compared only by their characters."""
    return [
        column.name
        for column in definition.columns
        if column.collation is not None and not column.collation.endswith("_bin")
    ]


def _named(what: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield f"{what} {', '.join(names)}"
