"""Rows of SELECT: of every column type, they are what the decoder gives of the same rows in the binlog."""

from __future__ import annotations

from hashlib import sha256

import pyarrow as pa
import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress, open_connection
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.changes.select.keys import select_key
from strata_cdc.changes.select.rows import SelectedRows, ServerSelect
from strata_cdc.changes.select.statement import prepare_session
from strata_cdc.errors import SchemaMismatchError, UndecodableTextError
from strata_cdc.schema.live.engine import LiveSchema
from strata_cdc.schema.model.definition import TableName
from tests.changes.live import Live, steps
from tests.changes.test_types import CASES, ESPECIALLY

pytestmark = pytest.mark.mysql

MORE = {
    "zerofill": ("int(9) unsigned zerofill", [0, 7, 4294967295]),
    "decimal_zerofill": ("decimal(50,3) unsigned zerofill", ["0", "0.5", "17.25"]),
    "latin1": ("varchar(40) character set latin1", ["é€", "", "\x81"]),
    "char_spaces": ("char(9)", ["a  ", " b"]),
    "sjis": ("text character set sjis", ["日本", "a"]),
    "utf16": ("varchar(40) character set utf16", ["😀é", ""]),
    "enum_latin1": ("enum('é','b') character set latin1", ["é", "b"]),
    "timestamp_zero": ("timestamp(2) null", ["0000-00-00", "1970-01-01 00:00:01", "2038-01-19 03:14:07.99"]),
    "float_sized": ("float(7,3)", [1.5, 0.001, -1234.567]),
    "json": ("json", ['{"b": [1.0, 1e300, "ä", null], "a": {}}', "3", '"x"']),
}
ALL = {**CASES, **MORE}


def connected(server):
    connection = open_connection(ServerAddress.from_url(server.url), autocommit=True)
    prepare_session(connection)
    return connection


def definitions_of(server, database):
    connection = open_connection(ServerAddress.from_url(server.url), autocommit=True)
    return {name: found for name, found in LiveSchema(connection).tables() if name.database == database}


def selected(connection, name, definition, tail="ORDER BY id"):
    batches = list(SelectedRows(connection, ServerSelect(name, definition, tail)))
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches) if batches else None


@pytest.fixture(scope="module")
def both(mysql_server):
    """By table: what the binlog has of its rows, and what the server selects."""
    live = Live(mysql_server)
    with live.recorded() as files:
        for name, (column_type, values) in ALL.items():
            live.run(f"CREATE TABLE `{name}` (id INT PRIMARY KEY AUTO_INCREMENT, v {column_type})")
            live.run("BEGIN")
            live.insert(name, "v", [(None,), *((value,) for value in values)])
            for expression in ESPECIALLY.get(name, ()):
                live.run(f"INSERT INTO `{name}` (v) VALUES ({expression})")
            live.run("COMMIT")
    definitions = definitions_of(mysql_server, live.database)
    logged = {}
    for step in steps(files[0], definitions):
        if isinstance(step, ChangeBatch):
            logged.setdefault(step.table.table, []).append(step.batch.select([0, 1]))
    connection = connected(mysql_server)
    return {
        name: (
            pa.Table.from_batches(logged[name]),
            selected(connection, TableName(live.database, name), definitions[TableName(live.database, name)]),
        )
        for name in ALL
    }


@pytest.mark.parametrize("name", ALL)
def test_selected_rows_are_those_of_the_binlog(both, name):
    logged, found = both[name]
    assert found.schema == logged.schema
    assert found.equals(logged)


def test_all_kinds_of_columns_of_one_table(mysql_server):
    live = Live(mysql_server)
    with live.recorded() as files:
        live.run(
            "CREATE TABLE t (id INT PRIMARY KEY, hidden INT INVISIBLE, v INT AS (id + 1) VIRTUAL, s INT AS (id * 2) "
            "STORED, `odd ``name` CHAR(3), `_seq` INT)"
        )
        live.run("CREATE TABLE g (a INT) CHARSET latin1")
        live.run("INSERT INTO t (id, hidden, `odd ``name`, `_seq`) VALUES (1, 2, 'x', 3), (2, NULL, NULL, NULL)")
    name = TableName(live.database, "t")
    definition = definitions_of(mysql_server, live.database)[name]
    [logged] = [step.batch for step in steps(files[0], {name: definition}) if isinstance(step, ChangeBatch)]
    found = selected(connected(mysql_server), name, definition)
    assert found.to_pylist() == pa.Table.from_batches([logged.select(range(6))]).to_pylist()


