"""What a statement is read as: the lexer's corners, statements that are none of ours, and what cannot be read."""

from __future__ import annotations

import json

import pytest

from strata_cdc.binlog.bytes.format import FormatDescription
from strata_cdc.binlog.events.model import Query, QueryContext
from strata_cdc.errors import DdlError
from strata_cdc.flavour import Flavour
from strata_cdc.schema.ddl.changes import (
    AlterTable,
    CreateTable,
    CreateView,
    DropTables,
    RemoveRows,
    RenameTables,
    Unreadable,
)
from strata_cdc.schema.ddl.context import DdlContext, context_of, statement_text
from strata_cdc.schema.ddl.dml import tables_changed_by
from strata_cdc.schema.ddl.lexer import ANSI_QUOTES, NO_BACKSLASH_ESCAPES, lex
from strata_cdc.schema.ddl.read import read_ddl, read_ddl_or_gap
from strata_cdc.schema.model.definition import TableDefinition, TableName
from strata_cdc.schema.model.view import ViewDefinition
from strata_cdc.schema.replay.catalog import Catalog
from tests.schema.golden import CASES, context_from

D = DdlContext("d")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (1)",
        "BEGIN",
        "CREATE USER u",
        "CREATE DEFINER=`r`@`%` TRIGGER tr BEFORE INSERT ON t FOR EACH ROW CREATE TABLE x (a INT)",
        "CREATE DEFINER=CURRENT_USER() PROCEDURE p() BEGIN ALTER TABLE t ADD a INT; END",
        "CREATE AGGREGATE FUNCTION f RETURNS STRING SONAME 'x.so'",
        "CREATE EVENT IF NOT EXISTS e ON SCHEDULE EVERY 1 DAY DO DROP TABLE t",
        "CREATE TABLESPACE ts ADD DATAFILE 'x.ibd'",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'x')",
        "CREATE RESOURCE GROUP g TYPE = USER",
        "CREATE SPATIAL REFERENCE SYSTEM 4120 NAME 'x' DEFINITION 'y'",
        "CREATE ROLE r",
        "CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE JAVASCRIPT AS $$ return \"it's\" + `${x}` // don't $$",
        "CREATE LIBRARY l LANGUAGE JAVASCRIPT AS $$ export const a = 'x $$",
        "ALTER USER u ACCOUNT LOCK",
        "ALTER PROCEDURE p COMMENT 'x'",
        "ALTER INSTANCE ROTATE INNODB MASTER KEY",
        "ALTER TABLESPACE ts RENAME TO ts2",
        "DROP TRIGGER tr",
        "DROP PREPARE s",
        "DROP SPATIAL REFERENCE SYSTEM 4120",
        "RENAME USER a TO b",
        "TRUNCATE TABLE `\ufffd`",
        "ANALYZE TABLE t",
        "/* a remark */ SET @a = 1",
        "/*!40101 SET NAMES utf8 */",
        "/*!99999 DROP TABLE t */",
        "",
        " ; ",
    ],
)
def test_statements_that_change_no_table(statement: str):
    assert read_ddl(statement, D) == ()


@pytest.mark.parametrize(
    ("text", "unwrapped"),
    [
        ("a /*!50100 b */ c", "a          b    c"),
        ("a /*!99999 b */ c", "a               c"),
        ("a /*! b */ c", "a     b    c"),
        ("a /*!999999 b /* n */ d */ c", "a                          c"),
        ("'/*!50100 b */' /*!50100 c*/", "'/*!50100 b */'          c  "),
        ("'it''s /*!' \"\\\"/*!\" `/*!` /*!c*/", "'it''s /*!' \"\\\"/*!\" `/*!`    c  "),
        ("-- '/*!50100 \n/*!50100 b*/", "-- '/*!50100 \n         b  "),
        ("/* '*/ /*!50100 '*/' */", "/* '*/          '*/'   "),
        ("a--b /*!50100 c*/", "a--b          c  "),
    ],
)
def test_executable_comments(text: str, unwrapped: str):
    assert opened(text, 0) == unwrapped


