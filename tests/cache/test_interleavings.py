"""No value older than an acknowledged invalidation is ever served: all that can happen, in any order, on a model of the
cache and on a real one; and the same machine finds what is wrong with caches that are made in other ways."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.cache.machine import Machine, OwnWrites, StaleServed, Strata
from tests.cache.model import BothServers, ModelServer, RealServer
from tests.cache.mutants import CACHES, MUTANTS
from tests.cache.naive import DeleteOnly, ExpiryOnly, Values
from tests.properties import TIMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.redis_server import RedisServer

STEPS = 40


def run(made: Any, examples: int, machine: type[Machine] = OwnWrites, steps: int = STEPS, **options: Any) -> None:
    """The machine on a cache that `made` makes over a database."""
    built = type("Built", (machine,), {"make": staticmethod(made)})
    found = settings(
        max_examples=examples * max(1, TIMES),
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        **options,
    )
    run_state_machine_as_test(built, settings=found)


@pytest.mark.hypothesis
def test_nothing_stale_is_served_by_the_model():
    run(lambda database: Strata(database, ModelServer()), 150)


@pytest.mark.redis
@pytest.mark.hypothesis
def test_nothing_stale_is_served_by_a_real_cache_which_does_what_the_model_does(redis_server: RedisServer):
    run(lambda database: Strata(database, BothServers(RealServer(redis_server))), 40)


def find_the_fault(kind: Any, values: Callable[[], Values]) -> None:
    with pytest.raises(StaleServed):
        run(lambda database: kind(database, values()), 500, Machine, phases=[Phase.generate], print_blob=False)


@pytest.mark.parametrize("kind", [DeleteOnly, ExpiryOnly])
def test_the_machine_finds_the_fault_of(kind: Any):
    find_the_fault(kind, lambda: Values(None))


@pytest.mark.redis
@pytest.mark.parametrize("kind", [DeleteOnly, ExpiryOnly])
def test_the_machine_finds_the_fault_on_a_real_server_of(kind: Any, redis_server: RedisServer):
    find_the_fault(kind, lambda: Values(redis_server.client()))


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_machine_finds_a_rule_that_is_left_out(mutant: type[ModelServer]):
    with pytest.raises(StaleServed):
        run(lambda database: Strata(database, mutant()), 1500, phases=[Phase.generate], print_blob=False)


@pytest.mark.parametrize(("kind", "fault"), CACHES)
def test_the_machine_finds_a_rule_that_readers_and_invalidators_leave_out(kind: type[Strata], fault: type[Exception]):
    with pytest.raises(fault):
        run(lambda database: kind(database, ModelServer()), 500, phases=[Phase.generate], print_blob=False)


def test_the_machine_meets_values_at_all():
    """A cache that never serves anything is never wrong."""
    met: Counter[str] = Counter()

    class Counting(OwnWrites):
        def check(self, found: Any, *rest: Any) -> None:
            super().check(found, *rest)
            met[found.outcome] += 1

    run(lambda database: Strata(database, ModelServer()), 50, Counting)
    assert met["hit"] > 10, met
    assert met["miss"] > 10, met
