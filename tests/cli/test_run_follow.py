"""`strata run --follow` beside writers: rows come within seconds, whatever is stopped or killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc import mirrors
from strata_cdc.cli.main import run
from strata_cdc.errors import StrataError, Transient
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.tables.read import read_changes
from tests.mysql_server import start_server
from tests.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

REPOSITORY = Path(__file__).parents[2]
STRATA = Path(sys.executable).with_name("strata")
SETTINGS = """lake = "lake"
store = "sqlite:///{folder}/s.db"
[sources.shop]
connection = "x"
tables = ["shop.*"]
mirrors = ["shop.*"]
"""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[MysqlServer]:
    with start_server(tmp_path / "server") as server:
        server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.a (id INT PRIMARY KEY, n INT)")
        yield server


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "strata.toml").write_text(SETTINGS.format(folder=tmp_path))
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_X", "mysql://root@127.0.0.1:1/")
    return tmp_path / "strata.toml"


@pytest.fixture
def folder(own_server: MysqlServer, settings: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW_CONN_X", own_server.url)
    return settings.parent


@contextmanager
def following(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The command at work; at the end of the block it has to be gone."""
    command = [str(STRATA), "run", "--follow", "--every", "200ms", *options]
    with (folder / "out").open("a") as out, (folder / "err").open("a") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, text=True, env=os.environ)
    try:
        yield process
        process.wait(PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()


def said(folder: Path) -> str:
    return (folder / "err").read_text()


def shown_runs(folder: Path) -> list[dict[str, Any]]:
    """The runs that `--json` has printed so far, whole lines only."""
    lines = (folder / "out").read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]


def mirrored(folder: Path) -> list[tuple[int, int]]:
    try:
        table = mirrors.open(str(folder / "lake"), "shop", "shop.a").to_arrow()
    except StrataError:
        # It is not there yet.
        return []
    return sorted(zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True))


def test_rows_come_while_it_follows_and_it_ends_when_it_is_asked_to(own_server: MysqlServer, folder: Path) -> None:
    with following(folder) as process:
        for number in range(3):
            own_server.run_sql(f"INSERT INTO shop.a VALUES ({number}, 0); UPDATE shop.a SET n = n + 1")
            wait_until(lambda last=number: (last, 1) in mirrored(folder))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, said(folder)
    shown = (folder / "out").read_text().splitlines()
    assert len([line for line in shown if "published" in line]) >= 3
    assert len(shown) < 12, "runs without anything to do are not shown"
    # A killed one leaves what another continues with.
    with following(folder, "--json") as process:
        own_server.run_sql("INSERT INTO shop.a VALUES (10, 10)")
        wait_until(lambda: (10, 10) in mirrored(folder))
        # The line comes after the mirror: a run is shown when all of it has ended.
        wait_until(lambda: sum(shown_run["rows"] for shown_run in shown_runs(folder)) >= 1)
        own_server.run_sql("UPDATE shop.a SET n = n * 2")
        process.kill()
    with following(folder) as process:
        wait_until(lambda: (10, 20) in mirrored(folder))
        process.send_signal(signal.SIGINT)
    changes = read_changes(str(folder / "lake"), "shop", TableName("shop", "a"))
    places = list(zip(changes["_gtid"].to_pylist(), changes["_row"].to_pylist(), strict=True))
    assert len(places) == len(set(places)) == 3 + 1 + 2 + 3 + 1 + 4


def test_intervals_become_one_while_others_are_published(own_server: MysqlServer, folder: Path) -> None:
    """Two processes merge all they can, the newest intervals, too, while the source is followed."""
    text = (folder / "strata.toml").read_text()
    (folder / "strata.toml").write_text(f"{text}merge_minutes = 60\nkeep_merged_hours = 0\n")
    command = [sys.executable, "-m", "tests.cli.merging", "shop"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (REPOSITORY, REPOSITORY / "include")))}
    with following(folder) as process:
        own_server.run_sql("INSERT INTO shop.a VALUES (-1, 0)")
        wait_until(lambda: (-1, 0) in mirrored(folder))
        merging = [
            subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for _ in range(2)
        ]
        for number in range(10):
            own_server.run_sql(f"INSERT INTO shop.a VALUES ({number}, 0); UPDATE shop.a SET n = n + 1 WHERE id < 3")
            time.sleep(0.3)
        wait_until(lambda: (9, 0) in mirrored(folder))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, said(folder)
    for one in merging:
        one.terminate()
    outputs = [one.communicate(timeout=PATIENCE_SECONDS)[0].decode() for one in merging]
    assert [one.returncode for one in merging] == [0, 0], outputs
    assert any(outputs), "at least one of them has merged something"
    with own_server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, n FROM a ORDER BY id")
        assert mirrored(folder) == list(cursor.fetchall())
    changes = read_changes(str(folder / "lake"), "shop", TableName("shop", "a"))
    places = list(zip(changes["_gtid"].to_pylist(), changes["_row"].to_pylist(), strict=True))
    assert len(places) == len(set(places)) == 1 + 10 + sum(1 + min(number + 1, 3) for number in range(10))
    assert len(IntervalLedger(open_store(f"sqlite:///{folder}/s.db")).all("shop")) <= 6


