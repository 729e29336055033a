"""What the server makes of rows by an ALTER, and what `convert_rows` makes of them, never differ: it is exact, or it
refuses. For longer: `python -m tests.tables.test_effects_on_server --minutes 10`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from strata_cdc.schema.model.conversions import KNOWN
from strata_cdc.tables.values.known import CONVERSIONS
from tests.mariadb_server import FAMILIES, start_family
from tests.schema.test_differential import QUICK
from tests.tables.server_rows import DATABASE, Subject, Tally, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mysql_server import MysqlServer

TABLES = 60
ALTERS = 6
SEED = 7


@pytest.fixture(scope="module", params=FAMILIES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_family(tmp_path_factory.mktemp("effects"), request.param, *QUICK) as found:
        yield found


def test_every_known_pair_has_its_function():
    assert set(CONVERSIONS) == KNOWN


@pytest.mark.mysql
def test_rows_are_what_the_server_has(server: MysqlServer):
    tally = Tally()
    work(server, Random(SEED), tally, TABLES)
    print(tally.table())
    assert tally.wrong == []
    exact, others = sum(tally.exact.values()), sum(tally.refused.values()) + sum(tally.read_again.values())
    # Pairs are drawn evenly, also those that nobody writes: most of what people do write is exact.
    assert exact > 1.5 * others


def work(server: MysqlServer, random: Random, tally: Tally, tables: int) -> None:
    """Makes tables, and alters each some times."""
    with server.connect() as connection:
        run(connection, f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    subject = Subject(server, random, tally)
    for _ in range(tables):
        subject.make()
        for _ in range(ALTERS):
            subject.alter()
    subject.close()


def main() -> int:
    """Goes on until the time is up; prints each difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--family", choices=FAMILIES, default="mysql")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    tally, random = Tally(), Random(options.seed)
    with tempfile.TemporaryDirectory() as folder, start_family(Path(folder), options.family, *QUICK) as server:
        while time.monotonic() < end:
            work(server, random, tally, 10)
    print(tally.table())
    print(f"seed {options.seed}", *tally.wrong, sep="\n")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