def test_rows_of_any_length(mysql_server):
    """Rows in several packets, of exactly as many bytes as a packet has, and next to each other."""
    live = Live(mysql_server)
    live.run("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
    # A packet of 0xFFFFFF bytes is followed by an empty one: a zero, a byte of NULLs, an id, a length, and the value.
    for number, size in enumerate([0, 0xFFFFFF - 10, 0xFFFFFF - 11, 0xFFFFFF - 9, 17 << 20, 34 << 20, 5]):
        live.run("INSERT INTO t VALUES (%s, REPEAT(CHAR(65 + %s), %s))", number, number, size)
    name = TableName(live.database, "t")
    definition = definitions_of(mysql_server, live.database)[name]
    found = selected(connected(mysql_server), name, definition)
    truth = live.run("SELECT id, LENGTH(v), SHA2(v, 256) FROM t ORDER BY id")

    rows = [(row["id"], len(row["v"]), sha256(row["v"]).hexdigest()) for row in found.to_pylist()]
    assert rows == truth


def test_many_rows_come_in_batches(mysql_server):
    live = Live(mysql_server)
    live.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    live.run("SET SESSION cte_max_recursion_depth = 1000000")
    live.run(
        "INSERT INTO t WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 150000) "
        "SELECT n, CONCAT('row ', n) FROM r"
    )
    name = TableName(live.database, "t")
    definition = definitions_of(mysql_server, live.database)[name]
    connection = connected(mysql_server)
    rows = SelectedRows(connection, ServerSelect(name, definition, "ORDER BY id", border=("id",)))
    found = pa.Table.from_batches(list(rows))
    assert (rows.rows, rows.border) == (150_000, ("150000",))
    assert found["id"].to_pylist() == list(range(1, 150_001))
    assert found["v"][99_999].as_py() == "row 100000"
    # The connection is free again.
    assert selected(connection, name, definition, "WHERE id > 149998").num_rows == 2
    assert selected(connection, name, definition, "WHERE id < 0") is None


def test_text_that_is_none_is_refused(mysql_server):
    live = Live(mysql_server)
    live.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET sjis)")
    live.run("INSERT INTO t VALUES (1, 'ok'), (2, _sjis x'6181ad62')")
    name = TableName(live.database, "t")
    definition = definitions_of(mysql_server, live.database)[name]
    with pytest.raises(UndecodableTextError, match="column v has a value that is not text in sjis"):
        selected(connected(mysql_server), name, definition)


@pytest.mark.parametrize("change", ["MODIFY v BIGINT", "MODIFY v INT UNSIGNED", "MODIFY v VARCHAR(9)"])
def test_a_table_that_was_altered_is_refused(mysql_server, change):
    live = Live(mysql_server)
    live.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    name = TableName(live.database, "t")
    definition = definitions_of(mysql_server, live.database)[name]
    live.run(f"ALTER TABLE t {change}")
    with pytest.raises(SchemaMismatchError, match="column v arrives with type"):
        selected(connected(mysql_server), name, definition)


