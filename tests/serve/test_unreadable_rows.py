"""A row that cannot be read comes to each reader in its place, as itself: readers who share one decode, and those who
do not want what cannot be read, get what they would alone."""

from __future__ import annotations

from base64 import b64decode
from contextlib import ExitStack

import pytest

from tests.changes.live import Live
from tests.changes.planted import UNREADABLE, plant
from tests.serve.test_streaming import Reader, address, dumps, executed, is_commit_of, params, strip, world
from tests.waiting import wait_until

pytestmark = pytest.mark.mysql
__all__ = ["address", "world"]

READABLE = b"\x0c\x04text"
WISHES = ({}, {"tables": ["*.planted"]}, {"columns": ["id"]}, {"columns": ["J"]}, {"tables": ["d.u"]})


def test_readers_of_one_decode_get_what_they_would_alone(world, address):
    live, begin = Live(world.server), executed(world)
    with ExitStack() as stack:
        asked = {"from": begin, "heartbeat": 0.2}
        readers = [stack.enter_context(Reader(address, **asked, **params(wish))) for wish in WISHES]
        world.server.run_sql("REPLACE INTO d.u VALUES (1, 5)")
        readers[0].wait(is_commit_of(executed(world)))
        wait_until(lambda: dumps(world) == 1)
        plant(live, [UNREADABLE, READABLE, UNREADABLE])
        world.server.run_sql("REPLACE INTO d.u VALUES (1, 6)")
        end = executed(world)
        wanted = [strip(world.lines(begin, until="now", **wish)) for wish in WISHES]
        for reader, lines in zip(readers, wanted, strict=True):
            wait_until(lambda reader=reader, lines=lines: len(reader.lines) >= len(lines))
        wait_until(lambda: dumps(world) == 1)
    assert [strip(reader.lines) for reader in readers] == wanted
    rows = [line for line in wanted[0] if "unreadable" in line]
    assert [line["unreadable"]["after"] for line in rows] == [{"id": 1}, {"id": 3}]
    assert [b64decode(value["bytes"]) for line in rows for value in line["unreadable"]["values"]] == [UNREADABLE] * 2
    assert [sum("unreadable" in line for line in lines) for lines in wanted] == [2, 2, 0, 2, 0]
    # Behind each of them a reader goes on.
    for line in rows:
        with Reader(address, last_event_id=line["token"], heartbeat=0.2) as reader:
            reader.wait(is_commit_of(end))
        assert strip(reader.lines) == wanted[0][wanted[0].index(strip([line])[0]) + 1 :]
