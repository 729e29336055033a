"""Tokens with queries, on a real primary and its replica: fresh enough or not, waited for, and a session's own."""

from __future__ import annotations

import importlib
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pymysql
import pytest
from pymysql.constants import CLIENT

from scripts.state import REPOSITORY
from strata_cdc import tokens
from strata_cdc.errors import IncomparableTokensError, Usage
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.token import Order, Token
from strata_cdc.tokens.session import gtids_of
from tests.mysql_server import MysqlServer, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mysql
HAS = (Order.BEFORE, Order.EQUAL)


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Iterator[tuple[MysqlServer, MysqlServer]]:
    folder = tmp_path_factory.mktemp("tokens")
    with start_server(folder / "a") as primary, start_server(folder / "b", "--server-id=2") as replica:
        replica.run_sql(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={primary.port}, SOURCE_USER='root',"
            " SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA;"
        )
        primary.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a INT)")
        with replica.connect() as connection, primary.connect() as there:
            assert tokens.wait(connection, tokens.include(there), 30)
        yield primary, replica


def insert(connection: pymysql.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO d.t (a) VALUES (1)")


def count(connection: pymysql.Connection) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM d.t")
        return cursor.fetchone()[0]


def test_a_replica_says_whether_it_has_it_and_waits_for_it(pair):
    primary, replica = pair
    with primary.connect() as writer, replica.connect() as reader:
        replica.run_sql("STOP REPLICA SQL_THREAD")
        insert(writer)
        token = tokens.own(writer, source="shop")
        assert token.positions[0].source == "shop"
        assert tokens.compare(writer, token) in HAS
        assert tokens.compare(reader, token) is Order.AFTER
        assert tokens.wait(reader, token, 0) is False
        assert tokens.wait(reader, token, 0.2) is False
        assert tokens.include(reader, source="shop").compare(token) is Order.BEFORE
        starter = threading.Timer(0.3, replica.run_sql, ["START REPLICA SQL_THREAD"])
        starter.start()
        assert tokens.wait(reader, token, 30) is True
        starter.join()
        assert tokens.compare(reader, token) in HAS
        assert tokens.wait(reader, token, 0) is True
        assert count(reader) == count(writer)


@pytest.mark.parametrize("way", ["commit()", "COMMIT", "autocommit", "ddl"])
def test_the_servers_word_of_a_commit(pair, way):
    primary, _ = pair
    options = {"host": primary.host, "port": primary.port, "user": "root", "ssl_disabled": True}
    with pymysql.connect(**options, client_flag=CLIENT.SESSION_TRACK, autocommit=way == "autocommit") as session:
        assert tokens.remember(session)
        with primary.connect() as other:
            insert(other)
        with session.cursor() as cursor:
            cursor.execute("CREATE TABLE d.x (a INT)" if way == "ddl" else "INSERT INTO d.t (a) VALUES (2)")
            if way == "COMMIT":
                cursor.execute("COMMIT")
        if way == "commit()":
            session.commit()
        mine = tokens.own(session)
        [place] = mine.positions
        assert place.position.count() == 1
        copied = tokens.own(session, copied_from={"old": "first"})
        assert Token.of("old", place.position, lineage="first").compare(copied) is Order.BEFORE
        assert copied.compare(mine) is Order.EQUAL
        with primary.connect() as other, other.cursor() as cursor:
            assert tokens.compare(other, mine) is Order.BEFORE
            insert(other)
            assert tokens.own(session) == mine
            cursor.execute("DROP TABLE IF EXISTS d.x")
        # A connection that was made anew tracks nothing: all that the server has executed is as right.
        session.close()
        session.connect()
        assert tokens.own(session).positions[0].position.count() > 1
        assert tokens.remember(session)
        assert tokens.own(session).positions[0].position.count() > 1


def test_any_other_connection_gets_all_that_the_server_had_executed(pair):
    primary, _ = pair
    with primary.connect() as session:
        assert not tokens.remember(session)
        insert(session)
        token = tokens.own(session)
        assert tokens.compare(session, token) is Order.EQUAL
        assert token == tokens.include(session)


def mysqlclient(server: MysqlServer) -> Any:
    """A connection of the driver mysqlclient, as `scripts/setup.sh tests` has built it."""
    built = REPOSITORY / ".strata" / "mysqlclient"
    if not built.is_dir():
        pytest.skip("mysqlclient is not built: scripts/install_mysqlclient.sh says why")
    [plugins] = built.glob("usr/lib/*/libmariadb3/plugin")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(built / "python")
        patched.setenv("MARIADB_PLUGIN_DIR", str(plugins))
        driver = importlib.import_module("MySQLdb")
        return driver.connect(host=server.host, port=server.port, user="root", db="d")


def test_mysqlclient_gets_a_superset_that_is_as_right(pair):
    primary, replica = pair
    with closing(mysqlclient(primary)) as session, primary.connect() as other, replica.connect() as reader:
        assert not tokens.remember(session)
        insert(session)
        session.commit()
        mine = tokens.own(session, source="shop")
        assert mine == tokens.include(session, source="shop")
        assert mine.compare(tokens.include(other, source="shop")) is Order.EQUAL
        assert tokens.wait(reader, mine, 30)
        assert count(reader) == count(other)
        insert(other)
        assert tokens.compare(session, mine) is Order.BEFORE
        # It does not say whether a transaction is open; the server does.
        with closing(session.cursor()) as cursor:
            cursor.execute("SELECT COUNT(*) FROM t")
        with pytest.raises(Usage, match="snapshot"):
            tokens.include(session)
        session.rollback()
        assert tokens.include(session).compare(tokens.include(other)) is Order.EQUAL


class CursorOnly:
    """A connection of another driver: nothing but PEP 249."""

    def __init__(self, connection: pymysql.Connection) -> None:
        self._connection = connection

    def cursor(self):
        return self._connection.cursor(pymysql.cursors.DictCursor)


@pytest.mark.parametrize("wrap", [lambda found: found, CursorOnly])
def test_a_snapshot_that_may_be_older_is_refused(pair, wrap):
    primary, _ = pair
    with primary.connect() as plain, primary.connect() as other:
        session = wrap(plain)
        plain.begin()
        before = count(plain)
        insert(other)
        with pytest.raises(Usage, match="snapshot may be older"):
            tokens.include(session)
        assert count(plain) == before
        plain.commit()
        token = tokens.include(session)
        assert tokens.compare(session, token) in HAS
        assert count(plain) == before + 1
        with plain.cursor() as cursor:
            cursor.execute("SET SESSION transaction_isolation = 'READ-COMMITTED'")
        plain.begin()
        count(plain)
        insert(other)
        # The level may have been changed inside of the transaction.
        with pytest.raises(Usage, match="snapshot may be older"):
            tokens.include(session)
        plain.rollback()
        tokens.include(session)
        assert count(plain) == before + 2
        with plain.cursor() as cursor:
            # Asking has left no mark on the session.
            cursor.execute("SELECT @@SESSION.transaction_isolation, @@SESSION.transaction_read_only")
            assert cursor.fetchone() == ("READ-COMMITTED", 0)


def test_tokens_of_files_are_for_the_server_that_wrote_them(pair):
    primary, replica = pair
    with primary.connect() as here, replica.connect() as there:
        with here.cursor() as cursor:
            cursor.execute("SELECT @@server_uuid")
            [uuid] = cursor.fetchone()
        token = Token.of("s", FilePosition(uuid, BinlogPosition.from_offset("binlog.000001", 4)))
        # Both number their transactions: a file and offset is not comparable with a set.
        assert tokens.compare(here, token) is Order.UNKNOWN
        with pytest.raises(IncomparableTokensError, match="files of server"):
            tokens.wait(there, token, 1)
        several = Token.of("s", GtidSet()) | Token.of("t", GtidSet())
        with pytest.raises(Usage, match="names s, t"):
            tokens.compare(here, several)
        assert tokens.compare(here, several, source="t") is Order.BEFORE


def test_a_change_row_and_a_published_interval(pair):
    primary, _ = pair
    with primary.connect() as session:
        insert(session)
        [place] = tokens.own(session).positions
        sid, spans = next(iter(place.position.items()))
        row = {"_source": "shop", "_gtid": f"{sid}:{spans[-1][1]}", "_committed_at": 5}
        change = tokens.of_change(row)
        assert change.compare(tokens.include(session, source="shop")) is Order.BEFORE
        assert tokens.of_executed("shop", str(place.position)).compare(change) is Order.AFTER
        with pytest.raises(Usage, match="no GTID"):
            tokens.of_change({"_binlog_file": "binlog.000001", "_binlog_pos": 4})


def test_what_follows_the_text_of_an_ok_packet():
    state = b"\x00*\x03(\x00&3e11fa47-71ca-11e1-9e33-c80aa9429562:8"
    assert gtids_of(state) == "3e11fa47-71ca-11e1-9e33-c80aa9429562:8"
    assert gtids_of(b"\x00\x04\x05\x02\x01\x31") is None
    for end in range(len(state)):
        assert gtids_of(state[:end]) is None