def test_quotes_in_executable_comments_follow_the_mode():
    text = "/*!50100 '\\'*/ x */"
    assert opened(text, NO_BACKSLASH_ESCAPES).endswith("'\\'   x */")
    assert opened('"\\" /*!a*/', ANSI_QUOTES) == '"\\"    a  '


def opened(text: str, sql_mode: int) -> str:
    return lex(text, sql_mode, Flavour.mysql(80036)).opened(0, len(text))


def columns(body: str, context: DdlContext = D) -> dict[str, str]:
    """Names and types of the columns that `CREATE TABLE t (body)` makes."""
    catalog = Catalog()
    catalog.put_database("d", "utf8mb4_0900_ai_ci")
    catalog.apply(read_ddl(f"CREATE TABLE t ({body})", context))
    definition = catalog.get(TableName("d", "t"))
    assert isinstance(definition, TableDefinition), definition
    return {column.name: column.column_type for column in definition.columns}


@pytest.mark.parametrize(
    ("version", "types"),
    [
        (50744, ["int(11)", "int(10) unsigned", "tinyint(4)", "tinyint(1)", "bigint(20)", "year(4)", "int(5)"]),
        (80018, ["int(11)", "int(10) unsigned", "tinyint(4)", "tinyint(1)", "bigint(20)", "year(4)", "int(5)"]),
        (80019, ["int", "int unsigned", "tinyint", "tinyint(1)", "bigint", "year", "int"]),
    ],
)
def test_display_widths_by_version(version: int, types: list[str]):
    body = "a INT, b INT UNSIGNED, c TINYINT, d BOOL, e BIGINT, f YEAR, g INT(5)"
    assert list(columns(body, DdlContext("d", flavour=Flavour.mysql(version))).values()) == types


def test_a_newer_server_drops_the_widths_that_an_older_one_showed():
    catalog = Catalog()
    catalog.apply(read_ddl("CREATE DATABASE d", D))
    catalog.apply(read_ddl("CREATE TABLE t (a INT, b YEAR)", DdlContext("d", flavour=Flavour.mysql(50744))))
    catalog.apply(read_ddl("ALTER TABLE t ADD c INT", DdlContext("d", flavour=Flavour.mysql(80036))))
    definition = catalog.get(TableName("d", "t"))
    assert isinstance(definition, TableDefinition)
    assert [column.column_type for column in definition.columns] == ["int", "year", "int"]


@pytest.mark.parametrize(
    ("version", "collation"),
    [(50744, "utf8mb4_general_ci"), (80000, "utf8mb4_general_ci"), (80036, "utf8mb4_0900_ai_ci")],
)
def test_default_collation_by_version(version: int, collation: str):
    catalog = Catalog()
    context = DdlContext("d", flavour=Flavour.mysql(version))
    catalog.apply(read_ddl("CREATE DATABASE d CHARACTER SET utf8mb4", context))
    catalog.apply(read_ddl("CREATE TABLE t (a TEXT)", context))
    definition = catalog.get(TableName("d", "t"))
    assert isinstance(definition, TableDefinition)
    assert definition.columns[0].collation == collation


def test_inline_references_bring_an_index_from_9_0_on():
    statement = "CREATE TABLE t (a INT REFERENCES p (id))"
    for version, keys in ((80036, 0), (90000, 1)):
        (change,) = read_ddl(statement, DdlContext("d", flavour=Flavour.mysql(version)))
        assert isinstance(change, CreateTable)
        assert len(change.keys) == keys


FORMAT = FormatDescription(4, "8.0.36", (), has_checksum=True)


def query(statement: bytes, **context: int) -> Query:
    return Query("d", statement, 0, QueryContext(**context))


