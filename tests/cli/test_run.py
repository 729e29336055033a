"""`strata run`: the whole of a source by one command, on a server of its own whose first binlogs are purged."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from itertools import groupby
from pathlib import Path

import pytest

from strata_cdc.cli.main import run
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.read import read_changes
from tests.pipeline.owed_world import Died, dying_before_write

pytestmark = pytest.mark.mysql

PAST = """
CREATE DATABASE shop; USE shop;
CREATE TABLE a (id INT PRIMARY KEY, label VARCHAR(20)); CREATE TABLE b (id INT PRIMARY KEY);
INSERT INTO a VALUES (1, 'long gone');
FLUSH BINARY LOGS;
"""
LIFE = "USE shop; INSERT INTO a VALUES (2, 'x'); INSERT INTO a VALUES (3, 'y'); INSERT INTO b VALUES (1);"


@pytest.fixture(scope="module")
def server(server):
    server.run_sql(PAST)
    server.run_sql("PURGE BINARY LOGS TO 'binlog.000002';")
    server.run_sql(LIFE)
    return server


@pytest.fixture
def lake(server, tmp_path, monkeypatch) -> Path:
    """Settings with one source, whose store is a file."""
    settings = tmp_path / "strata.toml"
    settings.write_text(
        'lake = "lake"\nstore = "sqlite:///s.db"\n[sources.shop]\nconnection = "x"\ntables = ["shop.*"]'
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(settings))
    monkeypatch.setenv("AIRFLOW_CONN_X", server.url)
    # SQLAlchemy's URL of a file is relative to the process.
    monkeypatch.chdir(tmp_path)
    return tmp_path / "lake"


def test_patterns_that_match_nothing_are_refused_before_anything_is_done(lake, capsys):
    assert run(["run", "--table", "shop.aa"]) == 2
    assert '"shop.aa" matches no table: do you mean shop.a?' in capsys.readouterr().err
    settings = lake.with_name("strata.toml")
    settings.write_text(settings.read_text().replace('"shop.*"', '"shopp.*"'))
    assert run(["run"]) == 2
    assert '"shopp.*" matches no table: do you mean shop.*?' in capsys.readouterr().err
    assert [path.name for path in lake.parent.iterdir()] == ["strata.toml"]


def test_a_span_from_before_the_stream_is_refused(lake, capsys):
    assert run(["run", "--from", "2019-01-01", "--until", "2020-01-01"]) == 2
    assert "nothing from before 2020-01-01 00:00:00 UTC is in the stream" in capsys.readouterr().err


def rows(lake: Path, table: str) -> Counter:
    found = read_changes(str(lake), "shop", TableName("shop", table)).select(["_gtid", "_row", "id"])
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


def files(folder: Path) -> dict[Path, bytes]:
    """All files by what they hold. SQLite's are compared by that, too: what is in its log may move to the file."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("s.db-"))
    return {path: dumped(path) if path.name == "s.db" else path.read_bytes() for path in found}


def dumped(database: Path) -> bytes:
    with closing(sqlite3.connect(database)) as connection:
        return "\n".join(connection.iterdump()).encode()


def steps(said: str) -> list[str]:
    """One that takes long says more than once how far it is."""
    return [name for name, _ in groupby(line.split()[0] for line in said.splitlines())]


def test_the_first_run_does_all_and_the_next_ones_what_is_new(lake, server, capsys):
    assert run(["run"]) == 0
    said = capsys.readouterr().out
    assert steps(said) == ["snapshot", "land", "track", "plan", "decode", "check", "publish", "compared"]
    assert said.splitlines()[-2] == "publish   3 rows of 2 tables"
    assert [row[2] for row in rows(lake, "a")] == [2, 3]
    before = files(lake / "changes")
    assert run(["run"]) == 0
    said = capsys.readouterr().out
    assert steps(said) == ["land", "track", "plan", "compared"], "nothing is new, and Spark is not started"
    assert files(lake / "changes") == before
    assert len(list((lake / "runs" / "shop").iterdir())) == 1, "a run that found nothing leaves nothing"


