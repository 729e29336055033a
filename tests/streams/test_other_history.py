"""A stream goes on with a server that has the history that was read, and with no other one of the same numbers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import SourceDivergedError
from tests.landing.landing import SOON, following
from tests.mysql_server import start_server
from tests.streams.world import World
from tests.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mysql
BY_FILE = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")


@pytest.fixture(params=[(), BY_FILE], ids=["gtids", "files"])
def world(request, tmp_path) -> Iterator[World]:
    with start_server(tmp_path / "server", *request.param) as server:
        begin(server)
        yield World(server, tmp_path)


def begin(server, texts: str = "xyz") -> None:
    server.run_sql(
        "CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY AUTO_INCREMENT, b TEXT);"
        + "".join(f"INSERT INTO d.t (b) VALUES ('{text}');" for text in texts)
    )


def go_back(server, texts: str = "uvwxy") -> None:
    """The same places and numbers, as many as there are texts; other commits."""
    server.run_sql("DROP DATABASE d; RESET BINARY LOGS AND GTIDS")
    begin(server, texts)


def test_behind_what_has_landed(world: World):
    world.land()
    world.track()
    whole = world.lines()
    assert len([line for line in whole if "op" in line]) == 3
    for texts in ("uvwxy", "uvw", "u"):
        go_back(world.server, texts)
        # What is older than what has landed, as old, or newer: of none is the server's `now` in this stream.
        for start in ("beginning", whole[-1]["token"], *(["now"] if texts == "u" else [])):
            with pytest.raises(SourceDivergedError) as caught:
                world.lines(start)
            assert "another source name" in caught.value.remedy
    assert world.lines(until="landed") == whole


@pytest.mark.parametrize("texts", ["", "u", "uvwxyabcd"], ids=["made again", "fewer numbers", "more numbers"])
def test_connections_to_a_server_that_is_reset(world: World, texts: str):
    """They are made again; or they wait until its file is longer than it was, and the server says nothing."""
    given, seen, ended = [], threading.Event(), []
    world.limits = SOON
    stream = world.stream(follow=True)

    def read() -> None:
        try:
            for event in stream:
                given.append(event)
                seen.set()
        except SourceDivergedError as error:
            ended.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with following(world.server, world.lake, SOON) as follower:
            assert seen.wait(PATIENCE_SECONDS)
            world.server.run_sql("INSERT INTO d.t (b) VALUES (REPEAT('w', 9999))")
            follower.wait_for(lambda: follower.seen and follower.seen[-1].transactions == 6)
            go_back(world.server, texts or "uvwxy")
            if not texts:
                kill_dumps(world.server)
            reader.join(PATIENCE_SECONDS)
            follower.thread.join(PATIENCE_SECONDS)
    finally:
        stream.close()
        reader.join(PATIENCE_SECONDS)
    assert len(ended) == 1
    assert isinstance(follower.error, SourceDivergedError)


def kill_dumps(server) -> None:
    listed = server.run_sql("SHOW PROCESSLIST").split("\n")
    for line in listed:
        parts = line.split("\t")
        if len(parts) > 4 and parts[4].startswith("Binlog Dump"):
            server.run_sql(f"KILL {parts[0]}")