@pytest.mark.parametrize(
    ("charset", "codec", "name"),
    [
        (13, "shift_jis", "表"),
        (28, "gbk", "誠"),
        (8, "cp1252", "é"),
        (24, "gb2312", "中"),
        (45, "utf_8", "💡x"),
        (95, "cp932", "ソ"),
    ],
)
def test_bytes_of_any_client(charset: int, codec: str, name: str):
    # In sjis the second byte of 表 and ソ is a backslash, in gbk that of 誠 is one.
    event = query(f"CREATE TABLE t (a ENUM('{name}'), `{name}` INT)".encode(codec), client_charset=charset)
    found = columns_of(event)
    assert found["a"] == f"enum('{name}')"
    assert list(found)[1] == "".join(ch if ch <= "\uffff" else "?" for ch in name)


def columns_of(event: Query) -> dict[str, str]:
    catalog = Catalog()
    catalog.put_database("d", "utf8mb4_0900_ai_ci")
    catalog.apply(read_ddl(statement_text(event), context_of(event, FORMAT)))
    definition = catalog.get(TableName("d", "t"))
    assert isinstance(definition, TableDefinition)
    return {column.name: column.column_type for column in definition.columns}


def test_latin1_has_a_character_for_every_byte():
    text = statement_text(query(b"CREATE TABLE t (`\x81\x8d\xe9` INT)", client_charset=8))
    assert "\x81\x8d\xe9" in text


def test_what_the_server_writes_is_utf8():
    statement = "CREATE TABLE `t` (\n  `é` int DEFAULT NULL\n) START TRANSACTION"
    event = query(statement.encode(), client_charset=8)
    assert statement_text(event) == statement
    (change,) = read_ddl(statement, context_of(event, FORMAT))
    assert isinstance(change, CreateTable)
    assert not change.from_query


@pytest.mark.parametrize("quote", ["`", '"', ""])
def test_what_the_server_writes_with_a_generated_key_is_utf8_and_escaped(quote: str):
    key = f"{quote}my_row_id{quote} bigint unsigned NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */"
    written = f"CREATE TABLE t (\n  {key},\n  `é` enum('a\\\\b') DEFAULT NULL\n)"
    by_client = written.replace("my_row_id", "my_id")
    session = {"client_charset": 8, "sql_mode": NO_BACKSLASH_ESCAPES | ANSI_QUOTES}
    assert columns_of(query(written.encode(), **session))["é"] == r"enum('a\\b')"
    assert columns_of(query(by_client.encode("latin1"), **session))["é"] == r"enum('a\\\\b')"


def test_context_of_an_event():
    event = query(
        b"x", sql_mode=4, client_charset=255, connection_collation=8, server_collation=33, utf8mb4_collation=45
    )
    context = context_of(event, FORMAT, lower_case_table_names=1)
    assert context == DdlContext(
        "d",
        4,
        Flavour.mysql(80036),
        "utf8mb3_general_ci",
        None,
        "utf8mb4_general_ci",
        "latin1",
        "latin1_swedish_ci",
        lower_case_table_names=1,
        committed_by_engine=False,
    )
    assert context_of(event, FORMAT, ran_first_on=Flavour.mysql(50744)).explicit_defaults_for_timestamp is False
    old = Flavour.mysql(50744)
    assert context_of(event, FORMAT, ran_first_on=old, explicit_defaults_for_timestamp=True).flavour == old


def test_names_fold_where_the_server_folds_them():
    for value, name in ((0, "Orders"), (1, "orders"), (2, "orders")):
        (change,) = read_ddl("DROP TABLE Orders", DdlContext("D", lower_case_table_names=value))
        assert isinstance(change, DropTables)
        assert change.names[0].table == name


