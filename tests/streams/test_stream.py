"""The stream of a real server's life: what `strata decode` gives of the same files, each line with a token from which a
reader goes on, wherever the seam between landed segments and the live server lies."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.cli.main import BROKEN_PIPE, run
from strata_cdc.errors import SourceDivergedError, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.token import Order, Token
from strata_cdc.position.token_text import from_text
from strata_cdc.streams.events import Commit, Ddl, Heartbeat, RowChange
from tests.position.former_texts import former_text
from tests.streams.world import World, bare, lines_of

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

PAST = """
CREATE DATABASE d; USE d;
CREATE TABLE t (a INT PRIMARY KEY, b TEXT, c DECIMAL(8,2));
INSERT INTO t VALUES (1, REPEAT('x', 9000), 1.5), (2, 'y', 2);
CREATE TABLE j (a INT PRIMARY KEY, doc JSON); INSERT INTO j VALUES (1, '{"k": 1, "l": [1, 2]}');
CREATE TABLE x (a INT PRIMARY KEY, b TEXT, c INT);
SET binlog_transaction_compression = ON; CREATE TABLE u AS SELECT * FROM t; UPDATE t SET a = a + 2;
SET binlog_transaction_compression = OFF; ALTER TABLE u ADD e ENUM('n', 'm') DEFAULT 'm' FIRST;
BEGIN; INSERT INTO t VALUES (5, '5', 5), (6, '6', 6), (7, '7', 7); UPDATE u SET b = 'w';
DELETE FROM t WHERE a = 3; COMMIT;
XA START 'one'; INSERT INTO x VALUES (10, 'one', 1); XA END 'one'; XA PREPARE 'one';
XA START 'two'; INSERT INTO x VALUES (11, 'two', 2), (12, 'two', 2); XA END 'two'; XA PREPARE 'two';
FLUSH BINARY LOGS;
BEGIN; INSERT INTO t VALUES (90, 'never', 0); ROLLBACK;
SET gtid_next = 'automatic:tagged'; INSERT INTO t VALUES (13, '13', 13); SET gtid_next = automatic;
"""
LATER = """
USE d; XA ROLLBACK 'one'; ALTER TABLE t ADD f INT DEFAULT 9 FIRST, RENAME COLUMN b TO g;
XA COMMIT 'two'; UPDATE t SET f = a;
SET binlog_row_image = MINIMAL; UPDATE t SET c = 8 WHERE a = 6; DELETE FROM t WHERE a = 7; SET binlog_row_image = FULL;
SET binlog_row_value_options = PARTIAL_JSON; UPDATE j SET doc = JSON_SET(doc, '$.k', 2);
SET binlog_row_value_options = '';
TRUNCATE u; FLUSH BINARY LOGS; DROP TABLE u; CREATE TABLE u (z INT); INSERT INTO u VALUES (1), (2);
XA START 'big'; INSERT INTO x VALUES (7, '7', 7); XA END 'big'; XA PREPARE 'big'; XA COMMIT 'big'; RENAME TABLE u TO v;
SET binlog_transaction_compression = ON; INSERT INTO v SELECT a FROM t;
"""


@pytest.fixture(scope="module")
def world(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("stream")
    made = World(server, folder, lineage="first")
    server.run_sql(PAST)
    made.land()
    made.track()
    server.run_sql(LATER)
    return made


@pytest.fixture(scope="module")
def whole(world: World) -> list[dict[str, Any]]:
    return world.lines()


def decoded(server: MysqlServer, folder: Path) -> list[dict[str, Any]]:
    """What the files hold, by another way."""
    out = folder / "decoded.jsonl"
    assert run(["decode", *map(str, server.binlogs()), "--out", str(out), "--format", "jsonl"]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


def rows_of(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in line.items() if name not in ("token", "committed_at", "source")}
        for line in lines
        if "op" in line
    ]


def test_rows_are_those_of_the_files(world: World, whole, tmp_path):
    assert rows_of(whole) == decoded(world.server, tmp_path)
    assert len(rows_of(whole)) > 25


def test_each_transaction_ends_once(world: World, whole):
    commits = [line["gtid"] for line in whole if "commit" in line]
    assert len(commits) == len(set(commits))
    executed = world.server.run_sql("SELECT @@GLOBAL.gtid_executed").split("\n", 1)[1].replace("\\n", "").strip()
    assert GtidSet.parse(",".join(commits)) == GtidSet.parse(executed)
    [place] = from_text(whole[-1]["token"]).positions
    assert (place.position, place.lineage) == (GtidSet.parse(executed), "first")


def test_ddl_comes_in_front_of_the_first_row_of_the_new_shape(whole):
    altered = next(at for at, line in enumerate(whole) if line.get("ddl", "").startswith("ALTER TABLE t"))
    for at, line in enumerate(whole):
        image = (line.get("after") or line.get("before") or {}) if line.get("table") == "t" else {}
        assert not image.keys() & ({"b"} if at > altered else {"f", "g"})
    assert any("f" in (line.get("after") or {}) for line in whole[altered:])
    ddl = [line for line in whole if "ddl" in line][-5:]
    assert [line["ddl"].split()[0] for line in ddl] == ["ALTER", "TRUNCATE", "DROP", "CREATE", "RENAME"]
    assert [line["version"] for line in ddl] == [-1, None, -2, -3, -4]
    assert [line["tables"] for line in ddl][-2:] == [["d.u"], ["d.u", "d.v"]]
    assert all(line["version"] > 0 for line in whole if "ddl" in line and line not in ddl)


def test_the_versions_are_those_that_tracking_makes_later(world: World, whole, tmp_path):
    later = World(world.server, tmp_path, lineage="first")
    later.land()
    later.track()
    again = later.lines(until="landed")
    assert list(map(bare, again)) == list(map(bare, whole))
    assert [line["version"] is None for line in again if "ddl" in line] == [
        line["version"] is None for line in whole if "ddl" in line
    ]


def test_a_store_that_has_come_further_meanwhile_is_taken_as_it_is(world: World, whole, tmp_path):
    copied = World(world.server, tmp_path / "copied", lineage="first")
    shutil.copytree(world.folder, copied.folder, ignore=shutil.ignore_patterns("server"))
    written = copied.stream().written()
    lines = [json.loads(line) for line in next(written).splitlines()]
    assert len(lines) < len(whole)
    # It has opened what had landed and was tracked by then.
    copied.land()
    copied.track()
    lines += [json.loads(line) for text in written for line in text.splitlines()]
    assert list(map(bare, lines)) == list(map(bare, whole))
    assert all(line["version"] is None or line["version"] > 0 for line in lines if "ddl" in line)


def test_a_reader_goes_on_behind_any_line(world: World, whole):
    """Those of rows inside of transactions, too; in front of the seam and behind it."""
    for at, line in enumerate(whole):
        if at % 4 == 0 or line.get("row") == 1:
            assert list(map(bare, world.lines(line["token"]))) == list(map(bare, whole[at + 1 :])), line


@pytest.mark.parametrize("table", ["d.t", "d.u", "d.x"])
def test_a_reader_of_some_tables_goes_on_behind_any_line(world: World, whole, table: str):
    """After the last row of these tables, too: the end of its transaction comes then."""
    some = world.lines(tables=[table])
    for at, line in enumerate(some):
        assert list(map(bare, world.lines(line["token"], tables=[table]))) == list(map(bare, some[at + 1 :])), line
    # A reader of all tables may have come to any line of a transaction.
    by_token = {line["token"]: at for at, line in enumerate(whole)}
    for at, line in enumerate(whole[:-1:3]):
        later = [one for one in some if by_token[one["token"]] > 3 * at]
        assert list(map(bare, world.lines(line["token"], tables=[table]))) == list(map(bare, later)), line


def test_a_reader_goes_on_after_a_text_of_a_former_version(world: World, whole):
    for at, line in enumerate(whole):
        if at % 9 == 0 or line.get("row") == 1:
            former = former_text(from_text(line["token"]))
            assert former != line["token"]
            assert list(map(bare, world.lines(former))) == list(map(bare, whole[at + 1 :])), line


def test_each_token_is_behind_the_one_before(whole):
    tokens = [from_text(line["token"]) for line in whole]
    assert all(one.compare(two) is Order.BEFORE for one, two in pairwise(tokens))


def test_positions_of_every_kind(world: World, whole):
    commits = [at for at, line in enumerate(whole) if "commit" in line]
    for at in commits[1::6]:
        line = whole[at]
        [place] = from_text(line["token"]).positions
        behind = list(map(bare, whole[at + 1 :]))
        assert list(map(bare, world.lines(str(place.position)))) == behind
        assert world.lines("beginning", until=line["token"])[-1]["token"] == line["token"]
        assert world.lines("beginning", until=str(place.position)) == whole[: at + 1]
        in_time = [one for one in behind if one["committed_at"] >= line["committed_at"]]
        found = list(map(bare, world.lines(line["committed_at"])))
        assert found[-len(in_time) :] == in_time[-len(found) :]
        assert found[0]["committed_at"] >= line["committed_at"]
        before = world.lines("beginning", until=line["committed_at"])
        assert before == [one for one in whole if one["committed_at"] < line["committed_at"]]
    assert world.lines("now") == []
    assert world.lines(whole[-1]["token"]) == []
    landed = LandedStream.open(world.lake, "s")
    assert len([line for line in world.lines(until="landed") if "commit" in line]) == landed.last_seq
    _, record = landed.record_at(8)
    position = f"{record.binlog_file}:{record.binlog_pos}"
    assert next(line["seq"] for line in world.lines(position) if "op" in line) == 8


def test_some_tables_and_columns(world: World, whole):
    lines = world.lines(tables=["d.v", "d.u"], columns=["B", "z"])
    assert {line["table"] for line in lines if "op" in line} == {"u", "v"}
    assert {name for line in lines if "op" in line for name in line["after"] or {}} == {"b", "z"}
    mine = [line["gtid"] for line in lines if "op" in line or "ddl" in line]
    assert sorted(set(mine)) == sorted(line["gtid"] for line in lines if "commit" in line)
    assert all({"d.u", "d.v"} & set(line["tables"]) for line in lines if "ddl" in line)


def test_events_in_python(world: World, whole):
    events = list(world.stream())
    assert [event.token for event in events] == [line["token"] for line in whole]
    rows = [event for event in events if isinstance(event, RowChange)]
    assert rows[0].after["c"] == Decimal("1.50")
    assert [(row.gtid, row.seq, row.row, row.op) for row in rows] == [
        (line["gtid"], line["seq"], line["row"], line["op"]) for line in whole if "op" in line
    ]
    assert [event.statement for event in events if isinstance(event, Ddl)] == [
        line["ddl"] for line in whole if "ddl" in line
    ]
    assert [event.gtid for event in events if isinstance(event, Commit)] == [
        line["gtid"] for line in whole if "commit" in line
    ]

    async def read() -> list[str]:
        return [event.token async for event in world.stream()]

    assert asyncio.run(read()) == [event.token for event in events]


def test_arrow_batches(world: World, whole):
    spans = list(world.stream().spans())
    rows = sum(batch.batch.num_rows for span in spans for batch in span.batches)
    assert rows == len(rows_of(whole))


def test_heartbeats_carry_the_position(world: World, whole):
    stream = world.stream("now", follow=True, heartbeat_seconds=0.1)
    found = []
    for event in stream:
        found.append(event)
        if len(found) == 2:
            stream.close()
    assert all(isinstance(event, Heartbeat) for event in found)
    assert from_text(found[0].token).compare(from_text(whole[-1]["token"])) is Order.EQUAL


def test_a_heartbeat_inside_of_a_transaction_forgets_nothing(world: World, whole):
    row = next(line for line in whole if line.get("row") == 1 and line["seq"] > 20)
    stream = world.stream(row["token"], follow=True, heartbeat_seconds=0.0)
    heartbeat = next(event for event in stream if isinstance(event, Heartbeat))
    behind = whole.index(row) + 1
    assert from_text(heartbeat.token).compare(from_text(row["token"])) is Order.EQUAL
    assert list(map(bare, world.lines(heartbeat.token))) == list(map(bare, whole[behind:]))


def test_a_time_that_comes_ends_a_quiet_stream(world: World):
    soon = datetime.fromtimestamp(time.time() + 1, UTC)
    assert all(isinstance(event, Heartbeat) for event in world.stream("now", until=soon, follow=True))


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        ("v1.AAAA", Usage, "cut or damaged"),
        ("2026-13-01", Usage, "is no time"),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7", SourceDivergedError, "has not executed"),
        ("nonsense", Usage, "nonsense"),
    ],
)
def test_positions_that_mean_nothing_are_refused(world: World, start, error, message):
    with pytest.raises(error, match=message):
        world.lines(start)


def test_tokens_say_what_was_copied_from_other_sources(world: World, whole):
    copy = World(world.server, world.folder, lineage="first", copied_from={"old": "before"})
    lines = copy.lines()
    assert [line | {"token": ""} for line in lines] == [line | {"token": ""} for line in whole]
    for line, other in list(zip(lines, whole, strict=True))[::7]:
        mine, [place] = from_text(line["token"]), from_text(other["token"]).positions
        written = Token.of("old", place.position, lineage="before")
        assert (written.compare(mine), mine.compare(written)) == (Order.BEFORE, Order.AFTER)
        assert mine.compare(Token((place,))) is Order.EQUAL
        assert len(line["token"]) <= 200
    row = next(at for at, line in enumerate(lines) if "op" in line)
    assert copy.lines(lines[row]["token"]) == lines[row + 1 :]
    [beat] = [event for event in copy.stream(until="now", heartbeat_seconds=0.0) if isinstance(event, Heartbeat)][-1:]
    assert from_text(beat.token).positions[0].origins[0].source == "old"


def test_tokens_of_others_are_refused(world: World, whole):
    token = whole[5]["token"]
    with pytest.raises(Usage, match="the token is of s, not of t"):
        World(world.server, world.folder, name="t", lineage="first").lines(token)
    with pytest.raises(Usage, match="another history"):
        World(world.server, world.folder, lineage="second").lines(token)


def test_lines_of_a_generator_are_those_of_the_command(world: World, whole, monkeypatch, tmp_path, capfdbinary):
    settings = tmp_path / "strata.toml"
    settings.write_text(
        f'lake = "{world.lake}"\n[sources.s]\nconnection = "c"\nstore = "{world.store_url}"\nlineage = "first"\n'
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(settings))
    monkeypatch.setenv("AIRFLOW_CONN_C", world.server.url)
    capfdbinary.readouterr()
    assert run(["stream", "--from", "beginning", "--table", "d.*"]) == 0
    printed = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert printed == list(lines_of(world.stream(tables=["d.*"])))
    assert run(["stream", "--from", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"]) == 3
    assert run(["stream", "--from", "yesterday"]) == 2
    capfdbinary.readouterr()
    assert run(["stream", "--from", "beginning", "--table", "t"]) == 2
    assert b'"t" matches no table: it has no dot' in capfdbinary.readouterr().err
    for options, said in (
        (["--table", "d.*", "--table", "nowhere.*"], b'"nowhere.*" matches no table'),
        (["--table", "d.*", "--columns", "A,zz"], b'no table has or had a column "zz"'),
    ):
        assert run(["stream", "--from", "beginning", "--until", "landed", *options]) == 0
        assert said in capfdbinary.readouterr().err
    assert run(["stream", "--from", "beginning", "--table", "d.*", "--columns", " ,"]) == 0
    assert list(map(json.loads, capfdbinary.readouterr().out.splitlines())) == printed


def test_who_reads_the_command_may_go_away(world: World, tmp_path):
    settings = tmp_path / "strata.toml"
    settings.write_text(f'lake = "{world.lake}"\n[sources.s]\nconnection = "c"\nstore = "{world.store_url}"\n')
    mine = {"STRATA_SETTINGS": str(settings), "AIRFLOW_CONN_C": world.server.url}
    command = [str(Path(sys.executable).with_name("strata")), "stream", "--from", "beginning", "--follow"]
    with subprocess.Popen(command, env=os.environ | mine, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        assert json.loads(started.stdout.readline())["token"]
        started.stdout.close()
        # The next heartbeat finds nobody.
        assert started.wait(60) == BROKEN_PIPE
        assert started.stderr.read().startswith(b"strata: s after beginning; continues")
