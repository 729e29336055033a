"""The catalog: what a statement changes, what becomes a gap, and what goes on beside it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.history.versions import TableChange
from strata_cdc.schema.model.definition import TableName, Unknown
from strata_cdc.schema.replay.catalog import Catalog, Coverage

D = DdlContext("d")


def run(catalog: Catalog, *statements: str, context: DdlContext = D) -> list[TableChange]:
    """The changes of the last statement."""
    changes: list[TableChange] = []
    for statement in statements:
        changes = catalog.apply(read_ddl_or_gap(statement, context))
    return changes


def name(table: str, database: str = "d") -> TableName:
    return TableName(database, table)


def started(*statements: str) -> Catalog:
    catalog = Catalog()
    run(catalog, "CREATE DATABASE d", *statements)
    return catalog


def test_a_swap_is_two_changes():
    catalog = started("CREATE TABLE a (x INT)", "CREATE TABLE b (y INT)")
    a, b = catalog.get(name("a")), catalog.get(name("b"))
    changes = run(catalog, "RENAME TABLE a TO old, b TO a, old TO b")
    assert changes == [
        TableChange(name("a"), b, renamed_from=name("b")),
        TableChange(name("b"), a, renamed_from=name("a")),
    ]


def test_a_chain_of_renames_tells_where_a_table_came_from():
    catalog = started("CREATE TABLE a (x INT)", "CREATE TABLE a_new (y INT)")
    changes = run(catalog, "RENAME TABLE a TO a_old, a_new TO a")
    assert {(change.name.table, change.renamed_from and change.renamed_from.table) for change in changes} == {
        ("a", "a_new"),
        ("a_old", "a"),
        ("a_new", None),
    }
    assert [change.name.table for change in changes if change.definition is None] == ["a_new"]


@pytest.mark.parametrize("zone", ["SYSTEM", "Europe/Berlin", None])
def test_a_distance_from_utc_is_known_with_the_offset_of_the_session(zone: str | None):
    context = replace(D, time_zone=zone)
    statement = "CREATE TABLE t (a DATETIME DEFAULT '2020-01-01 00:00:00{}')"
    [change] = run(started(), statement.format("+05:30"), context=context)
    assert "depends on the session's time zone" in str(change.gap)
    [change] = run(started(), statement.format(""), context=context)
    assert change.gap is None


def test_nothing_changes_nothing():
    catalog = started("CREATE TABLE t (a INT)")
    for statement in ("ALTER TABLE t ENGINE = InnoDB, FORCE", "CREATE TABLE IF NOT EXISTS t (b INT)"):
        run(catalog, statement)
    assert run(catalog, "ALTER TABLE t AUTO_INCREMENT = 7") == []
    assert run(catalog, "DROP TABLE IF EXISTS other") == []


def test_an_unreadable_statement_is_a_gap_for_its_table_alone():
    catalog = started("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)")
    (change,) = run(catalog, "ALTER TABLE t ADD b NONSENSE")
    assert change.name == name("t")
    assert change.definition is None
    assert change.gap is not None
    assert "NONSENSE" in change.gap
    assert run(catalog, "ALTER TABLE t ADD c INT") == []
    assert isinstance(catalog.get(name("t")), Unknown)
    assert not isinstance(catalog.get(name("u")), Unknown)
    (change,) = run(catalog, "ALTER TABLE u ADD b INT")
    assert change.gap is None


def test_a_gap_ends_with_the_table():
    catalog = started("CREATE TABLE t (a INT)", "ALTER TABLE t ADD b NONSENSE")
    (change,) = run(catalog, "RENAME TABLE t TO v")[1:]
    assert change.gap is not None
    (change,) = run(catalog, "DROP TABLE v")
    assert (change.definition, change.gap) == (None, None)
    (change,) = run(catalog, "CREATE TABLE v (a INT)")
    assert change.gap is None


def test_a_statement_that_names_no_table_is_a_gap_for_the_database():
    catalog = started(
        "CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)", "CREATE DATABASE e", "CREATE TABLE e.t (a INT)"
    )
    changes = run(catalog, "ALTER TABLE (t) ADD c INT")
    assert {change.name for change in changes} == {name("t"), name("u")}
    assert not isinstance(catalog.get(name("t", "e")), Unknown)


def test_a_statement_that_does_not_fit_is_a_gap():
    for statement in (
        "ALTER TABLE t DROP COLUMN nothing",
        "ALTER TABLE t MODIFY nothing INT",
        "ALTER TABLE t RENAME COLUMN nothing TO b",
        "ALTER TABLE t ADD b INT AFTER nothing",
        "ALTER TABLE t ADD KEY (nothing)",
        "ALTER TABLE t DROP KEY nothing",
        "ALTER TABLE t ADD b TEXT CHARACTER SET nothing",
        "ALTER TABLE nothing ADD b INT",
    ):
        (change,) = run(started("CREATE TABLE t (a INT)"), statement)
        assert change.gap is not None, statement
        assert change.definition is None


def test_create_table_from_a_query_is_a_gap():
    (change,) = run(started(), "CREATE TABLE t SELECT 1 AS a")
    assert change.gap is not None
    (change,) = run(started(), "CREATE TABLE t LIKE information_schema.TABLES")
    assert change.gap is not None


def test_a_partial_catalog_does_not_guess():
    catalog = Catalog(coverage=Coverage.PARTIAL)
    (change,) = run(catalog, "CREATE TABLE IF NOT EXISTS t (a INT)")
    assert change.gap is not None
    (change,) = run(catalog, "CREATE TABLE u (a INT, b DATE)")
    assert change.gap is None  # no column depends on the database's charset
    (change,) = run(catalog, "CREATE TABLE v (a TEXT)")
    assert change.gap is not None
    (change,) = run(catalog, "CREATE TABLE w (a TEXT) CHARSET latin1")
    assert change.gap is None
    run(catalog, "CREATE DATABASE IF NOT EXISTS d CHARACTER SET latin1")
    (change,) = run(catalog, "CREATE TABLE x (a TEXT)")
    assert change.gap is not None
    run(catalog, "CREATE DATABASE e CHARACTER SET latin1")
    (change,) = run(catalog, "CREATE TABLE IF NOT EXISTS e.x (a TEXT)")
    assert change.gap is None


@pytest.mark.parametrize("coverage", list(Coverage))
def test_the_commit_of_an_engine_says_whether_a_statement_made_anything(coverage: Coverage):
    """Whatever is known of the server: a reset binlog begins like that of a new server."""
    made, kept = (replace(D, committed_by_engine=is_made) for is_made in (True, False))
    catalog = Catalog(coverage=coverage)
    assert run(catalog, "CREATE DATABASE IF NOT EXISTS d CHARACTER SET latin1", context=made) == []
    assert run(catalog, "CREATE DATABASE IF NOT EXISTS e CHARACTER SET latin1", context=kept) == []
    for statement, context, is_known in (
        ("CREATE TABLE IF NOT EXISTS t (a TEXT)", made, True),
        ("CREATE TABLE IF NOT EXISTS u (a INT)", kept, True),  # of an engine without atomic DDL
        ("CREATE TABLE IF NOT EXISTS e.w (a INT)", made, True),
        ("CREATE TABLE IF NOT EXISTS e.x (a TEXT)", made, False),  # of the charset of e nothing is known
        ("CREATE TABLE IF NOT EXISTS e.y (a INT)", kept, False),
        ("CREATE TABLE IF NOT EXISTS f.z (a INT)", D, False),  # of an older server: nothing has made its database
    ):
        (change,) = run(catalog, statement, context=context)
        assert (change.gap is None) is is_known, statement


def test_temporary_tables_hide_those_of_their_session_only():
    mine, other = replace(D, thread_id=1), replace(D, thread_id=2)
    catalog = started("CREATE TABLE t (a INT)")
    assert run(catalog, "CREATE TEMPORARY TABLE t (z INT)", context=mine) == []
    assert run(catalog, "ALTER TABLE t ADD y INT", context=mine) == []
    (change,) = run(catalog, "CREATE TABLE copied LIKE t", context=mine)
    assert change.definition is not None
    assert [column.name for column in change.definition.columns] == ["z", "y"]
    (change,) = run(catalog, "ALTER TABLE t ADD b INT", context=other)
    assert change.definition is not None
    assert [column.name for column in change.definition.columns] == ["a", "b"]
    assert run(catalog, "DROP TABLE t", context=mine) == []
    (change,) = run(catalog, "DROP TABLE t", context=mine)
    assert change.definition is None


def test_a_temporary_table_of_an_unknown_session_makes_a_gap_not_a_guess():
    catalog = started("CREATE TABLE t (a INT)", "CREATE TEMPORARY TABLE t (z INT)")
    (change,) = run(catalog, "ALTER TABLE t ADD b INT")
    assert change.gap is not None


def test_an_event_that_uses_no_temporary_table_means_the_base_table():
    uses, leaves = replace(D, thread_id=1, uses_temporary=True), replace(D, thread_id=1, uses_temporary=False)
    catalog = started("CREATE TABLE t (a INT)")
    assert run(catalog, "CREATE TEMPORARY TABLE t (z INT)", context=uses) == []
    assert run(catalog, "ALTER TABLE t ADD x INT", context=uses) == []
    (change,) = run(catalog, "ALTER TABLE t ADD b INT", context=leaves)
    assert change.definition is not None
    assert [column.name for column in change.definition.columns] == ["a", "b"]
    (change,) = run(catalog, "CREATE TABLE second LIKE t", context=leaves)
    assert change.definition is not None
    assert [column.name for column in change.definition.columns] == ["a", "b"]
    (change,) = run(catalog, "DROP TABLE t", context=leaves)
    assert change.definition is None
    assert change.gap is None


USES = replace(D, thread_id=1, uses_temporary=True)


def test_whether_an_event_means_a_temporary_table_that_nobody_has_seen_is_not_known():
    catalog = started("CREATE TABLE t (a INT)")
    (change,) = run(catalog, "CREATE TABLE copied LIKE t", context=USES)
    assert change.gap is not None
    (change,) = run(catalog, "ALTER TABLE t ADD x INT", context=USES)
    assert change.gap is not None
    assert run(catalog, "ALTER TABLE nowhere ADD x INT", context=USES) == []


@pytest.mark.parametrize("statement", ["ALTER TABLE t ADD b INT", "CREATE INDEX i ON t (a)", "ALTER TABLE t RENAME u"])
def test_what_a_storage_engine_committed_altered_the_base_table(statement):
    catalog = started("CREATE TABLE t (a INT)")
    before = catalog.get(name("t"))
    changes = run(catalog, statement, context=replace(USES, committed_by_engine=True))
    assert changes
    assert all(change.gap is None for change in changes)
    # The session has shown that it has no temporary table of that name.
    catalog.put(name("t"), before)
    (change,) = run(catalog, "CREATE TABLE copied LIKE t", context=USES)
    assert change.gap is None


def test_a_session_that_dropped_a_base_table_had_no_temporary_one_in_front_of_it():
    catalog = started("CREATE TABLE t (a INT)")
    run(catalog, "DROP TABLE t", "CREATE TABLE t (a INT)", context=USES)
    (change,) = run(catalog, "ALTER TABLE t ADD b INT", context=USES)
    assert change.gap is None
    (change,) = run(catalog, "ALTER TABLE t ADD c INT", context=replace(USES, thread_id=2))
    assert change.gap is not None


def test_after_a_restart_no_session_has_tables_that_nobody_has_seen():
    catalog = started("CREATE TABLE t (a INT)")
    catalog.temporary.server_restarted()
    (change,) = run(catalog, "ALTER TABLE t ADD b INT", context=USES)
    assert change.gap is None


def test_a_restart_ends_all_sessions():
    catalog = started("CREATE TABLE t (a INT)", "CREATE TEMPORARY TABLE t (z INT)")
    catalog.temporary.server_restarted()
    (change,) = run(catalog, "ALTER TABLE t ADD b INT")
    assert change.gap is None


def test_dropping_a_database_drops_its_tables():
    catalog = started("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)")
    changes = run(catalog, "DROP DATABASE d")
    assert {change.name for change in changes} == {name("t"), name("u")}
    assert len(catalog) == 0


def test_names_without_case():
    catalog = Catalog(lower_case_table_names=2)
    context = replace(D, lower_case_table_names=2)
    run(catalog, "CREATE DATABASE D", "CREATE TABLE Orders (a INT)", "ALTER TABLE ORDERS ADD b INT", context=context)
    definition = catalog.get(TableName("D", "oRders"))
    assert definition is not None
    assert not isinstance(definition, Unknown)
    assert len(definition.columns) == 2


def test_what_the_server_writes_in_place_of_a_like_has_a_charset_that_nobody_knows():
    """9.7.4 left `DEFAULT CHARSET=latin1` and `=utf8mb3` out of these."""
    catalog = started()
    (hidden,) = run(
        catalog,
        "CREATE TABLE `c` (\n  `a` varchar(10) DEFAULT NULL,\n  UNIQUE KEY `a` (`a`)\n) ENGINE=InnoDB",
        context=replace(D, may_be_like=True),
    )
    assert "LIKE was logged without the charset" in hidden.gap
    for column in ("`value` varchar(18) NOT NULL DEFAULT ''", "`INFO` longtext", "`E` enum('a','DEFAULT') DEFAULT 'a'"):
        (copied,) = run(catalog, f"CREATE TABLE `i` (\n  {column}\n) ENGINE=MEMORY")
        assert copied.gap is not None, column
    (numbers,) = run(
        catalog, "CREATE TABLE `n` (\n  `A` int NOT NULL DEFAULT '0',\n  `J` json DEFAULT NULL\n) ENGINE=MEMORY"
    )
    assert (numbers.gap, numbers.definition.collation) == (None, None)
    (later,) = run(catalog, "ALTER TABLE n ADD t TEXT")
    assert later.gap is not None


def test_what_people_write_has_the_charset_of_the_database():
    for text in (
        "CREATE TABLE `t` (\n  `a` varchar(10)\n) ENGINE=InnoDB",
        "CREATE TABLE `t` (\n  `a` varchar(10) DEFAULT NULL\n) ENGINE=InnoDB",
        "CREATE TABLE `t` (\n  `A` varchar(10) DEFAULT NULL,\n  KEY `A` (`A`)\n) ENGINE=InnoDB",
        "CREATE TABLE t (\n  a varchar(10) DEFAULT NULL\n) ENGINE=InnoDB",
        "CREATE TABLE `t` (\n  `a` varchar(10) default NULL\n) ENGINE=InnoDB",
        "CREATE TABLE `t` (\n  `a` varchar(10) DEFAULT NULL\n)",
        "CREATE TABLE `t` (`a` varchar(10) DEFAULT NULL) ENGINE=InnoDB",
    ):
        (made,) = run(started(), text)
        assert (made.gap, made.definition.collation) == (None, "utf8mb4_0900_ai_ci"), text
    (said,) = run(
        started(), "CREATE TABLE `t` (\n  `a` varchar(10) DEFAULT NULL\n) ENGINE=InnoDB DEFAULT CHARSET=latin1"
    )
    assert said.definition.collation == "latin1_swedish_ci"
