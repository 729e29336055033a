"""What a session may have done before it takes a token, by lot: what is read behind it is never older than the token,
and never what nobody committed. The server is the judge. Not here: what tokens of queries are (`test_queries.py`)."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING

import pymysql
import pytest

from strata_cdc import tokens
from strata_cdc.errors import Usage
from tests.seeds import seeds

if TYPE_CHECKING:
    from strata_cdc.position.token import Token
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
STATEMENTS = (
    "BEGIN",
    "START TRANSACTION READ ONLY",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "COMMIT",
    "ROLLBACK",
    "SET autocommit = 0",
    "SET autocommit = 1",
    *["SELECT n FROM d.r WHERE id = 1"] * 4,
    "SELECT 1",
    "XA START 'x'",
    "XA END 'x'",
    "XA ROLLBACK 'x'",
    *(f"SET TRANSACTION ISOLATION LEVEL {level}" for level in LEVELS),
    *(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}" for level in LEVELS),
)
NOT_COMMITTED = -1


@pytest.fixture(scope="module")
def server(server: MysqlServer) -> MysqlServer:
    # A session at SERIALIZABLE waits for the one that has not committed.
    server.run_sql("CREATE DATABASE d; CREATE TABLE d.r (id INT PRIMARY KEY, n INT); INSERT INTO d.r VALUES (1, 0)")
    server.run_sql("SET GLOBAL innodb_lock_wait_timeout = 1")
    return server


def run(session: pymysql.Connection, statement: str) -> object:
    with session.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()


def token_behind(session: pymysql.Connection, writer: pymysql.Connection, statement: str) -> Token | None:
    """The session's token behind a write of another one; None if it is refused."""
    with suppress(pymysql.OperationalError):
        # If the session has read the row at SERIALIZABLE, nobody else writes it.
        run(writer, statement)
        with suppress(Usage):
            return tokens.include(session)
    return None


@pytest.mark.parametrize("seed", seeds(4))
def test_what_is_read_behind_a_token_is_no_older(server: MysqlServer, seed: int):
    drawn, given = random.Random(seed), 0
    with server.connect() as writer, server.connect() as undecided:
        undecided.begin()
        for number in range(1, 41):
            session = server.connect()
            done = []
            for _ in range(drawn.randint(0, 5)):
                done.append(drawn.choice(STATEMENTS))
                try:
                    run(session, done[-1])
                except pymysql.MySQLError as error:
                    done[-1] += f" ({error.args[0]})"
            run(undecided, "ROLLBACK")
            token = token_behind(session, writer, f"UPDATE d.r SET n = {number} WHERE id = 1")
            if token is None:
                session.close()
                continue
            given += 1
            run(undecided, "BEGIN")
            run(undecided, f"UPDATE d.r SET n = {NOT_COMMITTED} WHERE id = 1")
            try:
                found = run(session, "SELECT n FROM d.r WHERE id = 1")
            except pymysql.MySQLError:
                # At SERIALIZABLE it waits for who has not committed.
                found = None
            assert found in (None, (number,)), done
            assert tokens.compare(writer, token).value in ("before", "equal"), done
            session.close()
        undecided.rollback()
    # A refusal of everything would be right, too.
    assert given > 10
