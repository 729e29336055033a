"""A lake and a store know each other: another lake for one run, one that is lost, an older copy of it, two first runs
at once. What is refused loses nothing; what the server still has comes again, and the rest is declared."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from strata.cli.main import run
from strata.jobs.lake import rebuild
from strata.schema.model.definition import TableName
from strata.store.lakes import LakeLedger
from strata.tables.read import read_changes
from tests.jobs.spark_in_process import in_process

__all__ = ["in_process"]

pytestmark = pytest.mark.mysql

HISTORIES = int(os.environ.get("STRATA_HISTORIES", "1"))
WRITES = (
    ["run"],
    ["snapshot"],
    ["land"],
    ["land", "--files", "."],
    ["track"],
    ["plan"],
    ["publish", "some-run"],
    ["decode", "20261121T033000Z-20261121T033500Z-shop-rows-0f1e2d3c4b"],
    ["check", "20261121T033000Z-20261121T033500Z-shop-rows-0f1e2d3c4b"],
    ["dump"],
    ["housekeep"],
    ["retain"],
    ["mirror", "update"],
    ["mirror", "compact"],
    ["mirror", "vacuum"],
    ["quarantine", "discard", "--all", "--because", "test"],
)


@pytest.fixture
def lake(server, tmp_path, monkeypatch) -> Path:
    server.run_sql(
        "DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;"
        "CREATE TABLE shop.a (id INT PRIMARY KEY AUTO_INCREMENT, label VARCHAR(20)); CREATE TABLE shop.b (id INT)"
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_X", server.url)
    monkeypatch.chdir(tmp_path)
    use_lake("lake")
    return tmp_path / "lake"


def use_lake(name: str) -> None:
    Path("strata.toml").write_text(
        f'lake = "{name}"\nstore = "sqlite:///s.db"\n[sources.shop]\nconnection = "x"\ntables = ["shop.*"]'
        '\nmirrors = ["shop.*"]\n'
    )


def write(server, chance: random.Random) -> None:
    count = chance.randint(1, 4)
    server.run_sql(
        "".join(f"INSERT INTO shop.a (label) VALUES ('{chance.random()}');" for _ in range(count))
        + f"INSERT INTO shop.b (id) VALUES ({chance.randrange(1000)});"
        + ("FLUSH BINARY LOGS;" if chance.random() < 0.5 else "")
    )


def published(lake: Path) -> dict[str, Counter]:
    """Rows of all change tables, each with its transaction and how often it is there."""
    return {
        table: Counter(
            zip(
                *(
                    read_changes(str(lake), "shop", TableName("shop", table)).column(name).to_pylist()
                    for name in ("_gtid", "_row", "_seq", "id")
                ),
                strict=True,
            )
        )
        for table in ("a", "b")
    }


def assert_complete(server, lake: Path) -> None:
    """Each row is in its change table once, as the server has it."""
    for table, found in published(lake).items():
        wanted = Counter(int(line) for line in server.run_sql(f"SELECT id FROM shop.{table}").split("\n")[1:] if line)
        assert Counter(row[-1] for row in found.elements()) == wanted
        assert set(found.values()) <= {1}


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_another_lake_for_one_run(server, lake, in_process, capsys, seed):
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 2)):
        write(server, chance)
        assert run(["run"]) == 0
    write(server, chance)
    use_lake("other")
    before = Path("s.db").read_bytes(), sorted(lake.rglob("*"))
    for words in WRITES:
        capsys.readouterr()
        assert run(words) == 3, words
        said = capsys.readouterr().err
        assert "is not the one that the store knows" in said, (words, said)
        assert "strata lake show" in said
    assert (Path("s.db").read_bytes(), sorted(lake.rglob("*"))) == before
    assert not list(Path("other").rglob("*.binlog"))
    use_lake("lake")
    assert run(["run"]) == 0
    assert_complete(server, lake)


def test_an_older_copy(server, lake, in_process, capsys):
    write(server, random.Random(1))
    assert run(["run"]) == 0
    shutil.copytree(lake, "copy")
    write(server, random.Random(2))
    assert run(["run"]) == 0
    write(server, random.Random(3))
    use_lake("copy")
    assert run(["run"]) == 3
    assert "older copy" in capsys.readouterr().err
    use_lake("lake")
    assert run(["run"]) == 0
    assert_complete(server, lake)


def test_a_lake_that_was_moved(server, lake, in_process):
    write(server, random.Random(1))
    assert run(["run"]) == 0
    lake.rename("elsewhere")
    use_lake("elsewhere")
    write(server, random.Random(2))
    assert run(["run"]) == 0
    assert_complete(server, Path("elsewhere"))


def test_a_lake_and_a_store_of_before_are_taken_as_they_are(server, lake, in_process, capsys):
    write(server, random.Random(1))
    assert run(["run"]) == 0
    forget(lake)
    use_lake("other")
    write(server, random.Random(2))
    assert run(["run"]) == 3
    assert "strata lake show" in capsys.readouterr().err
    use_lake("lake")
    assert run(["run"]) == 0
    assert json.loads((lake / "landing" / "shop" / "lake.json").read_text())["source"] == "shop"
    assert_complete(server, lake)


def forget(lake: Path) -> None:
    """As an older version has left both."""
    (lake / "landing" / "shop" / "lake.json").unlink()
    with sqlite3.connect("s.db") as store:
        store.execute("DROP TABLE source_lake")
        store.execute("UPDATE store_format SET format = 8")


def test_a_store_that_is_new_beside_tables_that_are_not(server, lake, in_process, capsys):
    write(server, random.Random(1))
    assert run(["run"]) == 0
    before = published(lake)
    Path("s.db").unlink()
    assert run(["run"]) == 3
    assert "tables of another store" in capsys.readouterr().err
    assert published(lake) == before


FIRST = """
import os, sys
from strata.config.settings import load_settings
from strata.jobs.lake.known_lake import known_store, read_mark
found = load_settings(os.environ).source("shop")
print("ready", flush=True)
sys.stdin.readline()
known_store(found)
print(read_mark(found))
"""


def test_two_first_runs_at_once(server, lake):
    for _ in range(HISTORIES):
        shutil.rmtree(lake, ignore_errors=True)
        for path in Path().glob("s.db*"):
            path.unlink()
        both = [
            subprocess.Popen(
                [sys.executable, "-c", FIRST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
            for _ in range(2)
        ]
        for one in both:
            assert one.stdout.readline() == "ready\n"
        for one in both:
            one.stdin.write("go\n")
        said = {one.communicate()[0] for one in both}
        assert [one.returncode for one in both] == [0, 0]
        assert len(said) == 1, "both have the same lake"


def lose(lake: Path) -> None:
    shutil.rmtree(lake)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_lake_that_was_lost_comes_again(server, lake, in_process, capsys, seed):
    """The server has all of its binlogs; a first begin, restarts in the middle, and a schema that has changed."""
    chance = random.Random(seed)
    for number in range(chance.randint(2, 3)):
        write(server, chance)
        server.run_sql(f"ALTER TABLE shop.b ADD COLUMN c{number} INT")
        assert run(["run"]) == 0
    before, versions = published(lake), history()
    lose(lake)
    assert run(["run"]) == 3
    said = capsys.readouterr().err
    assert "is not the one that the store knows" in said
    assert "strata lake show" in said
    assert run(["lake", "show"]) == 1
    assert "shop.a" in (said := capsys.readouterr().out)
    assert "comes again" in said
    assert "cannot come" not in said
    assert not list(lake.rglob("*.binlog")), "to show is to do nothing"
    assert run(["lake", "rebuild"]) == 0
    assert run(["run"]) == 0
    assert published(lake) == before, "the same rows with the same ordinals"
    write(server, chance)
    assert run(["run"]) == 0
    assert_complete(server, lake)
    assert history() == versions, "no version and no gap that was not there"
    capsys.readouterr()
    assert run(["lake", "show"]) == 0


def history() -> list[tuple]:
    with sqlite3.connect("s.db") as store:
        return store.execute(
            "SELECT v.seq, v.statement_no, v.origin, v.ddl, t.table_name, t.fingerprint, t.gap FROM schema_version v"
            " JOIN table_version t ON t.version_id = v.id ORDER BY v.id, t.table_name"
        ).fetchall()


def test_what_the_server_has_purged_is_declared(server, lake, in_process, capsys):
    write(server, random.Random(1))
    assert run(["run"]) == 0
    server.run_sql("FLUSH BINARY LOGS")
    assert run(["run"]) == 0
    write(server, random.Random(2))
    assert run(["run"]) == 0
    before, versions = published(lake), history()
    last = server.binlogs()[-2 if len(server.binlogs()) > 2 else -1].name
    server.run_sql(f"PURGE BINARY LOGS TO '{last}'")
    lose(lake)
    assert run(["lake", "rebuild"]) == 0
    said = capsys.readouterr().out
    assert "cannot come: its binlog is gone" in said
    assert run(["run"]) == 0
    after = published(lake)
    assert all(after[table] <= before[table] for table in after)
    assert any(after.values())
    capsys.readouterr()
    assert run(["status", "--json"]) == 0
    (status,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line]
    status = status[0] if isinstance(status, list) else status
    gone = {table: sum(before[table].values()) - sum(after[table].values()) for table in after}
    held = {table["table"].partition(".")[2]: table["held_rows"] for table in status["tables"]}
    assert {table: held.get(table, 0) for table in gone} == gone, "each row is there or declared"
    assert history() == versions
    write(server, random.Random(3))
    assert run(["run"]) == 0


def test_an_older_copy_is_completed(server, lake, in_process, capsys):
    write(server, random.Random(1))
    assert run(["run"]) == 0
    shutil.copytree(lake, "copy")
    write(server, random.Random(2))
    assert run(["run"]) == 0
    lose(lake)
    Path("copy").rename(lake)
    assert run(["lake", "rebuild"]) == 0
    assert run(["run"]) == 0
    assert_complete(server, lake)


def test_a_rebuild_that_is_killed_goes_on(server, lake, in_process, monkeypatch):
    write(server, random.Random(1))
    assert run(["run"]) == 0
    lose(lake)

    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    for owner, name in ((rebuild, "_verify"), (LakeLedger, "replace"), (rebuild, "write_mark")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, die)
            with pytest.raises(Killed):
                run(["lake", "rebuild"])
        if name != "write_mark":
            assert run(["run"]) == 3
    assert run(["lake", "rebuild"]) == 0
    assert run(["run"]) == 0
    assert_complete(server, lake)


def test_the_doctor_says_what_a_run_refuses(server, lake, in_process, capsys):
    write(server, random.Random(1))
    assert run(["run"]) == 0
    capsys.readouterr()
    run(["doctor"])
    assert "belong together" in capsys.readouterr().out
    use_lake("other")
    assert run(["doctor"]) == 3
    assert "not the one that the store knows" in capsys.readouterr().out.replace("\n", " ").replace("  ", " ")
    use_lake("lake")
    server.run_sql("RESET BINARY LOGS AND GTIDS")
    for number in range(4):
        write(server, random.Random(number))
    for words in (["doctor"], ["land"], ["run"]):
        assert run(words) == 3
        said = capsys.readouterr()
        assert "another source name" in " ".join((said.out + said.err).split())