def test_a_dry_run_says_what_a_run_does_and_leaves_nothing(lake, capsys):
    folder = lake.parent
    before = files(folder)
    assert run(["run", "--dry-run", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["snapshot"], first["run"]) == (True, None)
    assert first["to_land"] > 0
    assert files(folder) == before
    for step in ("snapshot", "land", "track"):
        assert run([step]) == 0
    before = files(folder)
    capsys.readouterr()
    assert run(["run", "--dry-run", "--json", "--table", "shop.a"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["tables"], found["rows"], found["to_land"]) == ({"shop.a": 2}, 2, 0)
    assert files(folder) == before
    assert run(["run", "--json", "--table", "shop.a"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["runs"]
    assert done["planned"]["rows"] == 2
    assert [table["table"] for table in done["published"]["tables"]] == ["shop.a"]


def test_step_by_step_gives_the_same(lake, capsys):
    for step in ("snapshot", "land", "track"):
        assert run([step]) == 0
    capsys.readouterr()
    assert run(["plan", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)["run"]
    assert planned.split("-")[2:4] == ["shop", "rows"]
    assert run(["decode", planned]) == 0
    engine = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(" engine "))
    assert engine.split(None, 1)[1] == "local (1 MB of binlog; local_mb is 1,024)"
    for step in ("check", "publish"):
        assert run([step, planned]) == 0, step
    assert [row[2] for row in rows(lake, "a")] == [2, 3]
    assert run(["plan", "--json"]) == 0
    empty = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (empty["tables"], empty["run"].split("-")[3]) == (0, "nothing")
    for step in ("decode", "check", "publish"):
        assert run([step, empty["run"]]) == 0, step
    assert not (lake / "runs" / "shop" / empty["run"]).exists()


def test_until_and_gtid_sets_bound_what_is_taken(lake, server, capsys):
    assert run(["run", "--json", "--until", "2020-01-01"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []
    assert run(["run", "--until", "2020-01-01", "--gtid-set", "x"]) == 2
    assert run(["run", "--until", "never"]) == 2
    assert run(["run", "--gtid-set", "x"]) == 2
    ((gtids,),) = [line.split("\t") for line in server.run_sql("SELECT @@gtid_executed").splitlines()[1:]]
    uuid, _, last = gtids.strip().rpartition(":")
    last = int(last.rpartition("-")[2])
    capsys.readouterr()
    assert run(["run", "--json", "--gtid-set", f"{uuid}:{last}"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["runs"]
    assert done["published"]["rows"] == 1
    assert run(["run", "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["runs"]
    assert done["published"]["rows"] == 2, "what the first took is not taken again"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files of what has died
def test_killed_before_any_write_the_next_run_ends_with_the_same(lake, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)
    deaths = 0
    for write in (1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 66):
        with dying_before_write(write) as done:
            try:
                run(["run"])
            except Died:
                deaths += 1
            else:
                assert done() < write
    assert deaths > 3
    assert run(["run"]) == 0
    assert [row[2] for row in rows(lake, "a")] == [2, 3]
    assert set(rows(lake, "a").values()) == {1}
    assert list(rows(lake, "b").values()) == [1]


@pytest.mark.spark
@pytest.mark.slow
def test_on_spark_itself(lake):
    program = Path(sys.executable).with_name("strata")
    done = subprocess.run([program, "run"], capture_output=True, text=True, check=False, cwd=lake.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert steps(done.stdout) == ["snapshot", "land", "track", "plan", "decode", "check", "publish", "compared"]
    assert done.stdout.splitlines()[-2] == "publish   3 rows of 2 tables"
    assert [row[2] for row in rows(lake, "a")] == [2, 3]


def test_an_idle_source_whose_store_it_has_comes_to_rest(lake, server, capsys):
    settings = lake.parent / "strata.toml"
    settings.write_text(settings.read_text().replace('store = "sqlite:///s.db"\n', ""))

    def executed() -> str:
        return server.run_sql("SELECT @@gtid_executed")

    def segments() -> int:
        return len(list((lake / "landing" / "shop").glob("*.binlog")))

    try:
        assert run(["run"]) == 0
        assert run(["run"]) == 0, "it lands what the first has written"
        before = executed(), segments()
        for command in (["run"], ["track"], ["plan"], ["run", "--dry-run"], ["status"]):
            assert run(command) == 0
        assert (executed(), segments()) == before
        capsys.readouterr()
        assert run(["status", "--json"]) == 0
        status = json.loads(capsys.readouterr().out)
        assert (status["unowned"], status["owed_since"]) == (0, 0)
        assert status["behind_seconds"] < 60
        server.run_sql("USE shop; INSERT INTO b VALUES (7)")
        assert run(["run"]) == 0
        assert sorted(row[2] for row in rows(lake, "b")) == [1, 7]
        # All of the span by hand, what is the store's own included, is as complete as any.
        assert run(["plan", "--start", "2020-01-01"]) == 0
        (lake / "landing").rename(lake / "away")
        capsys.readouterr()
        assert run(["status"]) == 0
        assert "missing: " in capsys.readouterr().out
        assert run(["status", "--json"]) == 0
        status = json.loads(capsys.readouterr().out)
        assert (status["unowned"], status["gone"]) == (0, status["owned_seq"])
        (lake / "away").rename(lake / "landing")
    finally:
        server.run_sql("DROP DATABASE strata; DELETE FROM shop.b WHERE id = 7")
