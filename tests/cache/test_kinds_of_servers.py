"""Redis and Valkey, with and without TLS: the scripts do the same, and a certificate of a stranger is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.cache.reader import Cache
from strata_cdc.cache.server import CacheServer
from strata_cdc.cache.shapes import Shape, Shapes
from strata_cdc.errors import CacheUnavailableError
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.token import Token
from tests.certificates import make
from tests.redis_server import KINDS, RedisServer, start_redis

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.redis
SHAPES = Shapes.of("s", [Shape("order", {"d.t": ("a",)})])
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def up_to(number: int) -> GtidSet:
    return GtidSet.parse(f"{UUID}:1-{number}")


def use(server: RedisServer) -> None:
    """A value that is filled, read, invalidated, and not filled again by who read before."""
    cache = Cache(server.url, "c", SHAPES)
    state, word = cache.server, SHAPES.shapes[0].word("i")
    state.run("begin", arguments=["", SHAPES.history, "epoch", str(up_to(9)), SHAPES.digest, 0])
    own = [str(up_to(9)), str(up_to(9)), SHAPES.digest, 0, 60_000, 0, 1, "order", word]
    assert state.run("invalidate", arguments=own)
    cache.read("order", (1,))
    assert cache.fill("order", (1,), b"new", Token.of("s", up_to(9))) == "filled"
    assert cache.read("order", (1,)).value == b"new"
    key = f"{state.state_key}:order:[1]"
    state.run("invalidate", [key], [str(up_to(9)), str(up_to(10)), SHAPES.digest, 0, 60_000, 0, 0, f"{UUID}:10"])
    assert not cache.read("order", (1,)).is_hit
    assert cache.fill("order", (1,), b"old", Token.of("s", up_to(9))) == "older"
    assert cache.fill("order", (1,), b"paid", Token.of("s", up_to(10))) == "filled"
    assert cache.read("order", (1,)).value == b"paid"
    cache.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make(folder, "server", make(folder, "ca"))
    make(folder, "strangers")
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_without_tls(tmp_path, kind):
    with start_redis(tmp_path, kind=kind) as server:
        with server.client() as client:
            assert (client.info("server").get("server_name", "redis")) == kind
        use(server)


@pytest.mark.parametrize("kind", KINDS)
def test_with_tls(tmp_path, certificates, kind):
    with start_redis(tmp_path, kind=kind, password="sesame", certificates=certificates) as server:
        assert server.url.startswith("rediss://")
        use(server)
        strangers = server.url.replace("ca.pem", "strangers.pem")
        for wrong in (strangers, server.url.partition("?")[0], server.url.replace("rediss", "redis").partition("?")[0]):
            refused = CacheServer(wrong, "c")
            with pytest.raises(CacheUnavailableError) as error:
                refused.look()
            assert "sesame" not in str(error.value)
            refused.close()
