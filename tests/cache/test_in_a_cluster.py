"""A cache in a Redis Cluster: any node leads to it, and it is found again when its slot migrates, when a replica takes
over, and when the node of the URL is gone. What cannot answer for a while is no refusal.
Not here: what is served (`test_on_server.py`)."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import redis

from strata_cdc.cache.reader import Cache
from strata_cdc.cache.shapes import Shape, Shapes
from strata_cdc.errors import CacheUnavailableError
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.token import Token
from tests import certificates
from tests.redis_server import RedisServer, launch
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strata_cdc.cache.server import CacheServer

pytestmark = pytest.mark.redis
SHAPES = Shapes.of("s", [Shape("order", {"d.t": ("a",)})])
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
SLOT, SLOTS = 7365, 16_384
"""Of `strata:{c}`; of all."""
SECRET = "s%40:/ ?#"
OPTIONS = (
    *("--cluster-enabled", "yes", "--cluster-node-timeout", "500", "--cluster-require-full-coverage", "no"),
    *("--tls-cluster", "yes", "--tls-replication", "yes", "--masterauth", SECRET),
)
LAST_BUS_PORT = 55_535
"""A cluster's nodes talk to each other at their port and 10,000."""


def up_to(number: int) -> GtidSet:
    return GtidSet.parse(f"{UUID}:1-{number}")


class Cluster:
    """Three primaries with TLS and a password. The second one has a replica, the slot of the cache, and one more:
    without any it would become a replica."""

    def __init__(self, folder: Path) -> None:
        """The folder has their certificate."""
        self.nodes: list[RedisServer] = []
        for number in range(4):
            start = partial(launch, folder / str(number), *OPTIONS, password=SECRET, certificates=folder)
            node = start()
            while node.port > LAST_BUS_PORT:
                node.kill()
                node = start()
            self.nodes.append(node)
        for number, (begin, end) in enumerate([(0, SLOT - 1), (SLOT, SLOT + 1), (SLOT + 2, SLOTS - 1)]):
            self.ask(number, "ADDSLOTSRANGE", begin, end)
            self.ask(number, "SET-CONFIG-EPOCH", number + 1)
            self.ask(3, "MEET", "127.0.0.1", self.nodes[number].port)
        wait_until(lambda: all(self.knows(number) == (b"ok", b"4") for number in range(4)))
        self.ask(3, "REPLICATE", self.id(1))
        wait_until(lambda: b"master_link_status:up" in self.run(3, "INFO", "replication"))

    def run(self, number: int, *words: Any) -> Any:
        with self.nodes[number].client() as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def ask(self, number: int, *words: Any) -> Any:
        return self.run(number, "CLUSTER", *words)

    def id(self, number: int) -> str:
        return self.ask(number, "MYID").decode()

    def knows(self, number: int) -> tuple[bytes, bytes]:
        facts = dict(line.split(b":") for line in self.ask(number, "INFO").split(b"\r\n") if line)
        return facts[b"cluster_state"], facts[b"cluster_known_nodes"]

    @contextmanager
    def migrating(self, origin: int, target: int) -> Iterator[None]:
        """While a slot migrates; at the end it has."""
        self.ask(target, "SETSLOT", SLOT, "IMPORTING", self.id(origin))
        self.ask(origin, "SETSLOT", SLOT, "MIGRATING", self.id(target))
        yield
        for key in self.ask(origin, "GETKEYSINSLOT", SLOT, 1000):
            self.move(key, origin, target)
        for number in (target, origin):
            self.ask(number, "SETSLOT", SLOT, "NODE", self.id(target))

    def move(self, key: str | bytes, origin: int, target: int) -> None:
        self.run(origin, "MIGRATE", "127.0.0.1", self.nodes[target].port, key, 0, 5000, "AUTH", SECRET)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    certificates.make(tmp_path, "server", certificates.make(tmp_path, "ca"))
    made = Cluster(tmp_path)
    yield made
    for node in made.nodes:
        node.kill()


def invalidate(server: CacheServer, reached: int, *, words: bool = False) -> str:
    """Up to the next transaction, which changes the order 1; then this very server is caught up."""
    told = [1, "order", SHAPES.shapes[0].word("i")] if words else [0]
    arguments = [str(up_to(reached)), str(up_to(reached + 1)), SHAPES.digest, 1, 60_000, 0, *told]
    answer = server.run("invalidate", [f"{server.state_key}:order:[1]"], [*arguments, f"{UUID}:{reached + 1}"])
    return str(answer[0].decode())


def fill(cache: Cache, reached: int) -> str:
    return cache.fill("order", (1,), b"at %d" % reached, Token.of("s", up_to(reached)))


def is_answered(cache: Cache) -> bool:
    try:
        return cache.server.look() is not None
    except CacheUnavailableError:
        return False


def meet_a_migration(cluster: Cluster, cache: Cache) -> None:
    """To the third node; the keys go one by one."""
    server = cache.server
    with cluster.migrating(1, 2):
        cluster.move(server.log_key, 1, 2)
        assert cache.read("order", (1,)).value == b"at 2"
        # Their record cannot be written, so they do nothing.
        for fails in (lambda: invalidate(server, 2), lambda: fill(cache, 2)):
            with pytest.raises(CacheUnavailableError, match="cannot just now"):
                fails()
        assert cache.read("order", (1,)).token == str(up_to(2))
        cluster.move(f"{server.state_key}:order:[1]", 1, 2)
        with pytest.raises(CacheUnavailableError):
            cache.read("order", (1,))
        cluster.move(server.state_key, 1, 2)
        with pytest.raises(CacheUnavailableError, match="another node of its cluster"):
            cache.read("order", (1,))


def test_a_cache_is_found_wherever_its_slot_is(cluster: Cluster):
    cache = Cache(cluster.nodes[0].url, "c", SHAPES)
    server = cache.server
    assert server.look() is None
    server.run("begin", arguments=["", SHAPES.history, "epoch", str(up_to(1)), SHAPES.digest, 1000])
    assert invalidate(server, 1, words=True) == "done"
    assert cache.read("order", (1,)).outcome == "miss"
    assert fill(cache, 2) == "filled"
    assert [key for key, _ in server.values()] == [f"{server.state_key}:order:[1]"]

    meet_a_migration(cluster, cache)
    # The node that has it now may lack what was acknowledged at the one before it.
    assert cache.read("order", (1,)).outcome == "moved"
    assert invalidate(server, 2) == "done"
    assert not cache.read("order", (1,)).is_hit
    assert fill(cache, 3) == "filled"
    assert [record["kind"] for record in server.log()] == ["begin", "invalidate", "fill", "invalidate", "fill"]

    with cluster.migrating(2, 1):
        pass
    assert invalidate(server, 3) == "done"
    cluster.run(1, "WAIT", 1, 5000)
    cluster.nodes[1].kill()
    with pytest.raises(CacheUnavailableError):
        server.look()
    wait_until(lambda: is_answered(cache))
    assert cluster.run(3, "ROLE")[0] == b"master"
    assert cache.read("order", (1,)).outcome == "moved"

    # The node of the URL: two of three primaries go on.
    cluster.nodes[0].kill()
    wait_until(lambda: b"fail " in cluster.ask(3, "NODES"))
    assert is_answered(cache)
    # One that is left alone stops.
    cluster.nodes[2].kill()
    wait_until(lambda: not is_answered(cache))
    with pytest.raises(CacheUnavailableError, match=r"down|refused"):
        server.look()
    with pytest.raises(redis.exceptions.ClusterDownError):
        cluster.run(3, "HGETALL", server.state_key)
    cache.close()
