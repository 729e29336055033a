"""Copies that online schema changes make, with the statements of the tools on a real server: what is owed of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields

from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.schema.history.copies import bases_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from tests.pipeline.test_plan import Stream

BEFORE = "CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 10), (2, 20);"
AFTER = "INSERT INTO t (id, a, c) VALUES (9, 90, 9);"
GH_OST = (
    """
    drop /* gh-ost */ table if exists `_t_gho`;
    drop /* gh-ost */ table if exists `_t_del`;
    create /* gh-ost */ table `_t_ghc` (id bigint unsigned auto_increment,
      last_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
      hint varchar(64) charset ascii not null, value varchar(4096) charset ascii not null,
      primary key(id), unique key hint_uidx(hint)) auto_increment=256;
    insert /* gh-ost */ into `_t_ghc` (id, hint, value) values (NULLIF(0, 0), 'state', 'Migrated');
    create /* gh-ost */ table `_t_gho` like `t`;
    alter /* gh-ost */ table `_t_gho` ADD COLUMN c INT;
    insert /* gh-ost */ into `_t_ghc` (id, hint, value) values (NULLIF(2, 0), 'state', 'GhostTableMigrated')
      on duplicate key update last_update=NOW(), value=VALUES(value);
    insert /* gh-ost */ ignore into `_t_gho` (`id`, `a`)
      (select `id`, `a` from `t` force index (`PRIMARY`) where `id` >= 1 and `id` <= 2 lock in share mode);
    UPDATE t SET a = 11 WHERE id = 1;
    replace /* gh-ost */ into `_t_gho` (`id`, `a`) values (1, 11);
    """,
    """
    create /* gh-ost */ table `_t_del` (id int auto_increment primary key) engine=InnoDB;
    drop /* gh-ost */ table if exists `_t_del`;
    rename /* gh-ost */ table `t` to `_t_del`, `_t_gho` to `t`;
    delete from `_t_del` where id = 2;
    insert /* gh-ost */ into `_t_ghc` (id, hint, value) values (NULLIF(3, 0), 'copy', 'done');
    drop /* gh-ost */ table if exists `_t_ghc`;
    """,
)
PT_OSC = (
    """
    CREATE TABLE `_t_new` (`id` int NOT NULL, `a` int DEFAULT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;
    ALTER TABLE `_t_new` ADD COLUMN c INT;
    CREATE TRIGGER `pt_osc_t_upd` AFTER UPDATE ON `t` FOR EACH ROW
      REPLACE INTO `_t_new` (`id`, `a`) VALUES (NEW.`id`, NEW.`a`);
    INSERT LOW_PRIORITY IGNORE INTO `_t_new` (`id`, `a`) SELECT `id`, `a` FROM `t` LOCK IN SHARE MODE
      /*pt-online-schema-change 4711 copy table*/;
    UPDATE t SET a = 11 WHERE id = 1;
    """,
    """
    RENAME TABLE `t` TO `_t_old`, `_t_new` TO `t`;
    DROP TRIGGER IF EXISTS `pt_osc_t_upd`;
    DELETE FROM `_t_old` WHERE id = 2;
    """,
)
TOOLS = {"gh-ost": GH_OST, "pt-online-schema-change": PT_OSC}
COPY = {"gh-ost": "_t_gho", "pt-online-schema-change": "_t_new"}
"""What has the rows of the table from the swap on."""
LEFT = {"gh-ost": {"_t_ghc", "_t_del"}, "pt-online-schema-change": {"_t_old"}}


@pytest.fixture
def stream(mysql_server, tmp_path, request):
    database = f"copies_{abs(hash(request.node.name)) % 10**8}"
    mysql_server.run_sql(f"DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}")
    return Stream(mysql_server, tmp_path, database)


def planned(stream, now, **request):
    report, plan = stream.plan(RunRequest(end=now, **request), now=now) if request else stream.plan(now=now)
    assert report.tables == len({one.table for one in plan.tables})
    return {one.table: one.rows for one in plan.tables}


def states(stream):
    found = TableIntervalLedger(stream.engine).select("s", tuple(IntervalState))
    return {(one.table, one.state) for one in found if one.database == stream.database}


def change(stream, **settings):
    stream.source = replace(stream.source, settings=with_fields(stream.source.settings, **settings))


@pytest.mark.mysql
@pytest.mark.parametrize("tool", TOOLS)
def test_what_was_swapped_away_is_owed_by_nobody(stream, tool):
    first, second = TOOLS[tool]
    now = stream.live(BEFORE + first + second + AFTER)
    # Two rows at first, one updated, one behind the swap.
    found = planned(stream, now, start=1)
    assert found["t"] == 4
    assert found.keys() == {"t", COPY[tool]}
    wanted = {("t", IntervalState.PENDING), (COPY[tool], IntervalState.PENDING)}
    assert states(stream) == {*wanted, *((name, IntervalState.UNWANTED) for name in LEFT[tool])}
    change(stream, leave_out_copies="none")
    everything = planned(stream, now)
    assert everything.keys() == {"t", COPY[tool], *LEFT[tool]}
    change(stream, leave_out_copies="swapped")
    assert planned(stream, now) == found


@pytest.mark.mysql
@pytest.mark.parametrize("tool", TOOLS)
def test_a_copy_is_owed_until_its_swap_is_seen(stream, tool):
    first, second = TOOLS[tool]
    now = stream.live(BEFORE + first)
    copies = {COPY[tool], *LEFT[tool]} - {"_t_del", "_t_old"}
    assert planned(stream, now).keys() == {"t", *copies}
    change(stream, leave_out_copies="all")
    assert planned(stream, now).keys() == {"t"}
    change(stream, leave_out_copies="swapped")
    assert planned(stream, now).keys() == {"t", *copies}
    now = stream.live(second + AFTER)
    assert planned(stream, now).keys() == {"t", COPY[tool]}
    assert {state for name, state in states(stream) if name in LEFT[tool]} == {IntervalState.UNWANTED}
    # What is called so later on, and was made by hand, is a table like any other.
    gone = max(LEFT[tool] & {"_t_del", "_t_old"})
    now = stream.live(f"DROP TABLE {gone}; CREATE TABLE {gone} (id INT); INSERT INTO {gone} VALUES (1)")
    assert planned(stream, now)[gone] == 1


@pytest.mark.mysql
def test_a_name_that_the_settings_spell_out_is_wanted(stream):
    change(stream, tables=(f"{stream.database}.*", f"{stream.database}._t_del"))
    now = stream.live(BEFORE + "".join(GH_OST) + AFTER)
    found = planned(stream, now)
    assert found.keys() == {"t", "_t_gho", "_t_del"}
    assert (found["t"], found["_t_del"]) == (4, 1)
    change(stream, leave_out_copies="all")
    assert planned(stream, now) == {"t": 4, "_t_del": 1}


LOADED = "CREATE TABLE _t_new LIKE t; INSERT INTO _t_new VALUES (3, 30); ALTER TABLE _t_new ADD COLUMN c INT;"
SWAP = "RENAME TABLE t TO _t_old, _t_new TO t;"


@pytest.mark.mysql
@pytest.mark.parametrize(
    "statements",
    [
        LOADED + SWAP,
        "CREATE TABLE _t_new LIKE t; INSERT INTO _t_new VALUES (3, 30); RENAME TABLE t TO _t_old, _t_new TO t;",
        "CREATE TABLE _t_new LIKE t; ALTER TABLE _t_new ADD COLUMN c INT; INSERT INTO _t_new VALUES (3, 30, 1);",
        "CREATE TABLE _t_gho LIKE t; INSERT INTO _t_gho VALUES (3, 30); RENAME TABLE _t_gho TO u;",
        "CREATE TABLE _x_new LIKE t; ALTER TABLE _x_new ADD COLUMN c INT; INSERT INTO _x_new VALUES (3, 30, 1);",
    ],
    ids=["loaded-and-altered", "loaded", "not-swapped", "renamed-elsewhere", "beside-no-table"],
)
def test_what_is_no_proved_copy_is_wanted(stream, statements):
    now = stream.live(BEFORE + statements)
    found = planned(stream, now)
    assert sum(found.values()) == 3
    assert len(found) == 2


@pytest.mark.parametrize(
    ("name", "bases"),
    [
        ("_t_gho", ["t"]), ("_t_ghc", ["t"]), ("_t_del", ["t"]), ("_t_20261121033000_del", ["t"]), ("_t_new", ["t"]),
        ("__t_old", ["_t", "t"]), ("t_new", []), ("_u_gho", []), ("_t_gho2", []), ("t", []), ("__gho", []),
        ("_" + "l" * 59 + "_gho", ["l" * 64]),
    ],
)  # fmt: skip
def test_names_of_the_tools(name, bases):
    known = {TableName("d", table) for table in ("t", "_t", "l" * 64, name)} | {TableName("e", "u")}
    assert [base.table for base in bases_of(TableName("d", name), known)] == bases
