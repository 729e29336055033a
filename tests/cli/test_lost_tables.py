"""Somebody deletes of one table, at any time: its folder, its log, or files of the log. Whoever writes, and whoever
looks, names it; the other tables go on; it comes again, and no reader of ours ever gets fewer rows unsaid."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import asdict

from strata_cdc import mirrors
from strata_cdc.cli.main import run
from strata_cdc.config.settings import load_settings
from strata_cdc.errors import LakeUnavailableError, LostTableError, Usage
from strata_cdc.ops.metrics import read_metrics
from strata_cdc.pipeline.housekeep.retain_landed import retain_landed
from strata_cdc.schema.model.definition import TableName
from strata_cdc.serve.numbers import Numbers
from strata_cdc.serve.overview import Urgency, overview
from strata_cdc.serve.sources import Sources
from strata_cdc.store.database import open_store
from strata_cdc.tables.layout import table_url
from strata_cdc.tables.read import read_changes
from tests.cli.lakes import assert_complete, lake, merge, published, published_of, write
from tests.waiting import wait_until

__all__ = ["lake"]

pytestmark = pytest.mark.mysql

HISTORIES = int(os.environ.get("STRATA_HISTORIES", "1"))


def delete_of(folder: Path, chance: random.Random) -> str:
    """Deletes something of a change table; says what."""
    log = sorted((folder / "_delta_log").glob("*.json"))
    what = chance.choice(["folder", "log", "end of the log", "a file of the log", "data"])
    if what in {"folder", "log", "data"}:
        shutil.rmtree(folder / {"folder": "", "log": "_delta_log", "data": "data"}[what])
    for file in log[chance.randrange(1, len(log)) :] if what == "end of the log" else ():
        file.unlink()
    if what == "a file of the log":
        chance.choice(log).unlink()
    return what


def rows_of(lake: Path, table: str) -> int | None:
    """As a reader sees them; None where he is told that he does not."""
    try:
        return read_changes(str(lake), "shop", TableName("shop", table)).num_rows
    except (LakeUnavailableError, LostTableError, Usage):
        return None


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_what_is_deleted_of_a_table_is_said_and_comes_again(server, lake, capsys, seed):
    chance = random.Random(seed)
    for _ in range(chance.randint(2, 3)):
        write(server, chance)
        assert run(["run"]) == 0
        if chance.random() < 0.5:
            merge()
    # The mirrors are up to date, or behind what is deleted.
    table, other = chance.sample(["a", "b"], 2)
    before, folder = published(lake)[table].total(), Path(table_url(str(lake), "shop", TableName("shop", table)))
    what = delete_of(folder, chance)
    is_readable = rows_of(lake, table) == before
    if chance.random() < 0.5:
        write(server, chance)
    has_said = False
    for _ in range(2):
        capsys.readouterr()
        has_said |= run(["run"]) != 0 and f"shop.{table}" in capsys.readouterr().err
        has_rows = rows_of(lake, table)
        assert has_said or has_rows is None or has_rows >= before, (what, has_rows)
    capsys.readouterr()
    run(["status", "--json"])
    lost = [one["table"] for one in json.loads(capsys.readouterr().out)["lost"]]
    assert set(lost) <= {f"shop.{table}"}
    if lost:
        assert run(["doctor"]) == 3
    rows = Counter(int(line) for line in server.run_sql(f"SELECT id FROM shop.{other}").split("\n")[1:] if line)
    assert Counter(row[-1] for row in published_of(lake, other)) == rows, "the other table goes on"
    if what != "data" and not is_readable:
        assert has_said
    capsys.readouterr()
    if run(["lake", "rebuild"]) != 0 or what == "data":
        assert what == "data" or "move it away" in " ".join(capsys.readouterr().err.split())
        shutil.rmtree(folder)
        assert run(["lake", "rebuild"]) == 0
    assert run(["run"]) == 0
    assert_complete(server, lake)
    merge()
    write(server, chance)
    assert run(["run"]) == 0
    assert_complete(server, lake)
    for name in ("a", "b"):
        mirror = mirrors.open(str(lake), "shop", f"shop.{name}")
        wanted = int(server.run_sql(f"SELECT COUNT(*) FROM shop.{name}").split("\n")[1])
        assert mirror.to_arrow().num_rows == wanted


def test_a_backup_from_before_intervals_became_one(server, lake, capsys):
    chance = random.Random(3)
    for _ in range(3):
        write(server, chance)
        assert run(["run"]) == 0
    folder, copy = Path(table_url(str(lake), "shop", TableName("shop", "a"))), lake.with_name("copy")
    shutil.copytree(folder, copy)
    merge()
    write(server, chance)
    assert run(["run"]) == 0
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    capsys.readouterr()
    assert run(["run"]) != 0
    assert "shop.a" in capsys.readouterr().err
    merge()
    assert run(["lake", "rebuild"]) == 0
    assert run(["run"]) == 0
    assert_complete(server, lake)
    merge()
    assert_complete(server, lake)


@pytest.mark.parametrize("what", ["folder", "end of the log"])
@pytest.mark.parametrize("command", [["views"], ["views", "--history"], ["views", "--through", "files"]])
def test_views_are_not_made_of_what_is_left_of_a_table(server, lake, capsys, what, command):
    chance = random.Random(1)
    for _ in range(2):
        write(server, chance)
        assert run(["run"]) == 0
    assert run([*command]) == 0
    folder = Path(table_url(str(lake), "shop", TableName("shop", "a")))
    if what == "folder":
        shutil.rmtree(folder)
    else:
        max((folder / "_delta_log").glob("*.json")).unlink()
    capsys.readouterr()
    assert run([*command]) != 0
    assert "shop.a" in capsys.readouterr().err
    with pytest.raises(LostTableError, match="somebody has deleted of it"):
        mirrors.history(str(lake), "shop", "shop.a", "sqlite:///s.db")
    assert run([*command, "--table", "shop.b"]) == 0


def test_status_numbers_and_the_first_page_agree(server, lake, capsys):
    chance = random.Random(2)
    write(server, chance)
    assert run(["run"]) == 0
    for lost in (0, 1, 2):
        for table in "ab"[:lost]:
            shutil.rmtree(table_url(str(lake), "shop", TableName("shop", table)), ignore_errors=True)
        capsys.readouterr()
        run(["status", "--json"])
        said = json.loads(capsys.readouterr().out)
        assert ([one["table"] for one in said["lost"]], said["lost_count"]) == (["shop.a", "shop.b"][:lost], lost)
        metrics = read_metrics("shop", settings=load_settings(os.environ), now=time.time_ns() // 1000)
        assert metrics.lost_count == lost
        numbers = Numbers(lambda _: asdict(metrics))  # noqa: B023  of this round
        wait_until(lambda: numbers.numbers_of(["shop"]))  # noqa: B023  likewise
        [view] = overview(Sources(lambda: load_settings(os.environ)), numbers)
        found = [one for one in view.attention if "change table" in one.text]
        assert [(one.text.partition(" change")[0], one.urgency) for one in found] == [(str(lost), Urgency.LOSS)][:lost]


@pytest.mark.parametrize("what", ["folder", "end of the log"])
def test_segments_that_a_lost_table_needs_are_kept(server, lake, what):
    """However old they are: it comes again from them, though the server has purged its own."""
    chance = random.Random(3)
    for _ in range(3):
        write(server, chance)
        server.run_sql("FLUSH BINARY LOGS")
        assert run(["run"]) == 0
    server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
    folder = Path(table_url(str(lake), "shop", TableName("shop", "a")))
    if what == "folder":
        shutil.rmtree(folder)
    else:
        max((folder / "_delta_log").glob("*.json")).unlink()
    source = load_settings(os.environ).source("shop")
    source = replace(source, settings=structs.replace(source.settings, keep_days=1))
    much_later = time.time_ns() // 1000 + 30 * 86_400_000_000

    def retain():
        return retain_landed(source, open_store(source.store_url), now=much_later)

    report = retain()
    assert report.segments == ()
    assert "shop.a was deleted in the lake" in report.held_by
    assert "strata lake rebuild" in report.held_by
    if what != "folder":
        shutil.rmtree(folder)
    assert run(["lake", "rebuild"]) == 0
    assert run(["run"]) == 0
    assert_complete(server, lake)
    assert retain().segments != ()
