"""Tables under several names: RENAME, and the swaps of gh-ost and pt-online-schema-change."""

from __future__ import annotations

import pytest

from strata.cli.schema_tables import print_history
from strata.schema.answers.changes import changes
from strata.schema.history.lineage import lineage
from strata.schema.history.sql_store import SchemaStore
from strata.schema.model.definition import TableName
from strata.store.database import open_store
from strata.values import to_plain
from tests.schema.streams import Stream, track

T = TableName("d", "t")
START = ("CREATE DATABASE d", "CREATE TABLE t (a INT, b INT)")
GH_OST = (
    "create /* gh-ost */ table d._t_ghc (id bigint)",
    "create /* gh-ost */ table d._t_gho like d.t",
    "alter /* gh-ost */ table d._t_gho DROP COLUMN b, ADD c INT",
    "rename /* gh-ost */ table d.t to d._t_del, d._t_gho to d.t",
    "drop /* gh-ost */ table if exists d._t_del",
)
PT_OSC = (
    "CREATE TABLE `d`.`__t_new` LIKE d.t",
    "ALTER TABLE `d`.`__t_new` DROP COLUMN b, ADD c INT",
    "RENAME TABLE `d`.`t` TO `d`.`_t_old`, `d`.`__t_new` TO `d`.`t`",
    "DROP TABLE IF EXISTS `d`.`_t_old`",
)


def lines(*asked):
    """As JSON has them."""
    return [to_plain(change.line()) for change in changes(*asked)]


@pytest.fixture
def store(tmp_path) -> SchemaStore:
    return SchemaStore(open_store(f"sqlite:///{tmp_path}/store.db"))


@pytest.mark.parametrize(("tool", "statements"), [("gh-ost", GH_OST), ("pt-online-schema-change", PT_OSC)])
def test_a_swap_is_one_online_change(store, capsys, tool, statements):
    track(store, Stream(), *START, *statements, *statements[1:2], "ALTER TABLE t ADD z INT")
    (line,) = [line for line in lines(store, "s", T) if "online_change" in line]
    assert line["online_change"]["tool"] == tool
    assert [" ".join(text.split()[-6:]) for text in line["online_change"]["statements"]] == ["DROP COLUMN b, ADD c INT"]
    print_history(change for change in changes(store, "s") if not change.is_part)
    said = capsys.readouterr().out
    assert f"online change by {tool}" in said
    assert "- column b int" in said
    assert "+ column c int" in said
    assert "_t_del" not in said.replace(line["ddl"], "").replace(statements[-1], "")


def test_which_statement_removed_a_column(store):
    track(store, Stream(), *START, *GH_OST)
    *_, line = lines(store, "s", T, "b")
    assert line["ddl"] == GH_OST[3]
    assert "DROP COLUMN b" in line["online_change"]["statements"][0]


def test_a_renamed_table_has_its_past(store):
    track(store, Stream(), "CREATE DATABASE d", "CREATE TABLE a (x INT)", "ALTER TABLE a ADD y INT",
          "RENAME TABLE a TO b", "CREATE TABLE a (other INT)", "ALTER TABLE b DROP y")  # fmt: skip
    found = [
        (entry.name.table, entry.gtid.rpartition(":")[2])
        for entry in lineage(store, "s", TableName("d", "b"))
        if entry.gtid
    ]
    assert found == [("a", "2"), ("a", "3"), ("b", "4"), ("b", "6")]
    assert [line["ddl"] for line in lines(store, "s", TableName("d", "b"), "y")] == [
        "ALTER TABLE a ADD y INT",
        "ALTER TABLE b DROP y",
    ]


def test_a_swap_by_hand_is_no_online_change(store):
    track(store, Stream(), *START, "CREATE TABLE u (a INT)", "RENAME TABLE t TO x, u TO t, x TO u")
    found = list(lines(store, "s", T))
    assert not any("online_change" in line for line in found)
    assert [column["name"] for column in found[-1]["columns"]] == ["a"]
