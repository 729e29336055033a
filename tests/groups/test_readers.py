"""What has been read waits for the merge, as much of each source as is allowed; readers decode one after the other."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from strata_cdc.changes.limits import DecodeLimits
from strata_cdc.groups.limits import GroupLimits
from strata_cdc.groups.readers import Inbox
from tests.groups.world import Shards, changes, lines_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer


@pytest.fixture
def inbox() -> Inbox:
    return Inbox(GroupLimits(waiting_bytes=100, least_bytes=1))


def putting(inbox: Inbox, source: str, sizes: list[int]) -> threading.Thread:
    def put() -> None:
        for number, size in enumerate(sizes):
            inbox.put(source, number, size)

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    return thread


def test_a_source_waits_once_too_much_of_it_does(inbox: Inbox) -> None:
    a, b = putting(inbox, "a", [60, 60, 60, 1]), putting(inbox, "b", [99, 0])
    b.join()
    found: list[tuple[str, object]] = []
    wait_until(lambda: found.extend(inbox.receive(0)) or len(found) == 4)
    # What has been taken counts until all are let go on.
    assert [what for source, what in found if source == "a"] == [0, 1]
    assert a.is_alive()
    assert inbox.receive(0.05) == []
    inbox.go_on([])
    a.join()
    assert inbox.receive(0) == [("a", 2), ("a", 3)]


def test_what_has_no_size_waits_too_if_nobody_takes_it(inbox: Inbox) -> None:
    a = putting(inbox, "a", [0] * 300)
    found: list[tuple[str, object]] = []
    for count in (100, 200, 300):
        wait_until(lambda count=count: found.extend(inbox.receive(0)) or len(found) == count)
        assert inbox.receive(0.05) == []
        inbox.go_on([])
    a.join()
    assert found == [("a", number) for number in range(300)]


def test_a_source_that_is_paused_waits(inbox: Inbox) -> None:
    inbox.go_on(["a"])
    a = putting(inbox, "a", [1])
    assert inbox.receive(0.05) == []
    inbox.go_on([])
    a.join()
    assert inbox.receive(0) == [("a", 0)]


def test_nobody_waits_once_it_is_closed(inbox: Inbox) -> None:
    a = putting(inbox, "a", [100, 100, 100])
    inbox.close()
    a.join()


class _Turn:
    """A lock that knows how many had it, or wanted it, at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.holders, self.most, self.turns = 0, 0, 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self.holders += 1
        self.turns += 1
        self.most = max(self.most, self.holders)

    def __exit__(self, *_: object) -> None:
        self.holders -= 1
        self._lock.release()


@pytest.mark.mysql
def test_readers_take_turns_and_none_is_waited_for_in_one(servers: dict[str, MysqlServer], tmp_path: Path) -> None:
    for server in servers.values():
        server.run_sql("DROP DATABASE IF EXISTS turns; CREATE DATABASE turns; CREATE TABLE turns.t (a INT, b TEXT)")
        for number in range(12):
            server.run_sql(f"INSERT INTO turns.t VALUES ({number}, REPEAT('x', 5000))")
    shards = Shards.over(servers, tmp_path)
    shards.land()
    expected = changes(shards.lines(tables=["turns.*"]))
    # Each piece is more than may wait, so that readers stop behind each.
    limits = GroupLimits(waiting_bytes=1, decode=DecodeLimits(window_bytes=1000, first_bytes=1, flush_bytes=1))
    turn = _Turn()
    stream = shards.stream(tables=["turns.*"], limits=limits, permit=turn)
    assert changes(list(lines_of(stream))) == expected
    assert turn.most == 1
    assert turn.turns > 12 * len(servers)
    # Of the sources that follow nobody holds a turn while nothing comes.
    stream = shards.stream("now", follow=True, tables=["turns.*"], limits=limits, permit=turn)
    heartbeat = next(stream.written())
    assert b'"heartbeat":true' in heartbeat
    assert turn.holders == 0
    stream.close()
