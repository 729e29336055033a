"""Which versions are next to one, and which DDL lies between: by columns, over what changes none, up to a gap."""

from __future__ import annotations

import pytest

from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.quadrants import DdlKind, Quadrant
from tests.schema.streams import A, Stream, track

T = TableName("d", "t")
CREATE = "CREATE TABLE t (a INT, b INT)"
BEFORE, AFTER = Quadrant.OLD_NEW, Quadrant.NEW_OLD


def neighbours(store, *statements, at, name=T):
    """The neighbours of the version at a transaction: side, columns, kind of the DDL, and its transaction."""
    track(store, Stream(), "CREATE DATABASE d", *statements)
    history = History(store, "s")
    version = history.at(name, AtSeq(at))
    return [
        (
            one.quadrant,
            [column.name for column in one.read_definition().columns],
            one.kind,
            int((one.ddl.gtid or "").rpartition(":")[2]),
        )
        for one in history.neighbours(name, version.version_id)
    ]


@pytest.mark.parametrize(
    ("statement", "columns", "kind"),
    [
        ("ADD c INT", ["a", "b", "c"], DdlKind.ADD_COLUMN),
        ("DROP b", ["a"], DdlKind.DROP_COLUMN),
        ("MODIFY b BIGINT", ["a", "b"], DdlKind.CHANGE_COLUMN),
        ("RENAME COLUMN b TO c", ["a", "c"], DdlKind.CHANGE_COLUMN),
        ("MODIFY b INT FIRST", ["b", "a"], DdlKind.CHANGE_COLUMN),
        ("DROP b, ADD c INT", ["a", "c"], DdlKind.MULTIPLE),
        ("MODIFY b BIGINT, ADD c INT", ["a", "b", "c"], DdlKind.MULTIPLE),
    ],
)
def test_both_sides_of_a_ddl(store, statement, columns, kind):
    ddl = f"ALTER TABLE t {statement}"
    assert neighbours(store, CREATE, ddl, at=2) == [(AFTER, columns, kind, 3)]
    assert History(store, "s").neighbours(T, History(store, "s").at(T, AtSeq(3)).version_id)[0].quadrant is BEFORE


def test_what_changes_no_column_is_no_neighbour(store):
    between = ("ALTER TABLE t COMMENT = 'x'", "ALTER TABLE t ADD INDEX (a)", "RENAME TABLE t TO u")
    statements = (CREATE, "ALTER TABLE t ADD c INT", *between, "ALTER TABLE u COMMENT = 'y'", "ALTER TABLE u DROP a")
    found = neighbours(store, *statements, at=7, name=TableName("d", "u"))
    # Of the name alone: what it was called before is no part of its timeline.
    assert found == [(AFTER, ["b", "c"], DdlKind.DROP_COLUMN, 8)]
    version = History(store, "s").at(T, AtSeq(5)).version_id
    (before,) = History(store, "s").neighbours(T, version)
    assert (before.kind, before.ddl.gtid, before.made_by) == (
        DdlKind.ADD_COLUMN,
        f"{A}:3",
        f"made at GTID {A}:2 (binlog.000001 @ 267)",
    )


def test_a_table_that_was_made_again(store):
    found = neighbours(store, CREATE, "DROP TABLE t", "CREATE TABLE t (x INT)", "ALTER TABLE t ADD y INT", at=4)
    assert found == [(BEFORE, ["a", "b"], DdlKind.CREATE_TABLE, 4), (AFTER, ["x", "y"], DdlKind.ADD_COLUMN, 5)]


def test_beyond_a_gap_nothing_is_known(store):
    assert neighbours(store, CREATE, "ALTER TABLE t FROBNICATE", "CREATE OR REPLACE TABLE d.t (x INT)", at=2) == []
