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
from contextlib import closing
from pathlib import Path

import pytest

from strata_cdc.cli.main import run
from strata_cdc.lake import rebuild
from strata_cdc.store.lakes import LakeLedger
from tests.cli.lakes import assert_complete, held_rows, history, lake, lose, published, use_lake, write
from tests.interposed import interposed

__all__ = ["lake"]

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


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_another_lake_for_one_run(server, lake, capsys, seed):
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 2)):
        write(server, chance)
        assert run(["run"]) == 0
    write(server, chance)
    use_lake("other")
    before = stored(), sorted(lake.rglob("*"))
    for words in WRITES:
        capsys.readouterr()
        assert run(words) == 3, words
        said = capsys.readouterr().err
        assert "does not belong to this store" in said, (words, said)
        assert "strata lake show" in said
    assert (stored(), sorted(lake.rglob("*"))) == before
    assert not list(Path("other").rglob("*.binlog"))
    use_lake("lake")
    assert run(["run"]) == 0
    assert_complete(server, lake)


def stored() -> list[str]:
    """The rows of the store, not its bytes: SQLite folds its log into the file whenever a last connection is let go."""
    with closing(sqlite3.connect("s.db")) as store:
        return list(store.iterdump())


def test_an_older_copy(server, lake, capsys):
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


def test_a_lake_that_was_moved(server, lake):
    write(server, random.Random(1))
    assert run(["run"]) == 0
    lake.rename("elsewhere")
    use_lake("elsewhere")
    write(server, random.Random(2))
    assert run(["run"]) == 0
    assert_complete(server, Path("elsewhere"))


def test_a_lake_and_a_store_of_before_are_taken_as_they_are(server, lake, capsys):
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


def test_a_store_that_is_new_beside_tables_that_are_not(server, lake, capsys):
    write(server, random.Random(1))
    assert run(["run"]) == 0
    before = published(lake)
    Path("s.db").unlink()
    assert run(["run"]) == 3
    assert "tables of another store" in capsys.readouterr().err
    assert published(lake) == before


FIRST = """
import os, sys
from strata_cdc.config.settings import load_settings
from strata_cdc.lake.known_lake import known_store, read_mark
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


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_lake_that_was_lost_comes_again(server, lake, capsys, seed):
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
    assert "does not belong to this store" in said
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


def test_what_the_server_has_purged_is_declared(server, lake, capsys):
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
    held = held_rows(capsys)
    gone = {table: sum(before[table].values()) - sum(after[table].values()) for table in after}
    assert {table: held.get(table, 0) for table in gone} == gone, "each row is there or declared"
    assert history() == versions
    write(server, random.Random(3))
    assert run(["run"]) == 0


def test_an_older_copy_is_completed(server, lake, capsys):
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


def test_a_rebuild_that_is_killed_goes_on(server, lake):
    write(server, random.Random(1))
    assert run(["run"]) == 0
    lose(lake)

    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    for owner, name in ((rebuild, "_verify"), (LakeLedger, "replace"), (rebuild, "write_mark")):
        with interposed(die, (owner, name)), pytest.raises(Killed):
            run(["lake", "rebuild"])
        if name != "write_mark":
            assert run(["run"]) == 3
    assert run(["lake", "rebuild"]) == 0
    assert run(["run"]) == 0
    assert_complete(server, lake)


def test_the_doctor_says_what_a_run_refuses(server, lake, capsys):
    write(server, random.Random(1))
    assert run(["run"]) == 0
    capsys.readouterr()
    run(["doctor"])
    assert "belong together" in capsys.readouterr().out
    use_lake("other")
    assert run(["doctor"]) == 3
    assert "does not belong to this store" in capsys.readouterr().out.replace("\n", " ").replace("  ", " ")
    use_lake("lake")
    server.run_sql("RESET BINARY LOGS AND GTIDS")
    for number in range(4):
        write(server, random.Random(number))
    for words in (["doctor"], ["land"], ["run"]):
        assert run(words) == 3
        said = capsys.readouterr()
        assert "another source name" in " ".join((said.out + said.err).split())
