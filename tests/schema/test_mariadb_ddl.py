"""DDL on real servers of MariaDB: the replay of their binlogs and information_schema never differ."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from strata_cdc.flavour import Flavour
from strata_cdc.schema.live.engine import LiveSchema
from strata_cdc.schema.model.charsets import charset_of_collation, collation_name, collation_named
from tests.landing.landing import executed
from tests.mariadb_server import PREFIXES, start_mariadb
from tests.schema.golden import statements_of
from tests.schema.mariadb_differential import emptied, run_and_compare
from tests.schema.mariadb_sequences import MariadbSequence
from tests.seeds import seeds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mariadb_server import MariadbServer
    from tests.schema.differential import Report

pytestmark = pytest.mark.mysql

CASES = Path(__file__).parent / "mariadb_cases"
OPTIONS = ("--innodb-doublewrite=OFF", "--binlog-row-metadata=FULL")
SEQUENCES = 30
STATEMENTS = 20


@pytest.fixture(scope="module", params=PREFIXES)
def mariadb(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), request.param, *OPTIONS) as server:
        yield server


def flavour_of(server: MariadbServer) -> Flavour:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        return Flavour.parse(cursor.fetchone()[0])


def run_sequence(server: MariadbServer, random: Random) -> Report:
    """Runs one sequence of which the server takes some statements, and compares after each."""
    sequence = MariadbSequence(random, "d", flavour_of(server))
    return run_and_compare(
        server,
        sequence.statements(STATEMENTS),
        settings=[
            "SET system_versioning_alter_history = KEEP",
            f"SET sql_mode = '{random.choice(['', 'STRICT_TRANS_TABLES', 'ANSI_QUOTES'])}'",
            f"SET default_storage_engine = {random.choice(['InnoDB', 'MyISAM'])}",
        ],
        on_refused=lambda statement, _: sequence.refuse(statement),
    )


def test_collations_are_those_of_the_server(mariadb: MariadbServer):
    flavour = flavour_of(mariadb)
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT ID, FULL_COLLATION_NAME, CHARACTER_SET_NAME "
            "FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
        )
        for number, name, charset in cursor.fetchall():
            assert (collation_name(number, flavour), collation_named(name)) == (name, name)
            assert charset_of_collation(name) == charset


def test_a_table_that_the_server_cannot_open_is_a_gap_of_a_snapshot(mariadb: MariadbServer):
    """A partition that is added to this one makes a broken table (MDEV-22283)."""
    connection = emptied(mariadb)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE d.t (a INT)")
        cursor.execute(
            "CREATE TABLE d.broken (a INT PRIMARY KEY) ENGINE=Aria PAGE_CHECKSUM=0 WITH SYSTEM VERSIONING "
            "PARTITION BY SYSTEM_TIME (PARTITION p1 HISTORY, PARTITION pn CURRENT)"
        )
        cursor.execute("ALTER TABLE d.broken ADD PARTITION (PARTITION p2 HISTORY)")
    live = LiveSchema(connection)
    assert [str(name) for name, _ in live.tables()] == ["d.t"]
    assert [str(name) for name in live.doubtful] == ["d.broken"]


def test_a_snapshot_does_not_wait_for_a_prepared_transaction(mariadb: MariadbServer):
    """It may be prepared for days; no DDL is in it."""
    connection, held = emptied(mariadb), "XA START 'held'; INSERT INTO t VALUES (1); XA END 'held'; XA PREPARE 'held'"
    mariadb.run_sql(f"CREATE TABLE t (a INT); {held}", "d")
    try:
        live = LiveSchema(connection)
        assert [str(name) for name, _ in live.tables()] == ["d.t"]
        assert live.end() == live.gtid_before == str(executed(mariadb))
    finally:
        mariadb.run_sql("XA ROLLBACK 'held'")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(SEQUENCES))
def test_replay_equals_the_server(mariadb: MariadbServer, seed: int):
    report = run_sequence(mariadb, Random(seed))
    assert report.differences == []
    assert report.gaps == {}


@pytest.mark.parametrize("case", sorted(path.stem for path in CASES.glob("*.sql")))
def test_each_case_is_as_the_server_shows_it(mariadb: MariadbServer, case: str):
    """`-- only 11.8` begins a case for that version and later ones; `-- gap` is at the top of those that end in one."""
    lines = (CASES / f"{case}.sql").read_text().splitlines()
    since = next((tuple(map(int, line[8:].split("."))) for line in lines if line.startswith("-- only ")), ())
    if flavour_of(mariadb).version < since:
        pytest.skip(f"MariaDB {mariadb.version} has nothing of it")
    refused: list[tuple[str, object]] = []
    statements = statements_of(CASES / f"{case}.sql")
    report = run_and_compare(mariadb, statements, on_refused=lambda *one: refused.append(one))
    assert [statement for statement, _ in refused if "-- refused" not in statement] == []
    assert report.differences == []
    expected = [line.removeprefix("-- gap ") for line in lines if line.startswith("-- gap ")]
    assert list(report.gaps.values()) == expected
    assert report.versions


_OF_TIMESTAMPS = (
    "add constraint check (1)",
    "add column x{0} int",
    "add column x{0} int first",
    "add column x{0} timestamp",
    "add column x{0} timestamp not null first",
    "alter column i set default {0}",
    "alter column b set default '2020-02-02 02:02:02'",
    "alter column b set default (now() + interval 1 day)",
    "alter column b drop default",
    "modify i bigint default {0}",
    "modify i int comment '{0}'",
    "modify b timestamp(3) not null",
    "modify b timestamp(3) null",
    "modify b timestamp(3) not null default '2021-01-01'",
    "change b b timestamp(3)",
    "comment = '{0}'",
    "add key (i)",
    "force",
    "engine = innodb",
    "engine = myisam",
    "add primary key (b)",
    "drop primary key",
    "rename column i to j, rename column j to i",
    "convert to character set utf8mb4",
    "add column x{0} int, algorithm = copy",
)


def promoting_statements(random: Random) -> Iterator[str]:
    """Statements on a table with a TIMESTAMP, while `explicit_defaults_for_timestamp` is on and off."""
    yield "create table t (b timestamp(3) not null, i int, s varchar(3), t2 timestamp null)"
    for number in range(30):
        yield f"set explicit_defaults_for_timestamp = {random.choice([0, 0, 1])}"
        ignore, step = random.choice(["", "ignore "]), random.choice(_OF_TIMESTAMPS)
        yield f"alter {ignore}table t {step.format(number)}"
        if random.random() < 0.1:
            yield f"create table t{number} like t"


@pytest.mark.parametrize("seed", seeds())
def test_a_timestamp_that_the_server_may_promote_is_in_doubt_until_a_snapshot(mariadb: MariadbServer, seed: int):
    """The same ALTER gives it ON UPDATE or not: the server reads memory that it has not written."""
    report = run_and_compare(mariadb, promoting_statements(Random(seed)), settings=["SET sql_mode = ''"])
    assert report.differences == []
    assert report.gaps == {}
    assert report.versions > 20
