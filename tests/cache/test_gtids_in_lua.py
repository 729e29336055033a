"""The scripts of caches compare positions as Python does: both families, and never one with the other."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from strata_cdc.cache import server
from strata_cdc.position.domains import DomainRange, DomainSet
from strata_cdc.position.sets import GtidSet, Sid

if TYPE_CHECKING:
    from strata_cdc.position.port import Executed
    from tests.redis_server import RedisServer

SIDS = [Sid(f"{number:08d}-1111-2222-3333-444444444444", tag) for number in range(3) for tag in ("", "a", "b_1")]
pytestmark = pytest.mark.redis
LUA = (server._LUA / "gtids.lua").read_text() + "\nreturn within(ARGV[1], ARGV[2]) and 1 or 0"


def random_set(chance: random.Random) -> GtidSet:
    spans: dict[Sid, list[tuple[int, int]]] = {}
    for _ in range(chance.randrange(5)):
        first = chance.randint(1, 12)
        spans.setdefault(chance.choice(SIDS), []).append((first, first + chance.randrange(6)))
    return GtidSet.from_spans(spans)


def random_domains(chance: random.Random) -> DomainSet:
    domains = chance.sample([0, 1, 7, 10, 4294967295], chance.randrange(4))
    newest = [1, 2, 9, 10, 11, (1 << 53)]
    return DomainSet(
        tuple(sorted(DomainRange(domain, 1, chance.choice(newest), chance.randint(1, 3)) for domain in domains))
    )


def test_scripts_compare_as_python_does(redis_server: RedisServer) -> None:
    chance = random.Random(4)
    client = redis_server.client()
    outcomes = {True: 0, False: 0}

    def check(inner: Executed, outer: Executed) -> None:
        expected = inner <= outer
        outcomes[expected] += 1
        texts = server.set_text(inner), server.set_text(outer)
        assert client.eval(LUA, 0, *texts) == int(expected), texts

    for _ in range(400):
        sets = random_set(chance), random_set(chance)
        domains = random_domains(chance), random_domains(chance)
        check(*sets)
        check(sets[0], sets[0] | sets[1])
        check(*domains)
        check(domains[0], domains[0] | domains[1])
        check(sets[0], domains[0])
        check(domains[0], sets[0])
    assert min(outcomes.values()) > 500
