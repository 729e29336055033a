"""Tables under several names: RENAME, and the swaps of gh-ost and pt-online-schema-change."""

from __future__ import annotations

import pytest

from strata_cdc.cli.schema_tables import print_history
from strata_cdc.cli.table_name import table_name
from strata_cdc.errors import Usage
from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.answers.changes import changes
from strata_cdc.schema.answers.differences import differences
from strata_cdc.schema.history.lineage import lineage
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.definition import TableName
from strata_cdc.values import to_plain
from tests.schema.streams import A, Stream, track

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


RENAMES = (
    "CREATE DATABASE d",
    "CREATE TABLE t (id INT, note VARCHAR(9), a INT, b INT)",
    "ALTER TABLE t RENAME COLUMN note TO remark",
    "ALTER TABLE t CHANGE a b INT, CHANGE b a BIGINT",
    "ALTER TABLE t DROP COLUMN remark, ADD COLUMN note INT",
)


def test_a_renamed_column_is_told_as_that(store, capsys):
    track(store, Stream(), *RENAMES, source="s")
    reported = [change.differences() for change in changes(store, "s", T)]
    assert reported[1] == ("~ column note -> remark",)
    assert reported[2] == (
        "~ column a -> b",
        "~ column b -> a: column type int -> bigint",
    )
    assert reported[3] == ("- column remark varchar(9)", "+ column note int after a")
    renamed = [line.get("renamed_columns") for line in lines(store, "s", T)]
    assert renamed == [None, {"note": "remark"}, {"a": "b", "b": "a"}, None]
    assert [line["ddl"] for line in lines(store, "s", T, "note")] == [RENAMES[1], RENAMES[2], RENAMES[4]]
    assert [line["ddl"] for line in lines(store, "s", T, "REMARK")] == [RENAMES[2], RENAMES[4]]
    print_history(changes(store, "s", T))
    said = capsys.readouterr().out
    assert "~ column note -> remark" in said


def test_what_lies_between_two_points_has_its_renames(store):
    track(store, Stream(), *RENAMES[:4], "ALTER TABLE t RENAME COLUMN remark TO note2", source="s")
    (found,) = differences(store, "s", AtSeq(2), AtSeq(5), T)
    assert found.texts() == (
        "~ column note -> note2",
        "~ column a -> b",
        "~ column b -> a: column type int -> bigint",
    )
    (back,) = differences(store, "s", AtSeq(2), AtSeq(3), T)
    assert back.texts() == ("~ column note -> remark",)


def test_a_rename_on_the_copy_is_one_of_the_table(store):
    copied = (*GH_OST[:2], "alter table d._t_gho RENAME COLUMN b TO c", *GH_OST[3:])
    track(store, Stream(), *START, *copied)
    assert [change.differences() for change in changes(store, "s", T)][-1] == ("~ column b -> c",)


def test_a_line_says_where_and_when(store, capsys):
    track(store, Stream(), *START, source="s")
    (line,) = lines(store, "s", T)
    assert (line["binlog_file"], line["binlog_pos"]) == ("binlog.000001", 267)
    assert line["committed_at"] == "2023-11-14 22:13:22.000000"
    long = "CREATE TABLE u (\n" + ",\n".join(f"  column_{number} INT" for number in range(50)) + "\n)"
    track(store, Stream(), *START, long, source="u")
    print_history(changes(store, "u", TableName("d", "u")))
    said = capsys.readouterr().out
    assert "binlog.000001 @ 367 DDL" in said
    assert "  column_49 INT" in said.splitlines()[-2]


@pytest.mark.parametrize(
    ("table", "column", "said"),
    [
        (T, "bb", "there never was a column 'bb': do you mean b?"),
        (None, "xyz", "there never was a column 'xyz'"),
        (TableName("d", "tt"), None, "there never was a table d.tt: do you mean d.t?"),
        (TableName("D", "T"), None, "there never was a table D.T: do you mean d.t?"),
    ],
)
def test_what_never_was_is_said(store, table, column, said):
    track(store, Stream(), *START)
    with pytest.raises(Usage) as caught:
        list(changes(store, "s", table, column))
    assert said in str(caught.value)


def test_a_database_with_a_dot_is_named_as_the_command_takes_it(store):
    track(store, Stream(), "CREATE DATABASE `d.e`", "CREATE TABLE `d.e`.t (a INT)")
    with pytest.raises(Usage, match=r"do you mean `d\.e`\.`t`\?"):
        list(changes(store, "s", table_name("d.e.t")))
    assert list(changes(store, "s", table_name("`d.e`.`t`")))


def test_where_tables_may_be_unknown_a_name_may_be_right(store):
    track(store, Stream(gno=5, executed=GtidSet.parse(f"{A}:1-5")), *START[1:])
    assert [line["table"] for line in lines(store, "s", TableName("d", "other"))] == ["*"]
