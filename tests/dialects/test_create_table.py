"""Versions as CREATE TABLE of other engines: executed in DuckDB, parsed back by sqlglot."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot

from strata_cdc.dialects.create_table import create_table
from strata_cdc.dialects.engines import Dialect
from strata_cdc.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition, TableName
from strata_cdc.schema.model.types import TypeKind
from tests.schema.test_definitions import GOLDEN

HOSTILE = TableName('d"`x', "t'\"`\\ ;--")
OTHERS = sorted(set(Dialect) - {Dialect.MYSQL})


def _plain(kind: TypeKind) -> str:
    return {"enum": "enum('a','b')", "set": "set('a','b')", "vector": "vector(3)"}.get(kind.value, kind.value)


EVERY_TYPE = TableDefinition(
    columns=(
        *(Column(f"c {kind.value}", _plain(kind)) for kind in TypeKind),
        Column("u", "bigint unsigned", nullable=False),
        Column("wide", "decimal(65,30)"),
        Column("bits", "bit(64)"),
        Column("n'\"`", "varchar(10)", comment="it's \\ a\n`comment`"),
    ),
    keys=(
        Key("PRIMARY", KeyKind.PRIMARY, (KeyPart("u"),)),
        Key("k", KeyKind.UNIQUE, (KeyPart("c int"), KeyPart("n'\"`"))),
        Key("prefix", KeyKind.UNIQUE, (KeyPart("c text", prefix_length=3),)),
    ),
)


@pytest.mark.parametrize("dialect", OTHERS)
def test_sqlglot_reads_it_back(dialect: Dialect):
    for definition in (*GOLDEN, EVERY_TYPE):
        for statement in create_table(HOSTILE, definition, dialect).statements:
            parsed = sqlglot.parse_one(statement, read=dialect.value)
            assert not isinstance(parsed, sqlglot.exp.Command)
            again = parsed.sql(dialect.value)
            assert again == sqlglot.parse_one(again, read=dialect.value).sql(dialect.value)
            table = parsed.find(sqlglot.exp.Table)
            if table is not None:
                assert (table.db, table.name) == (HOSTILE.database, HOSTILE.table)


def test_duckdb_takes_it():
    with duckdb.connect() as connection:
        connection.execute('CREATE SCHEMA "d""`x"')
        for definition in (*GOLDEN, EVERY_TYPE):
            for statement in create_table(HOSTILE, definition, Dialect.DUCKDB).statements:
                connection.execute(statement)
            columns = connection.execute(
                "SELECT column_name, is_nullable, comment FROM duckdb_columns() WHERE NOT internal "
                "ORDER BY column_index"
            ).fetchall()
            keys = connection.execute(
                "SELECT constraint_column_names FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'"
            )
            primary = [list(names) for (names,) in keys.fetchall()]
            assert [one[0] for one in columns] == [one.name for one in definition.columns]
            assert [one[2] or "" for one in columns] == [one.comment for one in definition.columns]
            assert [one[1] for one in columns] == [one.nullable for one in definition.columns]
            assert primary == ([list(definition.primary_key)] if _is_whole(definition) else [])
            connection.execute('DROP TABLE "d""`x"."t\'""`\\ ;--"')


def _is_whole(definition: TableDefinition) -> bool:
    return any(
        key.kind is KeyKind.PRIMARY and all(part.lengths == (None,) for part in key.parts) for key in definition.keys
    )


def test_what_is_lost_is_said():
    lost = create_table(HOSTILE, EVERY_TYPE, Dialect.SPARK).lost
    assert "key PRIMARY" in lost
    assert "wide: 65 digits are more than a number can have there: text" in lost
    assert "c time: TIME is a number of microseconds" in lost
    assert create_table(HOSTILE, TableDefinition(columns=(Column("a", "int"),)), Dialect.SPARK).lost == ()


def test_a_zero_date_that_not_null_refuses_is_said():
    """The lake has NULL for it, so rows of such a column may not load."""
    made = Column("made", "timestamp(3)", nullable=False)
    dated = TableDefinition(columns=(made, Column("day", "date"), Column("at", "time", nullable=False)))
    for dialect in OTHERS:
        lost = create_table(HOSTILE, dated, dialect).lost
        assert "zero dates, NULL in the lake, which NOT NULL refuses in made" in lost
