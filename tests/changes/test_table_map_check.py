"""A version that contradicts the log is noticed, and what then happens is what was asked for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from strata_cdc.changes.decode_plans import OnMismatch
from strata_cdc.changes.port import ChangeBatch, Hole, QuarantinedRows
from strata_cdc.errors import SchemaMismatchError, StatementFormatError
from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
from tests.changes.live import Live, changes, steps

pytestmark = pytest.mark.mysql

RIGHT = {
    "id": "int", "a": "int unsigned", "b": "decimal(10,2)", "c": "varchar(20)", "d": "char(5)", "e": "datetime(3)",
    "f": "enum('x','y')", "g": "set('p','q')", "h": "text", "i": "bit(5)", "j": "binary(4)", "k": "timestamp",
}  # fmt: skip
WRONG = {
    "a": ["int", "bigint unsigned", "int unsigned NULLABLE", "float"],
    "b": ["decimal(10,3)", "decimal(11,2)", "double"],
    "c": ["varchar(21)", "varchar(20) latin1", "varbinary(80)", "text"],
    "d": ["char(6)", "binary(20)"],
    "e": ["datetime(2)", "datetime", "timestamp(3)", "date"],
    "f": ["set('x','y')", "int"],
    "g": ["set('a','b','c','d','e','f','g','h','i')"],
    "h": ["mediumtext", "blob", "json"],
    "i": ["bit(6)", "tinyint"],
    "j": ["binary(5)", "varbinary(4)"],
    "k": ["timestamp(1)", "datetime"],
}


def _column(name: str, text: str) -> Column:
    words = text.split(" ")
    charset = words[1] if len(words) > 1 and words[1] == "latin1" else "utf8mb4"
    column_type = " ".join(word for word in words if word not in ("latin1", "NULLABLE"))
    is_text = column_type.startswith(("varchar", "char", "text", "mediumtext", "enum", "set"))
    return Column(name, column_type, "NULLABLE" in words, charset if is_text else None)


@pytest.fixture(scope="module")
def written(mysql_server):
    live = Live(mysql_server)
    columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in RIGHT.items())
    with live.recorded() as files:
        live.run(f"CREATE TABLE t ({columns})")
        live.run("CREATE TABLE other (n INT)")
        live.run("INSERT INTO t VALUES (1,2,3,'c','d','2024-01-01','x','p','h',1,'j','2024-01-01')")
        live.run("INSERT INTO other VALUES (5)")
        live.run("DELETE FROM t")
    return TableName(live.database, "t"), live.definition("t"), files[0], TableName(live.database, "other")


OTHER = TableDefinition((Column("n", "int"),))


def test_the_right_version_agrees(written):
    name, definition, path, _ = written
    assert definition.columns == tuple(_column(each, kind) for each, kind in RIGHT.items())
    assert [change["op"] for change in changes(path, {name: definition})] == ["insert", "delete"]


def test_the_length_of_a_varchar_in_the_log_is_in_bytes(written):
    name, definition, path, other = written
    longer = tuple(_column("c", "varchar(80)") if each.name == "c" else each for each in definition.columns)
    found = steps(path, {name: replace(definition, columns=longer), other: OTHER})
    aside = next(step for step in found if isinstance(step, QuarantinedRows))
    assert "column c is varchar(80) in the schema and VARCHAR of 80 bytes in the TABLE_MAP" in aside.error.message


@pytest.mark.parametrize(("column", "kind"), [(name, kind) for name, kinds in WRONG.items() for kind in kinds])
def test_any_other_type_is_noticed(written, column, kind):
    name, definition, path, other = written
    columns = tuple(_column(column, kind) if each.name == column else each for each in definition.columns)
    found = list(steps(path, {name: replace(definition, columns=columns), other: OTHER}))
    aside = [step for step in found if isinstance(step, QuarantinedRows)]
    assert {step.table for step in aside} == {name}
    assert sum(step.rows.num_rows for step in aside) == 2
    assert isinstance(aside[0].error, SchemaMismatchError)
    assert f"column {column} is" in aside[0].error.message
    assert aside[0].error.gtid == aside[0].rows.column("_gtid")[0].as_py()
    assert aside[0].rows.column("@1")[0].as_py() == 1
    assert [step.table for step in found if isinstance(step, ChangeBatch)] == [other]


def test_failing_stops_before_the_rows(written):
    name, definition, path, other = written
    fewer = replace(definition, columns=definition.columns[:-1])
    with pytest.raises(SchemaMismatchError, match="of 11 columns in the schema and of 12") as raised:
        list(steps(path, {name: fewer, other: OTHER}, on_mismatch=OnMismatch.FAIL))
    assert raised.value.table == str(name)
    assert raised.value.offset is not None


def test_lenient_drops_what_the_version_lacks(written):
    name, definition, path, _ = written
    fewer = replace(definition, columns=definition.columns[:3])
    found = list(steps(path, {name: fewer}, on_mismatch=OnMismatch.LENIENT))
    rows = [row for step in found if isinstance(step, ChangeBatch) for row in step.batch.to_pylist()]
    assert [(row["id"], row["_op"]) for row in rows] == [(1, "insert"), (None, "delete")]
    assert [type(step.error) for step in found if isinstance(step, Hole)] == [SchemaMismatchError]


def test_lenient_fills_in_the_default(written):
    name, definition, path, _ = written
    more = (
        *definition.columns,
        Column("n", "int", default="7"),
        Column("s", "varchar(5)", default="a"),
        Column("x", "json"),
    )
    found = list(steps(path, {name: replace(definition, columns=more)}, on_mismatch=OnMismatch.LENIENT))
    rows = [row for step in found if isinstance(step, ChangeBatch) for row in step.batch.to_pylist()]
    assert [(row["n"], row["s"], row["x"]) for row in rows] == [(7, "a", None), (None, None, None)]
    assert (rows[1]["_before"]["n"], rows[1]["_before"]["s"], rows[0]["_before"]) == (7, "a", None)


def test_rows_that_a_statement_changed_are_a_hole(mysql_server):
    live = Live(mysql_server)
    with live.recorded() as files:
        live.run("CREATE TABLE t (a INT)")
        live.run("INSERT INTO t VALUES (1)")
        live.run("SET binlog_format = STATEMENT")
        live.run("UPDATE t SET a = 2")
        live.run("SET binlog_format = ROW")
        live.run("INSERT INTO t VALUES (3)")
    name = TableName(live.database, "t")
    found = list(steps(files[0], {name: TableDefinition((Column("a", "int"),))}))
    holes = [step.error for step in found if isinstance(step, Hole)]
    assert [(type(error), error.table) for error in holes] == [(StatementFormatError, str(name))]
    assert holes[0].gtid is not None
    rows = [row["a"] for step in found if isinstance(step, ChangeBatch) for row in step.batch.to_pylist()]
    assert rows == [1, 3]
