"""What DDL does to the rows that are there, as the history of a stream tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from strata_cdc.binlog.bytes.format import FormatDescription
from strata_cdc.binlog.events.model import QueryContext
from strata_cdc.cli.schema_tables import print_differences, print_history
from strata_cdc.position.sets import Gtid, Sid
from strata_cdc.schema.answers.changes import changes
from strata_cdc.schema.answers.differences import differences
from strata_cdc.schema.history.cascades import unlogged_cascades
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.history.table_changes import removals_of, table_changes_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.row_effects import EffectKind, RowEffect
from strata_cdc.schema.tracker.stream import TrackedStatement
from strata_cdc.schema.tracker.track import Tracker
from strata_cdc.values import to_plain
from tests.schema.streams import A, Stream, query, track

if TYPE_CHECKING:
    from strata_cdc.schema.history.sql_store import SchemaStore

START = (
    "CREATE DATABASE d",
    "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(20), e ENUM('x','y'), g INT AS (a + 1))",
)


def effects(store: SchemaStore, *statements: str) -> list[tuple[str, RowEffect]]:
    track(store, Stream(), *START, *statements)
    return [(str(change.name), change.effect) for change in table_changes_of(store.engine, "s")[1:]]


@pytest.mark.parametrize(
    ("clauses", "kind", "more"),
    [
        ("ADD KEY (a)", "none", {}),
        ("COMMENT 'c', ADD UNIQUE (b), ENGINE = MyISAM", "none", {}),
        ("MODIFY b VARCHAR(30)", "none", {}),
        ("MODIFY e ENUM('y','x','z')", "none", {}),
        ("ALTER a SET DEFAULT 3", "none", {}),
        ("RENAME COLUMN b TO c", "metadata", {"renamed": {"c": "b"}}),
        ("CHANGE b e VARCHAR(20), CHANGE e b ENUM('x','y')", "metadata", {"renamed": {"e": "b", "b": "e"}}),
        ("DROP b", "metadata", {"dropped": ("b",)}),
        ("MODIFY b VARCHAR(20) FIRST", "metadata", {"is_reordered": True}),
        ("ADD c INT NOT NULL DEFAULT 5, ALGORITHM = INSTANT", "fill", {"filled": [("c", "5")]}),
        ("ADD c TEXT NOT NULL DEFAULT ('x')", "fill", {"filled": [("c", "x")]}),
        ("ADD c JSON NOT NULL", "fill", {"filled": [("c", "null")]}),
        ("ADD c BINARY(3) DEFAULT x'4100'", "fill", {"filled": [("c", "0x410000")]}),
        ("ADD c VARCHAR(9) CHARACTER SET cp932 DEFAULT 'a b'", "fill", {"filled": [("c", "a b")]}),
        ("ADD c VARCHAR(9) CHARACTER SET cp932 DEFAULT '\u7e8a'", "read_again", {"reason": "several for one text"}),
        ("ADD c TEXT CHARACTER SET armscii8 DEFAULT ('(')", "read_again", {"reason": "several for one text"}),
        ("ADD c FLOAT DEFAULT 1.23456789", "fill", {"filled": [("c", "1.23456789")]}),
        ("ADD c TIMESTAMP NULL DEFAULT '2020-01-01 00:00:00'", "read_again", {"reason": "time zone"}),
        ("RENAME COLUMN b TO B", "metadata", {"renamed": {"B": "b"}}),
        ("DROP b, ADD b DATE", "fill", {"filled": [("b", None)], "dropped": ("b",)}),
        ("DROP e, ADD e ENUM('x','y') AFTER b", "fill", {"filled": [("e", None)], "dropped": ("e",)}),
        ("ADD c SET('','x') DEFAULT 'X '", "fill", {"filled": [("c", "x")]}),
        ("ADD c SET('','x') DEFAULT ' ,x'", "read_again", {"reason": "which labels the default"}),
        ("ADD c SET('x','') NOT NULL", "read_again", {"reason": "which labels the default"}),
        ("ADD c INT, MODIFY id BIGINT", "convert", {"filled": [("c", None)], "converted": ["id"]}),
        ("MODIFY b VARCHAR(20) NOT NULL", "convert", {"converted": ["b"]}),
        ("ENGINE = FEDERATED", "read_again", {"brings_rows": True}),
        ("CONVERT TO CHARACTER SET latin1", "convert", {"converted": ["b"]}),
        ("ADD c DATETIME DEFAULT CURRENT_TIMESTAMP", "read_again", {"reason": "the default of the new column c"}),
        ("ADD c JSON DEFAULT (JSON_ARRAY())", "read_again", {"reason": "the default of the new column c"}),
        ("ADD c INT AS (a) STORED", "read_again", {"reason": "c is computed by the server"}),
        ("ADD c INT NOT NULL AUTO_INCREMENT UNIQUE", "read_again", {"reason": "numbers the rows"}),
        ("MODIFY a BIGINT", "read_again", {"reason": "g is computed by the server, from a"}),
        ("MODIFY b JSON", "read_again", {"reason": "not known"}),
        ("ENGINE = BLACKHOLE", "remove", {"is_whole": True}),
    ],
)
def test_effect_of_an_alter(store, clauses, kind, more):
    [(_, effect)] = effects(store, f"ALTER TABLE t {clauses}")
    assert effect.kind == kind
    for name, wanted in more.items():
        found = getattr(effect, name)
        if name == "filled":
            assert [(one.column, one.value) for one in found] == wanted
        elif name == "converted":
            assert [one.column for one in found] == wanted
        elif name == "reason":
            assert wanted in found
        else:
            assert found == wanted


def test_in_strict_mode_no_null_was_there(store):
    stream = Stream()
    track(store, stream, *START)
    tracker = Tracker(store, "s")
    made = stream.transaction("ALTER TABLE t MODIFY b VARCHAR(20) NOT NULL")
    tracker.begin_file(stream.start(file="binlog.000002"))
    strict = QueryContext(server_collation=255, sql_mode=0x200000)
    statements = [replace(one, query=replace(one.query, context=strict)) for one in made.statements]
    tracker.track(replace(made, statements=statements))
    tracker.end_file(stream.position)
    tracker.finish()
    assert table_changes_of(store.engine, "s")[-1].effect.kind == "none"


def test_rows_go_along_with_names(store):
    found = effects(
        store,
        "CREATE TABLE u LIKE t",
        "RENAME TABLE t TO w, u TO t, w TO u",
        "ALTER TABLE t RENAME TO v, ADD z INT",
        "DROP TABLE v, u",
    )
    assert [(name, effect.kind.value) for name, effect in found] == [
        ("d.u", "none"),
        ("d.t", "metadata"),
        ("d.u", "metadata"),
        ("d.t", "metadata"),
        ("d.v", "fill"),
        ("d.u", "remove"),
        ("d.v", "remove"),
    ]
    assert found[1][1].came_from == TableName("d", "u")
    assert found[4][1].came_from == TableName("d", "t")


@pytest.mark.parametrize(
    ("statement", "table", "kind", "more"),
    [
        ("TRUNCATE t", "t", "remove", {"is_whole": True}),
        ("ALTER TABLE t TRUNCATE PARTITION ALL", "t", "remove", {"is_whole": True}),
        ("ALTER TABLE t DROP PARTITION p0, `p 1`", "t", "remove", {"is_whole": False, "partitions": ("p0", "p 1")}),
        ("ALTER TABLE t TRUNCATE PARTITION p0", "t", "remove", {"partitions": ("p0",), "is_known": False}),
        (
            "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u",
            "t",
            "exchange",
            {"brings_rows": True, "exchanged_with": TableName("d", "u")},
        ),
        (
            "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u",
            "u",
            "exchange",
            {"exchanged_with": TableName("d", "t")},
        ),
        ("ALTER TABLE t DISCARD TABLESPACE", "t", "remove", {"is_whole": True}),
        ("ALTER TABLE t IMPORT TABLESPACE", "t", "read_again", {"is_whole": False, "brings_rows": True}),
        ("ALTER TABLE t IMPORT PARTITION p0 TABLESPACE", "t", "read_again", {}),
    ],
)
def test_rows_that_go_without_row_events(store, statement, table, kind, more):
    track(store, Stream(), *START, statement)
    found = {removal.name.table: removal.effect for removal in removals_of(store.engine, "s")}
    effect = found[table]
    assert (effect.kind, {name: getattr(effect, name) for name in more}) == (EffectKind(kind), more)


@pytest.mark.parametrize(
    "clause", ["COALESCE PARTITION 2", "REORGANIZE PARTITION p0 INTO (PARTITION p1 VALUES LESS THAN (3))", "ORDER BY a"]
)
def test_nothing_goes_where_rows_are_only_moved(store, clause):
    assert all(effect.kind == "none" for _, effect in effects(store, f"ALTER TABLE t {clause}"))
    assert removals_of(store.engine, "s") == []


def test_what_nobody_knew_is_read_again(store):
    stream = Stream()
    track(store, stream, *START)
    hole = stream.executed.add(Gtid(Sid(A), stream.gno + 1))
    stream.gno += 1
    tracker = Tracker(store, "s")
    tracker.begin_file(stream.start(hole, file="binlog.000009"))
    tracker.track(stream.transaction("ALTER TABLE t ADD z INT"))
    tracker.end_file(stream.position)
    tracker.finish()
    assert [change.effect.kind for change in table_changes_of(store.engine, "s")] == ["none", "read_again"]


def test_history_and_differences_say_it(store, capsys):
    track(
        store,
        Stream(),
        *START,
        "ALTER TABLE t ADD c VARBINARY(3) DEFAULT 'ab', ADD n INT, MODIFY id BIGINT",
        "TRUNCATE t",
    )
    [made, altered] = [to_plain(change.line()) for change in changes(store, "s")]
    assert made["effect"] == {"kind": "none"}
    assert altered["effect"] == {
        "kind": "convert",
        "filled": {"c": "0x6162", "n": None},
        "converted": {"id": ["int", "bigint"]},
    }
    print_history(changes(store, "s"))
    assert "rows: all get c = '0x6162', n = NULL; id changes from int to bigint" in capsys.readouterr().out
    found = differences(store, "s", AtSeq(2), AtSeq(4), None)
    assert to_plain(found[0].line())["effect"] == altered["effect"]
    print_differences(found)
    assert "rows: all get" in capsys.readouterr().out


CHILD = "CREATE TABLE c (id INT PRIMARY KEY, a INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES t (id) ON DELETE {})"


@pytest.mark.parametrize(
    ("server", "statements", "named"),
    [
        ("8.0.40", [CHILD.format("CASCADE")], ["c"]),
        ("8.0.40", [CHILD.format("SET NULL")], ["c"]),
        ("8.0.40", [CHILD.format("RESTRICT ON UPDATE CASCADE")], ["c"]),
        ("8.0.40", [CHILD.format("NO ACTION ON UPDATE RESTRICT")], []),
        ("8.0.40", [CHILD.format("CASCADE"), "RENAME TABLE c TO d, t TO c", "DROP TABLE d"], []),
        ("8.0.40", [CHILD.format("CASCADE"), "CREATE TABLE e LIKE c", "RENAME TABLE c TO d, e TO c"], ["d"]),
        ("8.0.40", ["ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (id) ON UPDATE SET NULL"], ["t"]),
        (
            "8.0.40",
            ["ALTER TABLE t ADD KEY (a)", "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (id) ON DELETE CASCADE"],
            ["t"],
        ),
        ("9.6.0", [CHILD.format("CASCADE")], []),
    ],
)
def test_tables_that_cascades_change_without_row_events(store, server, statements, named):
    stream = Stream()
    tracker = Tracker(store, "s")
    tracker.begin_file(stream.start())
    form = FormatDescription(4, server, (), has_checksum=True)
    for sql in (*START, *statements):
        made = stream.transaction(sql)
        tracker.track(
            replace(made, statements=[TrackedStatement(query(sql), form, one.binlog_pos) for one in made.statements])
        )
    tracker.end_file(stream.position)
    tracker.finish()
    assert [cascade.name.table for cascade in unlogged_cascades(store.engine, "s")] == named
