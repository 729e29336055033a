"""JSON in columns and small files: what former versions wrote opens, and they read what this one writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import sqlalchemy as sa

from strata_cdc.errors import ErrorFacts
from strata_cdc.files.storage import Folder
from strata_cdc.landing import checked
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.schema.history.snapshot import SchemaSnapshot
from strata_cdc.schema.history.snapshot_ledger import add_snapshot, pending_snapshots
from strata_cdc.schema.history.versions import (
    Confirmation,
    DatabaseEntry,
    NamePresence,
    SessionTables,
    TemporarySessions,
    VersionPosition,
)
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.view import ViewDefinition
from strata_cdc.store.database import open_store, reading, writing
from strata_cdc.store.json_columns import from_column, to_column
from strata_cdc.store.ledgers import PublishedDetails, VersionRows
from strata_cdc.store.tables import snapshot

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN: list[tuple[str, Any]] = [
    (
        '{"all": true, "sessions": [[7, [["d", "t"], ["d", "ü"]], [["{}", ""], ["", "no"]]], '
        '[null, [["d", "u"]], []]]}',
        TemporarySessions(
            True,
            (
                SessionTables(7, (("d", "t"), ("d", "ü")), (("{}", ""), ("", "no"))),
                SessionTables(None, (("d", "u"),)),
            ),
        ),
    ),
    ('{"all": false, "sessions": []}', TemporarySessions()),
    ('{"error": "SchemaGapError", "message": "gap", "offset": 4}', ErrorFacts("SchemaGapError", "gap", offset=4)),
    (
        '{"error": "E", "message": "m", "source": "s", "table": "d.t", "gtid": "u:1", "file": "f", "remedy": "r"}',
        ErrorFacts("E", "m", source="s", table="d.t", gtid="u:1", file="f", remedy="r"),
    ),
    (
        '{"gtid_executed": "u:1", "run": "r", "schema_versions": [1, 2]}',
        PublishedDetails("u:1", "r", (1, 2)),
    ),
    (
        '{"gtid_executed": "u:1", "run": "r", "schema_versions": [1], "by_version": [[1, 5, 400]]}',
        PublishedDetails("u:1", "r", (1,), (VersionRows(1, 5, 400),)),
    ),
    (
        '{"position": {"seq": 3, "statement_no": 0, "gtid_executed": "u:1-2", "committed_at": 5, "binlog_file": null, '
        '"binlog_pos": null}, "seen_databases": ["d"], "unconfirmed": [{"database": "d", "table": "t"}]}',
        Confirmation(VersionPosition(3, 0, "u:1-2", 5), frozenset({"d"}), frozenset({TableName("d", "t")})),
    ),
]


@pytest.mark.parametrize(("text", "value"), WRITTEN)
def test_a_column_is_read_and_written_as_ever(text: str, value: msgspec.Struct) -> None:
    assert from_column(text, type(value), "table.column") == value
    assert json.loads(to_column(value)) == json.loads(text)


class _FormerSession(msgspec.Struct, array_like=True):
    """Without what is known of the tables."""

    thread_id: int | None
    names: tuple[tuple[str, str], ...]


def test_temporary_tables_of_former_versions_and_for_them() -> None:
    former = '{"all": true, "sessions": [[7, [["d", "t"]]]]}'
    value = TemporarySessions(True, (SessionTables(7, (("d", "t"),)),))
    assert from_column(former, TemporarySessions, "table.column") == value
    [session] = json.loads(to_column(value))["sessions"]
    assert msgspec.convert(session, _FormerSession).names == (("d", "t"),)


VIEW = ViewDefinition("select 1 AS `a`", ("a",), "d", collation="utf8mb4_bin", is_printed=True)
SNAPSHOT = SchemaSnapshot(
    source="s",
    gtid_before="",
    gtid_executed="",
    taken_at=1,
    server_version=90700,
    lower_case_table_names=0,
    tables={TableName("d", "t"): "f" * 64},
    databases=(DatabaseEntry("d", NamePresence.PRESENT, "utf8mb4", None),),
    views={TableName("d", "v"): VIEW},
    seen_databases=frozenset({"d"}),
    hidden=("no sight of e",),
    position=BinlogPosition.parse("binlog.000003:157"),
    server_uuid="u",
    cascades=(TableName("d", "t"),),
    doubtful={TableName("d", "t"): "it cannot be asked"},
)
CONTENT = {
    "databases": [["d", "utf8mb4", None]],
    "tables": [["d", "t", "f" * 64]],
    "views": [["d", "v"]],
    "seen_databases": ["d"],
    "hidden": ["no sight of e"],
}
POSITION = {"position": "binlog.000003:157", "server_uuid": "u"}
LATER = {"cascades": [["d", "t"]], "doubtful": [["d", "t", "it cannot be asked"]], "seq": 0, "confirmed": None}
TEXTS = {
    "view_texts": [
        {
            "query": "select 1 AS `a`",
            "columns": ["a"],
            "database": "d",
            "sql_mode": 0,
            "collation": "utf8mb4_bin",
            "made_at": 0,
            "is_printed": True,
        }
    ]
}


def test_a_snapshot_is_read_and_written_as_ever(tmp_path: Path) -> None:
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    add_snapshot(engine, SNAPSHOT)
    with reading(engine) as connection:
        content = json.loads(connection.execute(sa.select(snapshot.c.content)).scalar_one())
    assert content == {**CONTENT, **POSITION, **LATER, **TEXTS}
    assert pending_snapshots(engine, "s") == [msgspec.structs.replace(SNAPSHOT, id=1)]
    with writing(engine) as connection:
        connection.execute(snapshot.update().values(content=json.dumps(CONTENT)))
    [older] = pending_snapshots(engine, "s")
    assert (older.position, older.server_uuid, older.cascades, older.doubtful) == (None, "", (), {})
    assert older.views == {TableName("d", "v"): None}


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ('{"0000000001-binlog.000001-000000000158.binlog": [10, 20, 30]}', [(10, 20, 30)]),
        ('{"indexes": {"a": [1, 2, 3]}, "format": 2}', [(1, 2, 3)]),
        ('{"indexes": {"a": [1, 2]}, "format": 2}', []),
        ('{"format": 99}', []),
        ("[", []),
    ],
)
def test_the_list_of_checked_indexes(tmp_path: Path, text: str, seen: list[tuple[int, ...]]) -> None:
    (tmp_path / "checked.json").write_text(text)
    found = checked.read_checked(Folder.open(str(tmp_path)))
    assert [(one.size, one.changed_at, one.seen_at) for one in found.values()] == seen
