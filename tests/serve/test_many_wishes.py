"""Many readers who want different things share one decode, and one bound on what is kept written for them."""

from __future__ import annotations

import gc
from contextlib import ExitStack

import pytest

from strata_cdc.serve.streaming.hub import Hub
from tests.serve.test_streaming import Reader, alone, executed, is_commit_of, strip, world

pytestmark = pytest.mark.mysql
__all__ = ["world"]

READERS = 10
BOUND = 200_000


def test_what_is_written_for_all_of_them_has_one_bound(world):
    begin = executed(world)
    with alone(world, written_bytes=BOUND) as address, ExitStack() as stack:
        wishes = [{"columns": ["id", "a", f"none{number}"]} for number in range(READERS)]
        readers = [
            stack.enter_context(Reader(address, **{"from": begin}, columns=",".join(wish["columns"])))
            for wish in wishes
        ]
        for _ in range(30):
            world.server.run_sql("INSERT INTO t (a) VALUES (REPEAT('x', 3000)), (REPEAT('y', 3000))", "d")
        end = executed(world)
        for reader in readers:
            reader.wait(is_commit_of(end))
        # Those of other tests may still be about to end.
        (shared,) = [one for one in gc.get_objects() if type(one) is Hub and one._limits.written_bytes == BOUND]
        # The newest span of each is kept whatever its size: on a slow machine, all rows may come in one.
        sizes = [view._size - len(next(reversed(view._written.values())).data) for view in shared._views.values()]
    assert len(sizes) == READERS
    assert sum(sizes) < 2 * BOUND
    wanted = [strip(world.lines(begin, until="now", **wish)) for wish in wishes]
    assert [strip(reader.lines) for reader in readers] == wanted