KEYS = {
    "composite": ("a INT, b VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, PRIMARY KEY (a, b)",
                  "(1, 'a'), (1, 'B'), (1, 'c'), (2, ''), (2, 'Ä'), (-1, 'z')"),
    "unsigned": ("a BIGINT UNSIGNED PRIMARY KEY", "(0), (9223372036854775807), (9223372036854775808), "
                 "(18446744073709551615)"),
    "descending": ("a INT, b INT, PRIMARY KEY (a, b DESC)", "(1, 1), (1, 2), (2, 5), (2, 4)"),
    "ignoring_case": ("a VARCHAR(9) CHARSET latin1 COLLATE latin1_german2_ci PRIMARY KEY",
                      "('a'), ('B'), ('ä'), ('\\'x'), ('')"),
    "binary": ("a VARBINARY(9) PRIMARY KEY", "(x''), (x'00'), (x'0000'), (x'00ff'), (x'2700')"),
    "padded": ("a BINARY(3) PRIMARY KEY", "(x'00'), (x'0001'), (x'ff')"),
    "decimal": ("a DECIMAL(30,10) PRIMARY KEY", "(-1.5), (0), (0.0000000001), (12345678901234567890.5)"),
    "long_decimal": ("a DECIMAL(60,10) PRIMARY KEY", "(-1.5), (0), (0.0000000001), (12345678901234567890.5)"),
    "date": ("a DATE PRIMARY KEY", "('0001-01-01'), ('2024-02-29'), ('9999-12-31')"),
    "datetime": ("a DATETIME(6) PRIMARY KEY", "('0987-01-01'), ('2024-02-29 01:02:03.000004'), ('9999-12-31')"),
    "timestamp": ("a TIMESTAMP(3) PRIMARY KEY", "('1970-01-01 00:00:01'), ('2024-02-29 01:02:03.004')"),
    "time": ("a TIME(2) PRIMARY KEY", "('-838:59:59'), ('-00:00:00.01'), ('0'), ('838:59:59')"),
    "year": ("a YEAR PRIMARY KEY", "(0), (1901), (2155)"),
    "bit": ("a BIT(64) PRIMARY KEY", "(0), (1), (9223372036854775808), (18446744073709551615)"),
    "enum": ("a ENUM('z','a','m') PRIMARY KEY", "('z'), ('a'), ('m')"),
    "set": ("a SET('z','a','m') PRIMARY KEY", "('z'), ('a'), ('m,z'), ('')"),
    "float": ("a FLOAT PRIMARY KEY", "(-0.1), (0), (0.1), (1e30), (1e-30)"),
    "double": ("a DOUBLE PRIMARY KEY", "(-0.1), (0), (0.1), (1e300), (5)"),
    "unique": ("a INT NOT NULL, b INT, UNIQUE (b), UNIQUE `u` (a)", "(3, NULL), (1, NULL), (2, 7)"),
    "utf16": ("a CHAR(3) CHARSET utf16 PRIMARY KEY", "('a'), ('é'), ('😀'), ('日本')"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_a_table_is_read_row_by_row_in_the_order_of_its_key(mysql_server, name):
    live = Live(mysql_server)
    columns, rows = KEYS[name]
    live.run(f"CREATE TABLE t ({columns})")
    live.run(f"INSERT INTO t VALUES {rows}")
    table = TableName(live.database, "t")
    definition = definitions_of(mysql_server, live.database)[table]
    key = select_key(definition)
    connection = connected(mysql_server)
    everything = ServerSelect(table, definition, f"{key.hint()} {key.order}")
    whole = pa.Table.from_batches(list(SelectedRows(connection, everything)))
    found, border, borders = [], (), []
    for _ in range(whole.num_rows + 1):
        where = f"WHERE {key.after(border)}" if border else ""
        tail = f"{key.hint()} {where} {key.order} LIMIT 1"
        read = SelectedRows(connection, ServerSelect(table, definition, tail, border=key.columns))
        batches = list(read)
        if not batches:
            break
        before, border = border, read.border
        borders.append(border)
        found += batches
        between = " AND ".join(filter(None, [key.after(before), key.up_to(border)]))
        [again] = SelectedRows(connection, ServerSelect(table, definition, f"WHERE {between}"))
        assert again.equals(batches[0])
    assert pa.Table.from_batches(found).equals(whole)
    if name in ("enum", "set"):
        # Compared by their numbers, for which the range optimizer has no place in an index; few rows have such a key.
        return
    # The server goes to the place in the index, and reads one row.
    live.run("FLUSH STATUS")
    live.run(f"SELECT * FROM t {key.hint()} WHERE {key.after(borders[0])} {key.order} LIMIT 1")
    assert sum(int(count) for _, count in live.run("SHOW SESSION STATUS LIKE 'Handler_read%'")) <= 3


@pytest.mark.parametrize(
    "columns",
    ["a INT", "a INT UNIQUE", "a TEXT NOT NULL, UNIQUE (a(5))", "a INT NOT NULL, b INT, UNIQUE (a, b)",
     "a INT NOT NULL, UNIQUE ((a + 1))"],
)  # fmt: skip
def test_some_tables_have_no_key_to_read_by(mysql_server, columns):
    live = Live(mysql_server)
    live.run("SET SESSION sql_generate_invisible_primary_key = OFF")
    live.run(f"CREATE TABLE t ({columns})")
    assert select_key(definitions_of(mysql_server, live.database)[TableName(live.database, "t")]) is None
