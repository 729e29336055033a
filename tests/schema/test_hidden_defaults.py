"""Defaults of BINARY and VARBINARY with zero bytes anywhere, and shorter than their column, on a real server: what is
read of it, what statements say, and what a row gets are the same bytes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from strata_cdc.binlog.protocol.connection import connect
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.history.fills import fill_of
from strata_cdc.schema.live import exact_texts
from strata_cdc.schema.live.engine import read_definition
from strata_cdc.schema.model.binary_defaults import may_hide_bytes
from strata_cdc.schema.model.create_sql import create_table_sql
from strata_cdc.schema.model.definition import TableDefinition, TableName, definition_from_json
from strata_cdc.schema.replay.catalog import Catalog
from tests.interposed import interposed
from tests.landing.landing import address_of
from tests.seeds import seeds

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

TABLE = TableName("hidden", "t")
ENDS = range(256)


def column(name: str, raw: bytes, random: Random) -> str:
    """A column with this default, in one of the forms that statements have for it."""
    kind, more = random.choice(["BINARY", "VARBINARY"]), random.choice([0, 0, 1, 5])
    forms = [f"0x{raw.hex()}", f"X'{raw.hex()}'", f"b'{int.from_bytes(raw):0{8 * len(raw)}b}'"]
    if raw.isascii():
        forms.append("'" + "".join(f"\\{chr(byte)}" if chr(byte) in "'\\" else chr(byte) for byte in raw) + "'")
    null = random.choice(["", " NOT NULL"])
    return f"`{name}` {kind}({len(raw) + more}){null} DEFAULT {random.choice(forms)}"


def drawn(random: Random) -> list[str]:
    """All bytes at each end, and some between."""
    found = []
    for number in ENDS:
        middle = bytes(random.choice([0, 0x61, 0xE9, 0xFF]) for _ in range(random.randint(0, 3)))
        found += [column(f"b{number}", bytes([number]) + middle, random)]
        found += [column(f"e{number}", middle + bytes([number]), random)]
    return found


def replayed(*statements: str) -> TableDefinition:
    catalog = Catalog()
    catalog.put_database(TABLE.database, "utf8mb4_0900_ai_ci")
    for statement in statements:
        catalog.apply(read_ddl(statement, DdlContext(TABLE.database)))
    found = catalog.get(TABLE)
    assert isinstance(found, TableDefinition)
    return found


def read(server: MysqlServer) -> TableDefinition:
    with connect(address_of(server)) as connection:
        found = read_definition(connection, TABLE)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", seeds())
def test_the_bytes_of_a_row_are_read_and_replayed(mysql_server: MysqlServer, seed: int) -> None:
    random = Random(seed)
    columns = drawn(random)
    made, added = columns[: len(columns) // 2], columns[len(columns) // 2 :]
    statements = [
        f"CREATE TABLE t (id INT, {', '.join(made)})",
        f"ALTER TABLE t {', '.join(f'ADD {one}' for one in added)}",
        "ALTER TABLE t ALTER b0 SET DEFAULT 0x00, ALTER b1 SET DEFAULT 0x0",
        "ALTER TABLE t MODIFY b2 VARBINARY(9) DEFAULT 0x020002, CHANGE b3 b3 BINARY(8) DEFAULT 'a'",
    ]
    mysql_server.run_sql("DROP DATABASE IF EXISTS hidden; CREATE DATABASE hidden")
    with mysql_server.connect(TABLE.database) as connection, connection.cursor() as cursor:
        for statement in [*statements, "INSERT INTO t (id) VALUES (1)", "COMMIT"]:
            cursor.execute(statement)
    found, told = read(mysql_server), replayed(*statements)
    names = [one.name for one in found.columns[1:]]
    line = mysql_server.run_sql(f"SELECT {', '.join(f'HEX(`{name}`)' for name in names)} FROM hidden.t").split("\n")[1]
    got = {name: f"0x{value}" for name, value in zip(names, line.split("\t"), strict=True)}
    for definition in (found, told):
        assert {one.name: fill_of(one) for one in definition.columns[1:]} == got
    assert found.columns == told.columns
    # They are stored, and a statement that is made of them makes them again.
    assert definition_from_json(found.to_json(), found.stored_format) == found
    assert replayed(create_table_sql("t", found)).columns == found.columns


def test_nothing_is_known_where_the_server_does_not_tell(mysql_server: MysqlServer) -> None:
    mysql_server.run_sql(
        "DROP DATABASE IF EXISTS hidden; CREATE DATABASE hidden;"
        "CREATE TABLE hidden.t (a VARBINARY(5) DEFAULT 0x610062, b VARBINARY(1) DEFAULT 0x61)"
    )
    with interposed(lambda *_: "`no such table`", (exact_texts, "quoted")):
        one, other = read(mysql_server).columns
    assert (one.default, one.default_bytes, may_hide_bytes(one)) == ("0x61", None, True)
    assert (other.default_bytes, may_hide_bytes(other)) == (None, False)


def test_definitions_without_them_open_and_are_the_same() -> None:
    """What versions before this have stored."""
    plain = replayed("CREATE TABLE t (a VARBINARY(1) DEFAULT 0x61)")
    assert (plain.stored_format, "default_bytes" in plain.to_json()) == (1, False)
    former = '{"columns":[{"column_type":"varbinary(5)","default":"0x61","name":"a"}]}'
    opened = definition_from_json(former, 1)
    assert (opened.to_json(), opened.stored_format) == (former, 1)
    with_bytes = replace(opened, columns=(replace(opened.columns[0], default_bytes="610062"),))
    assert with_bytes.stored_format == 3
    assert with_bytes.fingerprint != opened.fingerprint