@pytest.mark.parametrize(
    ("statement", "tables", "database"),
    [
        ("ALTER TABLE t ADD COLUMN c NONSENSE", ["d.t"], None),
        ("ALTER TABLE e.t FROBNICATE (1), RENAME TO u", ["e.t", "d.u"], None),
        ("CREATE TABLE t (a INT FROBNICATE)", ["d.t"], None),
        ("CREATE TABLE IF NOT EXISTS t (a INT,, b INT)", ["d.t"], None),
        ("RENAME TABLE a TO b, c TOO d", ["d.a", "d.b", "d.c"], None),
        ("DROP TABLE a, b, (c)", ["d.a", "d.b"], None),
        ("CREATE INDEX i ON t FROBNICATE", ["d.t"], None),
        ("ALTER TABLE (t) ADD c INT", [], "d"),
        ("ALTER TABLE t ADD c VARCHAR(5) DEFAULT 'torn", ["d.t"], None),
    ],
)
def test_unreadable_statements_say_what_they_may_touch(statement: str, tables: list[str], database: str | None):
    with pytest.raises(DdlError) as caught:
        read_ddl(statement, D)
    assert [str(name) for name in caught.value.tables] == tables
    assert caught.value.database == database
    assert caught.value.ddl == statement
    (change,) = read_ddl_or_gap(statement, D)
    assert isinstance(change, Unreadable)


def test_rename_reads_pairs_across_databases():
    (change,) = read_ddl("RENAME TABLES a TO e.b, `c d` TO c", D)
    assert isinstance(change, RenameTables)
    assert [(str(old), str(new)) for old, new in change.pairs] == [("d.a", "e.b"), ("d.c d", "d.c")]


@pytest.mark.parametrize(
    ("statement", "emptied"),
    [
        ("TRUNCATE t", ["d.t"]),
        ("truncate table e.`partition` /* x */", ["e.partition"]),
        ("/* first */ TRUNCATE TABLE t", ["d.t"]),
        ("ALTER TABLE t DROP PARTITION p0, p1", ["d.t"]),
        ("ALTER TABLE t ALGORITHM = INPLACE, TRUNCATE PARTITION ALL", ["d.t"]),
        ("ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE e.u WITHOUT VALIDATION", ["d.t", "e.u"]),
        ("ALTER TABLE t DISCARD PARTITION p0 TABLESPACE", ["d.t"]),
        ("ALTER TABLE t DISCARD TABLESPACE", ["d.t"]),
        ("ALTER TABLE t DROP `partition`, ADD `truncate` INT", []),
        ("ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (9))", []),
        ("ALTER TABLE t REORGANIZE PARTITION p0 INTO (PARTITION p2 VALUES LESS THAN (9))", []),
        ("ALTER TABLE t COALESCE PARTITION 1", []),
        ("ALTER TABLE t REMOVE PARTITIONING", []),
    ],
)
def test_statements_that_remove_rows(statement: str, emptied: list[str]):
    found = [change for change in read_ddl(statement, D) if isinstance(change, RemoveRows)]
    assert [str(name) for change in found for name in change.names] == emptied


def test_create_and_drop_index_are_alters():
    for statement in ("CREATE UNIQUE INDEX i ON t (a)", "DROP INDEX i ON t LOCK = NONE"):
        (change,) = read_ddl(statement, D)
        assert isinstance(change, AlterTable)


def test_a_name_that_is_no_text_concerns_the_whole_database():
    for statement in (
        "CREATE TABLE IF NOT EXISTS `\ufffd` (a INT)",
        "RENAME TABLE a TO `\ufffd`",
        "DROP TABLE `\ufffd`, b",
    ):
        (change,) = read_ddl_or_gap(statement, DdlContext("d"))
        assert isinstance(change, Unreadable)
        assert (change.tables, change.database) == ((), "d"), statement


