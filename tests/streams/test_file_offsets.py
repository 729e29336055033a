"""`--from FILE:OFFSET`: what the server has written there, and nothing else, before and after it has landed; the server
says where its events begin."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.main import run
from strata_cdc.errors import BinlogPurgedError, SourceDivergedError, Usage
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.source_position import SourcePosition
from strata_cdc.position.token import Token
from strata_cdc.position.token_text import to_text
from tests.mysql_server import start_server
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
BY_FILE = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
DRAWS = 15


@pytest.fixture(scope="module", params=[(), BY_FILE], ids=["gtids", "files"])
def world(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("offsets")
    with start_server(folder / "server", *request.param) as server:
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY AUTO_INCREMENT, b TEXT)")
        write(server, random.Random(1))
        yield World(server, folder)


def write(server: MysqlServer, chance: random.Random) -> None:
    for _ in range(3):
        sizes = [chance.randrange(1, 400) for _ in range(chance.randrange(1, 5))]
        server.run_sql("FLUSH BINARY LOGS")
        server.run_sql("".join(f"INSERT INTO d.t (b) VALUES (REPEAT('x', {size}));" for size in sizes))


def events(server: MysqlServer) -> dict[str, list[tuple[int, int, str]]]:
    """Begin, end and kind of each event, by file, as the server says."""
    found = {}
    for path in server.binlogs():
        lines = server.run_sql(f"SHOW BINLOG EVENTS IN '{path.name}'").split("\n")[1:]
        parts = [line.split("\t") for line in lines if line]
        found[path.name] = [(int(part[1]), int(part[4]), part[2]) for part in parts]
    return found


def rows_behind(found: dict[str, list[tuple[int, int, str]]], file: str, offset: int) -> int:
    """Rows of transactions that begin at a place or behind it; each has one."""
    count = 0
    for name, listed in found.items():
        begin = 0
        for at, _, kind in listed:
            if kind in {"Gtid", "Anonymous_Gtid"}:
                begin = at
            if kind == "Write_rows":
                count += (name, begin) >= (file, offset)
    return count


def assert_offsets(world: World, chance: random.Random) -> None:
    found = events(world.server)
    for _ in range(DRAWS):
        file = chance.choice(list(found))
        begins = [at for at, _, _ in found[file]] + [found[file][-1][1]]
        end = begins[-1]
        offset = chance.choice([chance.choice(begins), chance.randrange(5, end), end + chance.randrange(1, 500)])
        position = f"{file}:{offset}"
        if offset in begins:
            assert len([one for one in world.lines(position) if "op" in one]) == rows_behind(found, file, offset)
            continue
        with pytest.raises(Usage, match="no event begins" if offset < end else "has not written") as caught:
            world.lines(position)
        assert caught.value.exit_code == 2
        assert offset < end or list(found)[-1] in caught.value.message


def test_what_no_server_has_written_is_refused(world: World):
    """Nothing has landed; then some of it; then all; then the files are gone."""
    chance = random.Random(7)
    assert_offsets(world, chance)
    world.land()
    world.track()
    write(world.server, chance)
    assert_offsets(world, chance)
    world.land()
    world.track()
    assert_offsets(world, chance)
    last = world.server.binlogs()[-1].name
    number = int(last.rpartition(".")[2])
    for file in (f"binlog.{number + 1:06d}", f"binlog.{number + 9:06d}", "other.000001"):
        with pytest.raises((Usage, BinlogPurgedError), match=r"has not written|nothing has landed|nowhere"):
            world.lines(f"{file}:4")
    world.server.run_sql(f"PURGE BINARY LOGS TO '{last}'")
    inside = events(world.server)[last]
    assert [one for one in world.lines(f"{last}:{inside[-1][1]}") if "op" in one] == []


def test_a_token_that_the_server_has_not_reached(world: World):
    uuid = world.server.run_sql("SELECT @@server_uuid").split()[1]
    file = world.server.binlogs()[-1]
    ahead = BinlogPosition.from_offset(file.name, file.stat().st_size + 1000)
    token = to_text(Token((SourcePosition("s", FilePosition(uuid, ahead), "", 0),)))
    with pytest.raises(SourceDivergedError, match="has not written"):
        world.lines(token)


def test_the_command(world: World, tmp_path, monkeypatch, capsys):
    settings = tmp_path / "strata.toml"
    settings.write_text(
        f'lake = "{world.lake}"\n[sources.s]\nconnection = "offsets"\nstore = "{world.store_url}"\n', encoding="utf-8"
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(settings))
    monkeypatch.setenv("AIRFLOW_CONN_OFFSETS", world.server.url)
    last = world.server.binlogs()[-1].name
    assert run(["stream", "--from", f"{last}:999999", "--follow"]) == 2
    said = capsys.readouterr()
    assert said.out == "", "no heartbeat, no token"
    assert f"the server has not written {last}:999999" in said.err
    assert run(["stream", "--from", f"{last}:5"]) == 2
    assert "no event begins" in capsys.readouterr().err
