"""Rows of a group's sources that cannot be read, as they are, in the group's order; a copier's among them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.binlog.protocol.server_clocks import Clocks
from strata_cdc.cli.main import run
from strata_cdc.errors import UnreadableValueError
from strata_cdc.groups.copy_filter import CopyFilter, PositionColumn
from strata_cdc.groups.membership import Membership
from strata_cdc.streams.decoding import StreamBatch
from strata_cdc.streams.events import UnreadableChange
from tests.changes.live import Live
from tests.changes.planted import UNREADABLE, plant
from tests.groups.world import Shards, changes

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
READABLE = b"\x0c\x04text"


@pytest.fixture(scope="module")
def shards(servers: dict[str, MysqlServer], tmp_path_factory: pytest.TempPathFactory) -> Shards:
    for server in servers.values():
        plant(Live(server), [READABLE, UNREADABLE, READABLE])
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1), (2)")
    made = Shards.over(servers, tmp_path_factory.mktemp("group"))
    made.land()
    return made


def test_they_stand_in_the_groups_order(shards: Shards) -> None:
    whole = changes(shards.lines())
    unreadable = [at for at, line in enumerate(whole) if "unreadable" in line]
    assert [whole[at]["unreadable"]["after"] for at in unreadable] == [{"id": 2}] * 3
    alone = [line for world in shards.sources for line in world.lines(until="now")]
    assert sorted(map(_bare, whole)) == sorted(map(_bare, alone))
    for at in unreadable:
        assert changes(shards.lines(whole[at]["token"])) == whole[at + 1 :]
    stream = shards.stream()
    events = [event for event in stream if isinstance(event, UnreadableChange)]
    assert [event.token for event in events] == [whole[at]["token"] for at in unreadable]
    assert stream.unreadable_rows == len(unreadable)


def _bare(line: dict[str, Any]) -> str:
    """Without what a group's line has its own of."""
    return json.dumps({name: value for name, value in line.items() if name not in ("token", "version")})


def test_the_command_ends_with_exit_code_1(
    shards: Shards, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    world = shards.sources[0]
    settings = tmp_path / "strata.toml"
    settings.write_text(
        f'lake = "{world.lake}"\n[sources.{world.name}]\nconnection = "c"\nstore = "{world.store_url}"\n'
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(settings))
    monkeypatch.setenv("AIRFLOW_CONN_C", world.server.url)
    capfdbinary.readouterr()
    assert run(["stream", "--from", "beginning"]) == 1
    found = capfdbinary.readouterr()
    assert list(map(json.loads, found.out.splitlines())) == world.lines(until="now")
    assert b"1 row could not be read; all others have been given" in found.err
    assert run(["stream", "--from", "beginning", "--columns", "id"]) == 0


def test_what_a_copier_says_has_to_be_readable(shards: Shards) -> None:
    """Its other columns need not be."""
    parts = (part for part in shards.sources[0].stream(until="now").spans() if isinstance(part, StreamBatch))
    part = next(part for part in parts if part.unreadable)
    [rows] = part.unreadable
    assert PositionColumn(f"{rows.table}.id").as_changes(rows).batch.num_rows == 1
    with pytest.raises(UnreadableValueError, match="column j: "):
        PositionColumn(f"{rows.table}.J").as_changes(rows)
    # What no hop leads to copies nothing; the copier's rows are not given.
    membership = Membership([], {world.name: world for world in shards.sources}, [])
    copies = CopyFilter(membership, Clocks("g", {}, 1), f"{rows.table}.j")
    [left] = copies.add_span(shards.sources[0].name, part)
    assert not left.unreadable