def test_a_statement_that_breaks_off_is_read_or_refused():
    for path in sorted(CASES.glob("*.json")):
        for step in json.loads(path.read_text())["steps"]:
            for event in step["events"]:
                statement, context = event["statement"], context_from(event["context"])
                for _, end in lex(statement, context.sql_mode, context.flavour).spans:
                    read_ddl_or_gap(statement[:end], context)
                    tables_changed_by(statement[:end], context)


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        ("DROP TABLE a, e.b, 'c", ["d.a", "e.b"]),
        ("RENAME TABLE a TO b /* c", ["d.a", "d.b"]),
        ("CREATE TABLE t (a INT) /*!50100 PARTITION BY HASH (a)", ["d.t"]),
        ("/*!50100 CREATE TABLE t (a INT)", []),
    ],
)
def test_what_stands_before_a_quote_without_an_end_is_named(statement: str, tables: list[str]):
    (change,) = read_ddl_or_gap(statement, D)
    assert isinstance(change, Unreadable)
    assert [str(name) for name in change.tables] == tables
    assert change.database == (None if tables else "d")


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE t (a INT) x = (", "CREATE TABLE t (a INT) ENGINE==InnoDB", "CREATE TABLE t e(a INT, b INT)"],
)
def test_an_option_has_a_word_or_a_literal(statement: str):
    with pytest.raises(DdlError, match="the value of an option"):
        read_ddl(statement, D)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("CREATE VIEW v AS SELECT 1", ViewDefinition("SELECT 1", (), "d")),
        (
            "ALTER ALGORITHM=MERGE DEFINER=`a`@`b` SQL SECURITY INVOKER VIEW e.v (`x y`, z) AS (SELECT * FROM t) ;",
            ViewDefinition("(SELECT * FROM t)", ("x y", "z"), "d"),
        ),
        (
            "create or replace view v as select 'a;' # b\nwith cascaded check option",
            ViewDefinition("select 'a;'", (), "d"),
        ),
        ("CREATE VIEW v AS SELECT a FROM t WITH CHECK OPTION", ViewDefinition("SELECT a FROM t", (), "d")),
        ("CREATE VIEW v (a", None),
        ("CREATE VIEW v AS SELECT '\ufffd'", None),
    ],
)
def test_the_query_of_a_view(statement: str, expected: ViewDefinition | None):
    (change,) = read_ddl(statement, D)
    assert isinstance(change, CreateView)
    assert change.definition == expected


def test_the_host_of_a_definer_is_no_keyword():
    (change,) = read_ddl("CREATE DEFINER=root@trigger VIEW v AS SELECT 1", D)
    assert isinstance(change, CreateView)


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        ("INSERT LOW_PRIORITY IGNORE INTO e.t VALUES (1)", "e.t"),
        ("REPLACE t SET a = 1", "d.t"),
        ("UPDATE IGNORE t SET a = 1", "d.t"),
        ("/* x */ DELETE QUICK FROM t", "d.t"),
        ("LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE e.t FIELDS TERMINATED BY ','", "e.t"),
        ("INSERT INTO t SELECT * FROM u", "d.t"),
        (
            "UPDATE t AS a JOIN (e.u b CROSS JOIN v) USING (id), w SET b.x = (SELECT 1 FROM y) WHERE 1",
            "d.t e.u d.v d.w",
        ),
        ("WITH c AS (SELECT * FROM x) UPDATE t PARTITION (p), (SELECT 1 FROM u) AS q SET t.a = q.a", "d.t"),
        ("UPDATE t, JSON_TABLE(t.j, '$' COLUMNS (a INT PATH '$')) AS u, ((v)) SET v.a = 1", "d.t d.v"),
        ("DELETE a, u.* FROM t a JOIN u ON a.x = u.x LEFT JOIN v ON 1 WHERE v.y IS NULL", "d.t d.u d.v"),
        ("DELETE FROM a USING t AS a, e.u WHERE a.x = u.x ORDER BY 1", "d.t e.u"),
        ("SELECT `d`.`f`(1)", ""),
    ],
)
def test_the_tables_that_a_statement_changes_rows_of(statement: str, tables: str):
    assert " ".join(map(str, tables_changed_by(statement, D) or ())) == tables


def test_what_changes_no_rows_is_told_from_what_names_no_table():
    assert tables_changed_by("SELECT f()", D) == ()
    assert tables_changed_by("DROP TABLE t", D) is None
