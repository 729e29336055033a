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
NO_POSITION = "the source is the folder of a TiCDC sink, and "
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
SECOND, DDL = START + (5 << 18), START + (10 << 18)
MOMENT = "2026-05-01T15:22:05.810Z"
CACHE = "--redis redis://127.0.0.1:1/0 --shapes FOLDER/cache.toml"
DONE: dict[str, list[tuple[str, str]]] = {
    "run": [("run", "nothing new"), (f"run --gtid-set {UUID}", NO_POSITION), ("run --gtid-set x", NO_POSITION)],
    "land": [("land", "transactions"), ("land --files .", "--files is for binlogs"), ("land --follow", NO_SERVER)],
    "snapshot": [("snapshot", NO_SERVER)],
    "track": [("track", "is known up to transaction 5")],
    "schema": [
        ("schema show", "DEFAULT '7'"),
        ("schema history", "ALTER TABLE a ADD COLUMN n INT DEFAULT 7"),
        ("schema history", f"shop.a transaction 3 commit-ts {DDL} DDL"),
        ("schema history --store STORE --source s", "shop.a transaction 3"),
        ("schema diff --from 2026-05-01T15:22:05.790Z", "column n int after name"),
        (f"schema diff --from {DDL - 1}", "column n int after name"),
        (f"schema diff --from {DDL}:rows --to {DDL}", "column n int after name"),
        (f"schema diff --from {DDL}", "no table differs"),
        (f"schema show --commit-ts {DDL - 1}", "shop.a since transaction 1, baseline"),
        ("schema show --table shop.zz", "shop.zz"),
        (f"schema show --commit-ts {DDL}", "DEFAULT '7'"),
        (f"schema show --commit-ts {DDL} --gtid-set {UUID}", "only one of"),
        (f"schema show --commit-ts {DDL} --store STORE --source s", "Leave --store out"),
        (f"schema show --gtid-set {UUID}", NO_POSITION),
        ("schema show --position binlog.000001:4", NO_POSITION),
        (f"schema show --gtid-set {DDL}", NO_POSITION),
        (f"schema show --position {DDL}", NO_POSITION),
        (f"position --gtid-set {DDL}", NO_POSITION),
        (f"position --file {DDL}", NO_POSITION),
        (f"run --gtid-set {DDL}", NO_POSITION),
        (f"plan --gtid-set {DDL}", NO_POSITION),
        ("schema show --time 2026-05-01T15:22:05.790Z", "shop.a since transaction 1, baseline"),
        (f"schema show --commit-ts {START + (200 << 18)}", "has not landed yet"),
        ("schema diff --from x", NO_POSITION),
    ],
    "plan": [("plan", "tables     0"), (f"plan --gtid-set {UUID}", NO_POSITION), ("plan --gtid-set x", NO_POSITION)],
    "decode": [("decode none", "neither a file nor a run")],
    "check": [("check none", "there is no run none")],
    "publish": [("publish none", "there is no run none")],
    "intervals": [("intervals", "shop.a  published")],
    "quarantine": [("quarantine list", "nothing is withheld")],
    "status": [("status", "ended")],
    "position": [
        (f"position --time {MOMENT}", "2026-05-01T15:22:05.801000"),
        (f"position --time {MOMENT} --json", f'"commit_ts": "{START + (20 << 18)}:rows"'),
        (f"position --commit-ts {SECOND} --json", '"seq": 2'),
        (f"position --commit-ts {DDL}:rows --json", '"seq": 2'),
        (f"position --commit-ts {DDL} --json", f'"commit_ts": "{DDL}"'),
        (f"position --commit-ts {START - 1} --json", '"seq": 0'),
        (f"position --commit-ts {START + (99 << 18)} --json", '"seq": 5'),
        (f"position --commit-ts {START + (100 << 18)}", "has not landed yet"),
        ("position --commit-ts x", "is no commit timestamp"),
        (f"position --gtid-set {UUID}", NO_POSITION),
        ("position --gtid-set x", NO_POSITION),
        ("position --file binlog.000001:4", NO_POSITION),
    ],
    "cut": [("cut --group g", "there is no group 'g'")],
    "stream": [
        ("stream", '"heartbeat": true'),
        ("stream --from beginning", '"after":{"id":3,"name":"z","n":1}'),
        (f"stream --from {MOMENT}", '"seq":5'),
        ("stream --from binlog.000001:4", NO_POSITION),
        (f"stream --from {UUID}", NO_POSITION),
        ("stream --from GARBAGE", NO_POSITION),
        ("stream --until GARBAGE", NO_POSITION),
        (f"stream --from {DDL}", '"seq":4'),
    ],
    "cache": [
        ("cache --help", "follow"),
        (f"cache follow {CACHE}", NO_SERVER),
        (f"cache follow --once --anew {CACHE}", NO_SERVER),
        (f"cache inspect {CACHE}", NO_SERVER),
    ],
    "token": [("token show x", "is not an event token")],
    "retain": [("retain", "kept        1")],
    "housekeep": [("housekeep", "nothing is older")],
    "lake": [("lake show", "belongs to the store"), ("lake rebuild", "it has all")],
    "views": [("views --dialect duckdb", "CREATE")],
    "dump": [("dump --table shop.a", NO_SERVER)],
    "serve": [("serve --help", "Usage")],
    "mirror": [("mirror list", "no mirror"), ("mirror verify", "there is no such mirror")],
    "sql": [("sql 'SELECT * FROM shop.a'", "has no mirror"), ("sql 'SELECT * FROM shop.zz'", "shop.zz")],
    "row": [
        ("row history shop.a 1", "'x' -> 'y'"),
        ("row history shop.a 1", "a TiCDC sink has no statements of clients"),
        ("row history shop.a 1", f"DDL  transaction 3  commit-ts {DDL}  shop.a"),
        ("row history shop.a 1 --format jsonl", '"file": "commits.000001"'),
        ("row blame shop.a 1", f"DDL  transaction 3  commit-ts {DDL}  shop.a"),
        (f"row history shop.a 1 --to {SECOND - 1}", "'x'"),
        (f"row history shop.a 1 --from {SECOND - 1}", "'x' -> 'y'"),
        (f"row history shop.a 1 --from {SECOND}", "no change of such a row"),
        ("row history shop.zz 1", "shop.zz"),
        ("row diff shop.a 1 --from '2026-05-01T15:22:05.870Z'", "has no mirror"),
        (f"row diff shop.a 1 --from {UUID}", NO_POSITION),
        ("row diff shop.a 1 --from GARBAGE", "nor a commit timestamp of TiDB"),
        (f"row diff shop.a 1 --from {START + (100 << 18)}", "has not landed yet"),
    ],
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
    (folder / "cache.toml").write_text('source = "s"\n[shapes.a]\n"shop.a" = ["id"]\n')
    world.run()
    return world


def test_the_table_has_every_command() -> None:
    assert set(DONE) | APART == set(COMMANDS)


@pytest.mark.parametrize(("line", "said"), [case for cases in DONE.values() for case in cases])
def test_it_does_its_work_or_says_why_not(world: SinkWorld, line: str, said: str) -> None:
    line = line.replace("STORE", f"sqlite:///{world.folder}/store.db").replace("FOLDER", str(world.folder))
    done = world.strata(*shlex.split(line))
    text = done.stdout + done.stderr
    assert said in text
    assert "Traceback" not in text
    if said == NO_SERVER:
        assert done.returncode == 3
        assert len(done.stderr.strip().splitlines()) == 1
    if said == NO_POSITION:
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1
    if done.returncode:
        assert not any(word in done.stderr for word in ("strata dump", "strata snapshot", "reconcile"))
