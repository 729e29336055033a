"""How an engine reads a change table, and the names of the views over it.
Not here: the views (`views.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from sqlglot import exp

from strata_cdc.dialects.engines import Dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.model.definition import TableName


Relation = exp.Expr
"""What comes after FROM."""

ViewName = exp.Table
"""The name of a view."""


class Through(StrEnum):
    """How an engine reads change tables."""

    DELTA = "delta"
    """With its reader for Delta tables: DuckDB's extension `delta`, Spark's connector."""
    FILES = "files"
    """From the Parquet files that the table has now: create the views again when something is published."""


def relation_of(
    dialect: Dialect, through: Through, name: TableName, url: str, files: Sequence[str]
) -> tuple[exp.Expr, list[str]]:
    """Returns what comes after FROM, and statements that must run before.

    Args:
        dialect: DuckDB or Spark.
        through: How the engine reads.
        url: URL of its change table.
        files: Its data files, relative to the URL.
    """
    if dialect is Dialect.DUCKDB:
        return _duckdb(through, url, files), []
    if through is Through.DELTA:
        return exp.Table(this=exp.to_identifier(url, quoted=True), db=exp.to_identifier("delta")), []
    view = exp.Table(this=exp.to_identifier(f"{name.database}__{name.table}__files", quoted=True))
    options = {"path": f"{escaped(url)}/{{{','.join(map(escaped, files))}}}", "mergeSchema": "true"}
    properties = [
        exp.TemporaryProperty(),
        exp.FileFormatProperty(this=exp.var("parquet")),
        exp.OptionsProperty(
            expressions=[
                exp.Property(this=exp.var(key), value=exp.Literal.string(text)) for key, text in options.items()
            ]
        ),
    ]
    made = exp.Create(this=view, kind="VIEW", replace=True, properties=exp.Properties(expressions=properties))
    return view.copy(), [made.sql(dialect.value)]


def registered(name: str) -> exp.Expr:
    """Returns what comes after FROM for rows that are registered with a connection under a name."""
    return exp.Table(this=exp.to_identifier(name, quoted=True))


def _duckdb(through: Through, url: str, files: Sequence[str]) -> exp.Expr:
    if through is Through.DELTA:
        return exp.Table(this=exp.Anonymous(this="delta_scan", expressions=[exp.Literal.string(url)]))
    listed = exp.Array(expressions=[exp.Literal.string(f"{url}/{path}") for path in files])
    by_name = exp.EQ(this=exp.Column(this=exp.to_identifier("union_by_name")), expression=exp.true())
    return exp.Table(this=exp.ReadParquet(expressions=[listed, by_name]))


def escaped(text: str) -> str:
    """Returns a path that Spark does not read as a pattern."""
    return "".join(f"\\{ch}" if ch in "*?[]{}\\," else ch for ch in text)


def view_name(name: TableName, ending: str, dialect: Dialect, through: Through) -> exp.Table:
    """Returns the name of a view; in Spark, views over temporary views are temporary, too, and in no database."""
    if dialect is Dialect.SPARK and through is Through.FILES:
        return exp.Table(this=exp.to_identifier(f"{name.database}__{name.table}{ending}", quoted=True))
    return exp.Table(
        this=exp.to_identifier(f"{name.table}{ending}", quoted=True), db=exp.to_identifier(name.database, quoted=True)
    )


def schema_of(view: exp.Table, dialect: Dialect) -> list[str]:
    """Returns the statements that create the schema of a view, if the view is in a schema."""
    if not view.db:
        return []
    schema = exp.Table(db=exp.to_identifier(view.db, quoted=True))
    return [exp.Create(this=schema, kind="SCHEMA", exists=True).sql(dialect.value)]
