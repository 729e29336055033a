"""Sources whose lake is moved, lost and made anew: what is written to them, and what has to be there.
Not here: tests."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.main import run
from strata_cdc.config.settings import load_settings
from strata_cdc.pipeline.housekeep.merge_intervals import IntervalMergeLimits, merge_steps
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.tables.read import read_changes

if TYPE_CHECKING:
    import random


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
        "".join(f"INSERT INTO shop.a (label) VALUES ('{chance.random():.12f}');" for _ in range(count))
        + f"INSERT INTO shop.b (id) VALUES ({chance.randrange(1000)});"
        + ("FLUSH BINARY LOGS;" if chance.random() < 0.5 else "")
    )


def merge() -> None:
    """Makes one interval of those that can be merged, by the clock of an hour later."""
    source = load_settings(os.environ).source("shop")
    limits = IntervalMergeLimits(most=1, age_seconds=0)
    later = time.time_ns() // 1000 + 3_600_000_000
    for _ in merge_steps(source, open_store(source.store_url), limits=limits, now=lambda: later):
        pass


def published(lake: Path) -> dict[str, Counter]:
    """Rows of all change tables, each with its transaction and how often it is there."""
    return {table: published_of(lake, table) for table in ("a", "b")}


def published_of(lake: Path, table: str) -> Counter:
    """Those of one."""
    found = read_changes(str(lake), "shop", TableName("shop", table))
    return Counter(zip(*(found[name].to_pylist() for name in ("_gtid", "_row", "_seq", "id")), strict=True))


def assert_complete(server, lake: Path) -> None:
    """Each row is in its change table once, as the server has it."""
    for table, found in published(lake).items():
        wanted = Counter(int(line) for line in server.run_sql(f"SELECT id FROM shop.{table}").split("\n")[1:] if line)
        assert Counter(row[-1] for row in found.elements()) == wanted
        assert set(found.values()) <= {1}


def lose(lake: Path) -> None:
    shutil.rmtree(lake)


def history() -> list[tuple]:
    with sqlite3.connect("s.db") as store:
        return store.execute(
            "SELECT v.seq, v.statement_no, v.origin, v.ddl, t.table_name, t.fingerprint, t.gap FROM schema_version v"
            " JOIN table_version t ON t.version_id = v.id ORDER BY v.id, t.table_name"
        ).fetchall()


def held_rows(capsys) -> dict[str, int]:
    """Rows of each table that `strata status` says are held."""
    capsys.readouterr()
    assert run(["status", "--json"]) == 0
    (status,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line]
    status = status[0] if isinstance(status, list) else status
    return {table["table"].partition(".")[2]: table["held_rows"] for table in status["tables"]}
