"""Tokens with queries on MariaDB: a primary under writers, and its replica."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strata_cdc import tokens
from strata_cdc.binlog.protocol.visible_state import read_visible_state
from strata_cdc.errors import SourceUnavailableError, Usage
from strata_cdc.position.sets import Gtid
from strata_cdc.position.token import Order
from tests.mariadb_server import PREFIXES, start_mariadb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mariadb_server import MariadbServer

pytestmark = pytest.mark.mysql
HAS = (Order.BEFORE, Order.EQUAL)


@pytest.fixture(scope="module", params=PREFIXES)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[MariadbServer, MariadbServer]]:
    """A primary, and a replica whose own binlog does not have what it applies, as is the default."""
    folder = tmp_path_factory.mktemp("tokens")
    durable = ("--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")
    with (
        start_mariadb(folder / "a", request.param, *durable) as primary,
        start_mariadb(folder / "b", request.param, "--server-id=2") as replica,
    ):
        primary.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(40))")
        replica.run_sql(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={primary.port}, MASTER_USER='root',"
            " MASTER_USE_GTID=slave_pos, MASTER_SSL=0; START SLAVE;"
        )
        yield primary, replica


def test_a_replica_reports_whether_it_has_it_and_waits_for_it(pair: tuple[MariadbServer, MariadbServer]) -> None:
    primary, replica = pair
    with primary.connect() as writer, replica.connect() as reader:
        assert tokens.wait(reader, tokens.include(writer), 30)
        replica.run_sql("STOP SLAVE SQL_THREAD")
        with writer.cursor() as cursor:
            cursor.execute("INSERT INTO d.t (a) VALUES (1)")
        token = tokens.own(writer, source="shop")
        assert tokens.compare(writer, token) in HAS
        assert tokens.compare(reader, token) is Order.AFTER
        assert tokens.wait(reader, token, 0) is False
        assert tokens.wait(reader, token, 0.2) is False
        starter = threading.Timer(0.3, replica.run_sql, ["START SLAVE SQL_THREAD"])
        starter.start()
        assert tokens.wait(reader, token, 30) is True
        starter.join()
        assert tokens.include(reader, source="shop").compare(token) is Order.EQUAL


def test_an_open_transaction_is_refused(pair: tuple[MariadbServer, MariadbServer]) -> None:
    primary, _ = pair
    with primary.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET autocommit = 0")
        cursor.execute("SELECT COUNT(*) FROM d.t")
        with pytest.raises(Usage, match="snapshot"):
            tokens.include(connection)
        cursor.execute("COMMIT")
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
        with pytest.raises(Usage, match="uncommitted"):
            tokens.include(connection)


def test_a_user_without_the_grant_gets_an_error(pair: tuple[MariadbServer, MariadbServer]) -> None:
    primary, _ = pair
    primary.run_sql("CREATE OR REPLACE USER app@'%'; GRANT SELECT ON d.* TO app@'%'")
    app = replace(primary, user="app")
    with app.connect() as connection, pytest.raises(Exception, match="BINLOG MONITOR"):
        tokens.include(connection)


@pytest.mark.parametrize("is_xa", [False, True])
def test_what_is_read_next_has_what_the_token_covers(pair: tuple[MariadbServer, MariadbServer], is_xa: bool) -> None:
    """The binlog has a transaction before others see it; a token has it only afterwards."""
    primary, _ = pair
    gtids: dict[str, Gtid] = {}
    is_over = threading.Event()

    def write(number: int) -> None:
        with primary.connect() as connection, connection.cursor() as cursor:
            count = 0
            while not is_over.is_set():
                count += 1
                row = f"{is_xa}-{number}-{count}"
                for before in (f"XA START '{row}'",) if is_xa else ():
                    cursor.execute(before)
                cursor.execute("INSERT INTO d.t (a) VALUES (%s)", (row,))
                for after in (f"XA END '{row}'", f"XA PREPARE '{row}'", f"XA COMMIT '{row}'") if is_xa else ():
                    cursor.execute(after)
                cursor.execute("SELECT @@last_gtid")
                gtids[row] = Gtid.parse(cursor.fetchone()[0])

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    readings = []
    with primary.connect() as connection, connection.cursor() as cursor:
        while len(readings) < 300 or len(gtids) <= 100:
            [place] = tokens.include(connection).positions
            cursor.execute("SELECT a FROM d.t WHERE a LIKE %s ORDER BY id DESC LIMIT 500", (f"{is_xa}-%",))
            readings.append((place.position, {row for (row,) in cursor.fetchall()}))
    is_over.set()
    for writer in writers:
        writer.join()
    order = sorted(gtids, key=lambda row: gtids[row].gno)
    for position, rows in readings:
        covered = [row for row in order if position.contains(gtids[row])]
        # Rows that are older than those that were read are there, too.
        assert set(covered[-50:]) <= rows


@pytest.mark.parametrize(("committed", "prepared"), [(700, None), (800, "a")])
def test_a_commit_that_does_not_end_is_an_error(committed: int, prepared: str | None) -> None:
    """A server whose answers stay before the end of its binlog, or that keeps a prepared transaction."""

    def rows(statement: str) -> list[tuple[object, ...]]:
        if statement == "SHOW MASTER STATUS":
            return [("binlog.000001", 800, "", "")]
        if statement.startswith("SHOW STATUS"):
            return [("Binlog_snapshot_file", "binlog.000001"), ("Binlog_snapshot_position", str(committed))]
        if statement == "XA RECOVER":
            return [] if prepared is None else [(1, 1, 0, prepared)]
        return [("uid", "ON", "0-1-1", "", 1, "11.8.9-MariaDB")]

    with pytest.raises(SourceUnavailableError, match=r"binlog.000001:800|1 prepared XA"):
        read_visible_state(rows, commit_seconds=0.01)
