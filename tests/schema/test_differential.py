"""Random DDL on a real server: the replay of its binlog and information_schema never differ."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from strata_cdc.schema.replay.catalog import Catalog
from tests.mysql_server import MysqlServer, start_server
from tests.schema.differential import Report, compare, run_and_record
from tests.schema.sequences import Sequence

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

SEQUENCES = 100
STATEMENTS = 20
IN_PROCEDURE = 0.1
"""How many of the statements run in a stored procedure."""
QUICK = ("--innodb-doublewrite=OFF",)
"""Options of a server that may lose everything in a crash."""


@pytest.fixture(scope="module")
def quick_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_server(tmp_path_factory.mktemp("differential"), *QUICK) as server:
        yield server


def run_sequence(server: MysqlServer, random: Random, count: int = STATEMENTS) -> Report:
    """Runs one sequence of which the server takes `count` statements, replays it, and compares."""
    observer = server.connect()
    with observer.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS d")
        cursor.execute("RESET BINARY LOGS AND GTIDS")
        cursor.execute("CREATE DATABASE d")
    connection = server.connect("d")
    with connection.cursor() as cursor:
        cursor.execute("SET sql_mode = %s", (random.choice(["", "STRICT_TRANS_TABLES", "ANSI_QUOTES"]),))
        cursor.execute("SET explicit_defaults_for_timestamp = %s", (random.choice([1, 1, 0]),))
        cursor.execute(f"SET default_storage_engine = {random.choice(['InnoDB', 'MyISAM'])}")
    sequence = Sequence(random, "d")
    recorded = list(
        run_and_record(
            connection,
            observer,
            sequence.statements(count),
            sequence.refuse,
            in_procedure=lambda: random.random() < IN_PROCEDURE,
        )
    )
    connection.close()
    observer.close()
    return compare(Catalog(), server.binlog_dir / recorded[-1].file, recorded) if recorded else Report()


@pytest.mark.mysql
@pytest.mark.slow
def test_replay_equals_the_server(quick_server: MysqlServer):
    counted = itertools.count(1)

    @settings(
        max_examples=SEQUENCES,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=True))
    def sequences_agree(random: Random):
        report = run_sequence(quick_server, random)
        assert report.differences == []
        assert report.gaps == {}
        next(counted)

    sequences_agree()
    assert next(counted) > SEQUENCES
