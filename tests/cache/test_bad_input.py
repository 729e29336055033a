"""Caches with tokens that nobody gave, readers that go away, and several invalidators, on a real server and cache.
A cache that is not there or refuses scripts is in `test_command.py`, a purged position in `test_on_server.py`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from strata_cdc import tokens
from strata_cdc.cache.reader import Cache
from strata_cdc.errors import SourceUnavailableError
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.token import Token
from tests.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from tests.cache.scene import Scene

pytestmark = [pytest.mark.mysql, pytest.mark.redis]


def test_a_forged_token_is_waited_for_and_never_read(scene: Scene):
    scene.sql("INSERT INTO orders VALUES (1, 1, 'new')")
    scene.get("order", 1)
    now = tokens.include(scene.connection, source="s").positions[0].position
    forged = Token.of("s", now | GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-900"))
    assert tokens.wait(scene.connection, forged, 0.1) is False
    assert not scene.cache.read("order", (1,), at_least=forged).is_hit
    with pytest.raises(SourceUnavailableError, match="has not executed what is required"):
        scene.get("order", 1, at_least=forged, wait_seconds=0.1)
    # Nobody else is worse off.
    assert scene.get("order", 1) == b"((1, 1, 'new'),)"
    scene.step()
    scene.inspect()


def test_a_reader_that_goes_away_before_it_fills_is_in_nobodys_way(scene: Scene):
    scene.sql("INSERT INTO orders VALUES (1, 1, 'new')")
    scene.step()
    gone = Cache(scene.url, "c", scene.shapes)
    assert not gone.read("order", (1,)).is_hit
    late = tokens.include(scene.connection, source="s")
    gone.close()
    assert scene.get("order", 1) == b"((1, 1, 'new'),)"
    assert scene.is_hit("order", 1)
    scene.sql("UPDATE orders SET state = 'paid' WHERE id = 1")
    scene.step()
    # It comes back with what it read then.
    assert gone.fill("order", (1,), b"what it read", late) == "older"
    assert scene.get("order", 1) == b"((1, 1, 'paid'),)"
    scene.inspect()


def test_two_invalidators_at_once(scene: Scene):
    followers = [scene.invalidator() for _ in range(2)]
    threads = [threading.Thread(target=follower.run) for follower in followers]
    for thread in threads:
        thread.start()
    number = 0
    # One of them may begin late, when the other one has done all.
    while number < 30 or not all(follower.report.transactions for follower in followers):
        scene.sql(f"REPLACE INTO orders VALUES ({number % 3}, 1, '{number}')")
        mine = tokens.include(scene.connection, source="s")
        wanted = f"(({number % 3}, 1, '{number}'),)".encode()
        assert scene.get("order", number % 3, at_least=mine) == wanted
        number += 1
        assert number < 9_000
    wait_until(lambda: mine.positions[0].position <= scene.acknowledged)
    for follower, thread in zip(followers, threads, strict=True):
        follower.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    for last in range(number - 3, number):
        assert scene.get("order", last % 3) == f"(({last % 3}, 1, '{last}'),)".encode()
    scene.inspect()
