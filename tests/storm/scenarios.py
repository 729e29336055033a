"""Scenarios of a storm: which servers it has, and what happens to them.
Not here: two servers (`pair.py`), what sessions do (`workload.py`), the storm (`test_storm.py`)."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.mariadb_server import PREFIXES
from tests.mysql_server import start_server
from tests.storm.pair import start_pair
from tests.storm.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from random import Random

    from tests.mysql_server import MysqlServer


class Servers(Protocol):
    """One server or several; the primary is what applications and Strata connect to."""

    primary: MysqlServer
    counts: dict[str, int]
    """Of what has happened to them."""

    def workload(self, random: Random) -> Workload:
        """Sessions on the primary."""
        ...

    def happen(self, random: Random, workload: Workload) -> None:
        """Something may happen to them, after which the sessions are on the primary again."""
        ...


class OneServer:
    """A server to which nothing happens."""

    def __init__(self, primary: MysqlServer) -> None:
        self.primary, self.counts = primary, {}

    def workload(self, random: Random) -> Workload:
        """Sessions on it."""
        return Workload(self.primary, random)

    def happen(self, random: Random, workload: Workload) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Scenario:
    """The servers of a storm."""

    name: str
    start: Callable[[Path, Random], AbstractContextManager[Servers]]

    def __str__(self) -> str:
        return self.name


@contextmanager
def one_mysql(folder: Path, _: Random) -> Iterator[Servers]:
    with start_server(folder) as server:
        yield OneServer(server)


def _of_mariadb(version: str) -> Scenario:
    return Scenario(f"mariadb-{version}", lambda folder, random: start_pair(folder, version, random))


NEWEST, *OLDER = map(_of_mariadb, PREFIXES)
SCENARIOS = (Scenario("mysql", one_mysql), NEWEST, *(pytest.param(each, marks=pytest.mark.soak) for each in OLDER))
