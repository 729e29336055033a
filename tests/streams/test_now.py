"""`now` is the moment at which somebody asks for it, not the one at which a stream has been opened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.stream import _of_group, _of_source
from strata_cdc.config.settings import load_settings
from tests.mysql_server import start_server
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module", params=["ON", "OFF"])
def world(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("now")
    with start_server(folder / "server", f"--gtid-mode={request.param}", "--enforce-gtid-consistency=ON") as server:
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)")
        made = World(server, folder)
        made.land()
        made.track()
        yield made


@pytest.fixture
def environment(world: World, tmp_path: Path) -> dict[str, str]:
    settings = tmp_path / "strata.toml"
    settings.write_text(
        f'lake = "{world.lake}"\n[sources.s]\nconnection = "c"\nstore = "{world.store_url}"\n'
        '[groups.g]\nsources = ["s"]\n'
    )
    return {"STRATA_SETTINGS": str(settings), "AIRFLOW_CONN_C": world.server.url}


def inserted(written: Iterator[bytes]) -> list[int]:
    lines = [json.loads(line) for some in written for line in some.splitlines()]
    return [line["after"]["id"] for line in lines if "after" in line]


def test_what_is_committed_while_a_stream_starts_comes(world: World, environment: dict[str, str]) -> None:
    source = load_settings(environment).source("s")
    world.server.run_sql("DELETE FROM d.t; INSERT INTO d.t VALUES (1)")
    changes, begins = _of_source(source, "now")
    world.server.run_sql("INSERT INTO d.t VALUES (2)")
    assert inserted(changes.written()) == [2]
    assert begins.startswith("s after ")
    assert begins.endswith(" (now)")


# A group needs GTIDs.
@pytest.mark.parametrize("world", ["ON"], indirect=True)
def test_of_a_group_as_well(world: World, environment: dict[str, str]) -> None:
    settings = load_settings(environment)
    world.server.run_sql("DELETE FROM d.t; INSERT INTO d.t VALUES (1)")
    changes, _ = _of_group(settings, "g", "now", (), {"until": "now"})
    world.server.run_sql("INSERT INTO d.t VALUES (2)")
    assert inserted(changes.written()) == [2]


def test_who_follows_is_told_from_where(world: World, environment: dict[str, str]) -> None:
    command = [str(Path(sys.executable).with_name("strata")), "stream", "--follow"]
    with subprocess.Popen(command, env=os.environ | environment, stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        said = started.stderr.readline()
        started.send_signal(signal.SIGTERM)
        assert started.wait(60) == 0
    assert said.startswith("strata: s after ")
    assert "(now); continues with new changes until Ctrl-C" in said
