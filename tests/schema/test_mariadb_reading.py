"""What statements of MariaDB mean, without a server; `test_mariadb_ddl.py` asks one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.bytes.format import FormatDescription
from strata_cdc.binlog.events.model import AlterPhase, Query, QueryContext
from strata_cdc.binlog.events.query import parse_query
from strata_cdc.binlog.kernels.address_texts import INET6_BYTES, inet6_texts
from strata_cdc.flavour import Flavour
from strata_cdc.schema.apply.defaults import address_text
from strata_cdc.schema.ddl.changes import ConvertPartition, CreateTable, DropTables, RemoveRows, RowsGone
from strata_cdc.schema.ddl.context import DdlContext, context_of, statement_text
from strata_cdc.schema.ddl.dml import tables_changed_by
from strata_cdc.schema.ddl.lexer import MSSQL
from strata_cdc.schema.ddl.literals import Literal, LiteralKind
from strata_cdc.schema.ddl.partitions import PartitionVerb, read_partition_step
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.history.effects import effect_of
from strata_cdc.schema.history.fills import NoFill, fill_of
from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
from strata_cdc.schema.model.row_effects import EffectKind
from strata_cdc.schema.model.types import ColumnType, TypeKind
from strata_cdc.schema.replay.catalog import Catalog

MARIADB = Flavour.parse("11.8.9-MariaDB-log")
FORM = FormatDescription(4, "11.8.9-MariaDB-log", (13,) * 171, has_checksum=True)
D = DdlContext("d", flavour=MARIADB)


def query_of(variables: bytes, statement: bytes = b"ALTER TABLE t FORCE") -> Query:
    fixed = bytes(8) + bytes([1, 0, 0]) + len(variables).to_bytes(2, "little")
    return parse_query(fixed + variables + b"d\0" + statement, FORM)


def replayed(*statements: str, context: DdlContext = D) -> Catalog:
    catalog = Catalog()
    catalog.put_database("d", "utf8mb4_uca1400_ai_ci")
    for statement in statements:
        catalog.apply(read_ddl(statement, context))
    return catalog


IMPLICIT = DdlContext("d", flavour=MARIADB, explicit_defaults_for_timestamp=False)


@pytest.mark.parametrize(
    ("alter", "in_doubt", "default"),
    [
        ("force", True, None),
        ("rename column b to c", True, None),
        ("alter b drop default", True, None),
        ("modify b timestamp(3) not null", False, "CURRENT_TIMESTAMP(3)"),
        ("alter b set default '2020-01-01'", False, "2020-01-01 00:00:00.000"),
        ("add z timestamp null first", False, None),
    ],
)
def test_only_a_timestamp_that_the_statement_does_not_define_may_be_promoted(alter: str, in_doubt: bool, default: str):
    catalog = replayed("CREATE TABLE t (b TIMESTAMP(3) NOT NULL, i INT)")
    catalog.apply(read_ddl(f"ALTER TABLE t {alter}", IMPLICIT))
    definition = catalog.get(TableName("d", "t"))
    assert isinstance(definition, TableDefinition)
    column = definition.column("b") or definition.column("c")
    assert (definition.in_doubt, column.on_update_in_doubt, column.default) == (in_doubt, in_doubt, default)
    # Later statements of other sessions leave it so, or decide it.
    catalog.apply(read_ddl("ALTER TABLE t ADD j INT", D))
    assert catalog.get(TableName("d", "t")).in_doubt == in_doubt
    catalog.apply(read_ddl(f"ALTER TABLE t MODIFY {column.name} TIMESTAMP(3) NOT NULL", D))
    assert not catalog.get(TableName("d", "t")).in_doubt


def test_variables_of_an_event():
    # As 11.8 has written them for CONVERT TO CHARACTER SET utf8mb4 in an ALTER with two phases.
    variables = bytes.fromhex("0000000011 0100002054000000000 4e000e0000900".replace(" ", ""))
    variables += bytes.fromhex("80e6d201 810800000000000000 82 04 0500000000000000 8301 2d000009".replace(" ", ""))
    context = query_of(variables).context
    assert context.flags2 == 0x11000000
    assert context.ddl_xid == 8
    assert context.alter_phase is AlterPhase.COMMIT
    assert context.charset_collations == ((45, 2304),)
    made = context_of(query_of(variables), FORM)
    assert made.charset_collations == (("utf8mb4", "utf8mb4_uca1400_ai_ci"),)
    assert made.default_collation("utf8mb4") == "utf8mb4_uca1400_ai_ci"
    assert made.default_collation("latin1") == "latin1_swedish_ci"
    assert (made.explicit_defaults_for_timestamp, made.sql_if_exists, made.takes_effect) == (True, True, True)
    assert not made.committed_by_engine


@pytest.mark.parametrize(("flag", "effects"), [(2, 0), (4, 1), (8, 0)])
def test_only_the_end_of_an_alter_in_two_phases_has_an_effect(flag: int, effects: int):
    query = query_of(bytes([130, flag]) + (bytes(8) if flag & 12 else b""))
    assert len(read_ddl("ALTER TABLE t FORCE", context_of(query, FORM))) == effects


def test_a_replacement_that_failed_has_dropped_the_table():
    query = Query("d", b"", 1005, QueryContext())
    [change] = read_ddl("CREATE OR REPLACE TABLE t (a INT)", context_of(query, FORM))
    assert isinstance(change, DropTables)
    assert change.if_exists
    [change] = read_ddl("CREATE OR REPLACE TABLE t (a INT)", D)
    assert isinstance(change, CreateTable)


def test_what_the_server_writes_instead_of_a_query_is_in_utf8():
    written = "CREATE TABLE `Ã©` (\n  `ü` varchar(2) NOT NULL\n)".encode()
    latin1 = QueryContext(client_charset=8)
    assert statement_text(Query("d", written, 0, latin1), MARIADB) == written.decode()
    # A client's statement has a number of its own, and the client's charset.
    numbered = QueryContext(client_charset=8, ddl_xid=7)
    assert statement_text(Query("d", written, 0, numbered), MARIADB) != written.decode()
    assert statement_text(Query("d", "DROP TABLE `é`".encode("latin1"), 0, latin1), MARIADB) == "DROP TABLE `é`"


def test_versions_in_the_store():
    for flavour in (MARIADB, Flavour.parse("10.11.18-MariaDB"), Flavour.mysql(90704)):
        assert Flavour.stored(flavour.stored_number) == flavour
    assert MARIADB.stored_number == -110809


@pytest.mark.parametrize(
    ("statement", "verb", "names"),
    [
        ("ALTER TABLE t CONVERT PARTITION p TO TABLE u", PartitionVerb.DROP, ["p"]),
        ("ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES LESS THAN (5)", PartitionVerb.ADD, ["p"]),
        (
            "ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES LESS THAN (5) WITHOUT VALIDATION",
            PartitionVerb.UNCHECKED,
            ["p"],
        ),
        ("ALTER TABLE t DROP PARTITION IF EXISTS p", PartitionVerb.DROP, ["p"]),
    ],
)
def test_partitions(statement: str, verb: PartitionVerb, names: list[str]):
    step = read_partition_step(statement, D)
    assert (step.verb, [*step.names, *(partition.name for partition in step.partitions)]) == (verb, names)


def test_a_partition_that_becomes_a_table_brings_rows():
    statement = "ALTER TABLE t CONVERT PARTITION p TO TABLE u"
    _, made, removed = read_ddl(statement, D)
    assert made == ConvertPartition(D, TableName("d", "u"), TableName("d", "t"))
    assert isinstance(removed, RemoveRows)
    assert (removed.names, removed.partitions) == ((TableName("d", "t"),), ("p",))
    effect = effect_of(None, TableDefinition(), read_ddl(statement, D), origins=None, name=TableName("d", "u"))
    assert effect.kind is EffectKind.READ_AGAIN
    _, dropped, added = read_ddl("ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES IN (1)", D)
    assert dropped == DropTables(D, (TableName("d", "u"),))
    assert isinstance(added, RemoveRows)
    assert added.gone is RowsGone.CONVERTED


@pytest.mark.parametrize(
    "statement", ["ALTER TABLE t ADD SYSTEM VERSIONING", "ALTER TABLE t ADD b UUID DEFAULT UUID()"]
)
def test_what_the_server_computes_for_rows_is_read_from_it(statement: str):
    catalog = replayed("CREATE TABLE t (a INT PRIMARY KEY)")
    before = catalog.get(TableName("d", "t"))
    changes = read_ddl(statement, D)
    catalog.apply(changes)
    after = catalog.get(TableName("d", "t"))
    effect = effect_of(before, after, changes, origins=[0, *[None] * (len(after.columns) - 1)])
    assert effect.kind is EffectKind.READ_AGAIN


def test_a_column_that_is_there_is_not_added_again():
    """IF NOT EXISTS keeps the column: its rows keep their values."""
    catalog = replayed("CREATE TABLE t (a INT)")
    before = catalog.get(TableName("d", "t"))
    changes = read_ddl("ALTER TABLE t ADD COLUMN IF NOT EXISTS a TEXT DEFAULT 'x'", D)
    assert catalog.apply(changes) == []
    assert effect_of(before, before, changes, origins=[0]).kind is EffectKind.NONE


@pytest.mark.parametrize(
    ("default", "fill"),
    [("0x610062", "0x610062"), ("'x'", "0x78"), ("'a\\0'", "0x6100")],
)
def test_a_new_blob_has_all_bytes_of_its_default(default: str, fill: str):
    table = replayed(f"CREATE TABLE t (a BLOB DEFAULT {default})").get(TableName("d", "t"))
    assert fill_of(table.columns[0]) == fill


@pytest.mark.parametrize(
    ("charset", "default", "fill"),
    [
        ("utf16", "'x'", None),
        ("utf16", "x'00ff'", "0x00FF"),
        ("latin1", "'x'", "0x78"),
        ("latin1", "'é'", None),
        ("utf8mb4", "'é'", None),
    ],
)
def test_the_text_of_a_blob_s_default_is_converted_to_the_charset_of_the_table(
    charset: str, default: str, fill: str | None
):
    """11.8.9 gives the bytes 0x0078 in a table of utf16, and 0xE9 for é in one of latin1."""
    catalog = replayed(f"CREATE TABLE t (a INT) CHARSET {charset}")
    before = catalog.get(TableName("d", "t"))
    changes = read_ddl(f"ALTER TABLE t ADD b BLOB NOT NULL DEFAULT {default}", D)
    catalog.apply(changes)
    effect = effect_of(before, catalog.get(TableName("d", "t")), changes, origins=[0, None])
    assert [filled.value for filled in effect.filled] == ([fill] if fill is not None else [])
    assert (effect.kind is EffectKind.READ_AGAIN) == (fill is None)


def test_what_is_computed_from_a_column_that_is_renamed_and_converted_is_read_again():
    """11.8.9 computes HEX() of three bytes then."""
    catalog = replayed("CREATE TABLE t (a ENUM('X'), g VARCHAR(99) AS (HEX(a)) STORED)")
    before = catalog.get(TableName("d", "t"))
    for statement in ("ALTER TABLE t CHANGE a b BINARY(3) FIRST", "ALTER TABLE t MODIFY b VARCHAR(9)"):
        changes = read_ddl(statement, D)
        catalog.apply(changes)
        after = catalog.get(TableName("d", "t"))
        effect = effect_of(before, after, changes, origins=[0, 1])
        assert (effect.kind, "g is computed by the server" in effect.reason) == (EffectKind.READ_AGAIN, True)
        before = after


@pytest.mark.parametrize(("sql_mode", "name"), [(0, "`a b`"), (4, '"a b"'), (MSSQL, "[a b]")])
def test_names_in_expressions_are_in_backticks(sql_mode: int, name: str):
    context = DdlContext("d", sql_mode, flavour=MARIADB)
    catalog = replayed(f"CREATE TABLE t ({name} INT, g INT AS ({name} + 1), d INT DEFAULT ({name}))", context=context)
    [_, generated, default] = catalog.get(TableName("d", "t")).columns
    assert (generated.generation_expression, default.default) == ("`a b` + 1", "`a b`")


def test_expressions_follow_a_rename_and_are_no_other_ones():
    """As SHOW CREATE TABLE of 11.8.9 and 10.11."""
    catalog = replayed(
        "CREATE TABLE t (a VARCHAR(9), b INT, g VARCHAR(99) AS (CONCAT(a, 'a', b)) STORED, d INT DEFAULT (b + 1))"
    )
    before = catalog.get(TableName("d", "t"))
    changes = read_ddl("ALTER TABLE t RENAME COLUMN a TO b, CHANGE b a INT", D)
    catalog.apply(changes)
    after = catalog.get(TableName("d", "t"))
    assert [column.generation_expression for column in after.columns][2] == "CONCAT(`b`, 'a', `a`)"
    assert after.columns[3].default == "`a` + 1"
    assert effect_of(before, after, changes, origins=[0, 1, 2, 3]).kind is EffectKind.METADATA
    changes = read_ddl("ALTER TABLE t MODIFY b VARCHAR(9) CHARACTER SET utf16", D)
    catalog.apply(changes)
    effect = effect_of(after, catalog.get(TableName("d", "t")), changes, origins=[0, 1, 2, 3])
    assert "g is computed by the server, from b" in effect.reason


@pytest.mark.parametrize(
    ("old", "new", "is_known"),
    [
        ("DOUBLE", "TEXT", False),
        ("FLOAT", "VARCHAR(99)", False),
        ("INT", "TEXT", True),
        ("BIT(64)", "DOUBLE", False),
        ("BIT(64)", "DECIMAL(20)", True),
        ("ENUM('12')", "VARCHAR(9) CHARSET ucs2", False),
        ("ENUM('12')", "VARCHAR(9) CHARSET latin1", True),
        ("SET('y', 'x', 'a')", "SET('a', 'b', 'x', 'y')", False),
        ("SET('y', 'x')", "SET('y', 'x', 'a')", True),
        ("ENUM('y', 'x')", "ENUM('x', 'y')", True),
    ],
)
def test_what_mariadb_converts_in_ways_of_its_own_is_read_again(old: str, new: str, is_known: bool):
    catalog = replayed(f"CREATE TABLE t (a {old})")
    before = catalog.get(TableName("d", "t"))
    changes = read_ddl(f"ALTER TABLE t CHANGE a b {new}", D)
    catalog.apply(changes)
    effect = effect_of(before, catalog.get(TableName("d", "t")), changes, origins=[0])
    assert (effect.kind is not EffectKind.READ_AGAIN) == is_known


def test_fills_of_other_types():
    table = replayed(
        "CREATE TABLE t (a TEXT DEFAULT 'x', b UUID NOT NULL, c INET6 DEFAULT '::FFFF:1.2.3.4', "
        "d VECTOR(1) DEFAULT x'00000000')"
    ).get(TableName("d", "t"))
    *texts, vector = map(fill_of, table.columns)
    assert texts == ["x", "00000000-0000-0000-0000-000000000000", "::ffff:1.2.3.4"]
    assert isinstance(vector, NoFill)
    assert isinstance(fill_of(Column("v", "vector(1)", nullable=False)), NoFill)


groups = st.lists(st.sampled_from([0, 0, 0, 1, 0xFFFF, 0x1234]), min_size=8, max_size=8)


@given(groups)
def test_the_text_of_an_inet6_is_that_of_rows(words: list[int]):
    raw = b"".join(word.to_bytes(2, "big") for word in words)
    offsets, out = np.zeros(2, np.int32), np.zeros(INET6_BYTES, np.uint8)
    size = inet6_texts(np.frombuffer(raw, np.uint8), np.array([0, 16], np.int32), offsets, out)
    ours = address_text(Literal(LiteralKind.HEX, raw.hex()), ColumnType(TypeKind.INET6))
    assert ours == bytes(out[:size]).decode()


def test_settings_before_a_statement_that_changes_rows():
    statement = "SET STATEMENT sql_mode = (SELECT ''), lock_wait_timeout = 3 FOR INSERT INTO t VALUES (1)"
    assert tables_changed_by(statement, D) == (TableName("d", "t"),)
    assert read_ddl(statement, D) == ()
    for other in ("SET STATEMENT sql_mode = '' FOR ALTER TABLE t FORCE", "SET PASSWORD = 'x'"):
        assert tables_changed_by(other, D) is None