def test_several_at_once_publish_each_row_once(own_server: MysqlServer, folder: Path) -> None:
    with following(folder) as one, following(folder) as other:
        for number in range(8):
            own_server.run_sql(f"INSERT INTO shop.a VALUES ({number}, 0)")
            assert run(["run"]) in {0, Transient.exit_code}
        wait_until(lambda: len(mirrored(folder)) == 8)
        for process in (one, other):
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0, said(folder)
    changes = read_changes(str(folder / "lake"), "shop", TableName("shop", "a"))
    assert sorted(changes["id"].to_pylist()) == list(range(8))


def test_a_server_that_is_away_is_waited_for(folder: Path, own_server: MysqlServer) -> None:
    with following(folder) as process:
        own_server.run_sql("INSERT INTO shop.a VALUES (1, 1)")
        wait_until(lambda: mirrored(folder) == [(1, 1)])
        own_server.kill()
        wait_until(lambda: len(said(folder).splitlines()) > 1)
        own_server.start_again()
        own_server.run_sql("INSERT INTO shop.a VALUES (2, 2)")
        wait_until(lambda: mirrored(folder) == [(1, 1), (2, 2)])
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, said(folder)


def test_what_is_withheld_is_said_once_and_is_the_exit_code(folder: Path, own_server: MysqlServer) -> None:
    own_server.run_sql("CREATE TABLE shop.b (id INT PRIMARY KEY); INSERT INTO shop.b VALUES (1)")
    assert run(["run"]) == 0
    # No log has the rows of this table from here on: the rest of the source goes on.
    own_server.run_sql("SET SESSION binlog_format = 'STATEMENT'; INSERT INTO shop.b VALUES (2)")
    settings = folder / "strata.toml"
    settings.write_text(settings.read_text() + 'on_statement = "hold"\n')
    with following(folder) as process:
        own_server.run_sql("INSERT INTO shop.a VALUES (1, 1)")
        wait_until(lambda: mirrored(folder) == [(1, 1)])
        own_server.run_sql("INSERT INTO shop.a VALUES (2, 2)")
        wait_until(lambda: mirrored(folder) == [(1, 1), (2, 2)])
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 1
    assert said(folder).count("of shop.b are not published") == 2, "when it was found, and at the end"
    assert "the problem is over" not in said(folder)


def test_what_is_published_after_all_is_no_problem_any_more(folder: Path, own_server: MysqlServer) -> None:
    own_server.run_sql("CREATE TABLE shop.b (id INT PRIMARY KEY); INSERT INTO shop.b VALUES (1)")
    settings = folder / "strata.toml"
    settings.write_text(settings.read_text() + 'on_statement = "hold"\n')
    assert run(["run"]) == 0
    with following(folder) as process:
        own_server.run_sql("SET SESSION binlog_format = 'STATEMENT'; INSERT INTO shop.b VALUES (2)")
        wait_until(lambda: "of shop.b are not published" in said(folder))
        settings.write_text(settings.read_text().replace('"hold"', '"publish"'))
        wait_until(lambda: run(["run", "--failed"]) == 0)
        wait_until(lambda: "the problem is over" in said(folder))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, said(folder)


@pytest.mark.parametrize(
    "options",
    [["--until", "2026-01-01"], ["--from", "2026-01-01"], ["--gtid-set", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"],
     ["--dry-run"], ["--every", "5"], ["--every", "0s"], ["--every", "soon"]],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(settings: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--follow", *options]) == 2
    assert not settings.with_name("lake").exists()
    assert capsys.readouterr().err.startswith("strata: ")


def test_it_says_from_the_start_what_it_does(folder: Path) -> None:
    with following(folder) as process:
        wait_until(lambda: said(folder))
        process.send_signal(signal.SIGTERM)
    assert "following shop, every 0.2 s" in said(folder)
