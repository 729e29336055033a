"""Every command on a source that is the folder of a TiCDC sink: it does its work, or refuses in one clear line."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.main import COMMANDS
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn
from tests.ticdc.world import SinkWorld

if TYPE_CHECKING:
    from pathlib import Path

NO_SERVER = "it is the folder of a TiCDC sink, and this needs a server"
MOMENT = "2026-05-01T15:22:05.810Z"
DONE: dict[str, list[tuple[str, str]]] = {
    "run": [("run", "nothing new")],
    "land": [("land", "transactions"), ("land --files .", "--files is for binlogs"), ("land --follow", NO_SERVER)],
    "snapshot": [("snapshot", NO_SERVER)],
    "track": [("track", "is known up to transaction 5")],
    "schema": [
        ("schema show", "DEFAULT '7'"),
        ("schema history", "ALTER TABLE a ADD COLUMN n INT DEFAULT 7"),
        ("schema diff --from 2026-05-01T15:22:05.790Z", "column n int after name"),
    ],
    "plan": [("plan", "tables     0")],
    "decode": [("decode none", "neither a file nor a run")],
    "check": [("check none", "there is no run none")],
    "publish": [("publish none", "there is no run none")],
    "intervals": [("intervals", "shop.a  published")],
    "quarantine": [("quarantine list", "nothing is withheld")],
    "status": [("status", "ended")],
    "position": [(f"position --time {MOMENT}", "2026-05-01T15:22:05.801000")],
    "cut": [("cut --group g", "there is no group 'g'")],
    "stream": [
        ("stream", '"heartbeat": true'),
        ("stream --from beginning", '"after":{"id":3,"name":"z","n":1}'),
        (f"stream --from {MOMENT}", '"seq":5'),
        ("stream --from binlog.000001:4", "is a position of a server's binlog"),
    ],
    "cache": [("cache --help", "follow")],
    "token": [("token show x", "is not an event token")],
    "retain": [("retain", "kept        1")],
    "housekeep": [("housekeep", "nothing is older")],
    "lake": [("lake show", "belongs to the store"), ("lake rebuild", "it has all")],
    "views": [("views --dialect duckdb", "CREATE")],
    "dump": [("dump --table shop.a", NO_SERVER)],
    "serve": [("serve --help", "Usage")],
    "mirror": [("mirror list", "no mirror"), ("mirror verify", "there is no such mirror")],
    "sql": [("sql 'SELECT * FROM shop.a'", "has no mirror")],
    "row": [("row history shop.a 1", "'x' -> 'y'")],
    "undo": [(f"undo --table shop.a --from {MOMENT}", NO_SERVER)],
    "redo": [(f"redo --table shop.a --from {MOMENT}", NO_SERVER)],
    "reconcile": [("reconcile", NO_SERVER)],
    "doctor": [("doctor", "3 data files")],
    "upgrade": [("upgrade", "nothing to do")],
}
APART = {"init", "demo", "version", "man", "docs"}
"""Have nothing to do with a source."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> SinkWorld:
    folder: Path = tmp_path_factory.mktemp("sink")
    world = SinkWorld(folder)
    feed = Feed(world.sink, FeedForm(old_value=True))
    columns = (SinkColumn("id", pk=True, nullable=False), SinkColumn("name", "VARCHAR", precision="20"))
    table = feed.table("a", columns)
    first, second = {"id": 1, "name": "x"}, {"id": 1, "name": "y"}
    feed.write(table, [Row(START + 1, first), Row(START + (5 << 18), second, first)])
    feed.write(table, [Row(START + (20 << 18), {"id": 2, "name": "late"})])
    query = "ALTER TABLE a ADD COLUMN n INT DEFAULT 7"
    feed.ddl(table, START + (10 << 18), 5, query, (*columns, SinkColumn("n", default="7")))
    feed.write(table, [Row(START + (30 << 18), {"id": 3, "name": "z", "n": 1})])
    feed.checkpoint(START + (100 << 18))
    world.run()
    return world


def test_the_table_has_every_command() -> None:
    assert set(DONE) | APART == set(COMMANDS)


@pytest.mark.parametrize(("line", "said"), [case for cases in DONE.values() for case in cases])
def test_it_does_its_work_or_says_why_not(world: SinkWorld, line: str, said: str) -> None:
    done = world.strata(*shlex.split(line))
    text = done.stdout + done.stderr
    assert said in text
    assert "Traceback" not in text
    if said == NO_SERVER:
        assert done.returncode == 3
        assert len(done.stderr.strip().splitlines()) == 1
