"""Who ran a statement, as far as a real server's binlog tells: the session and the server, and no account."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from strata_cdc.schema.answers.changes import changes
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import Session
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.tracking.track_schema import track_files
from tests.schema.streams import Stream, track

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

TABLE = TableName("sessions", "t")


@pytest.mark.mysql
def test_a_version_knows_the_session_that_made_it(mysql_server: MysqlServer, tmp_path: Path):
    mysql_server.run_sql("DROP DATABASE IF EXISTS sessions; FLUSH BINARY LOGS")
    threads = []
    for statement in (
        "CREATE DATABASE sessions",
        "CREATE TABLE sessions.t (a INT)",
        "ALTER TABLE sessions.t ADD b INT",
        "CREATE TABLE sessions.other (a INT)",
        "RENAME TABLE sessions.other TO sessions.same",
        "DROP TABLE sessions.same",
        "CREATE DEFINER = CURRENT_USER VIEW sessions.v AS SELECT 1 AS a",
    ):
        with mysql_server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT CONNECTION_ID(), @@server_id")
            threads.append(cursor.fetchone())
            cursor.execute(statement)
    binlog = str(mysql_server.binlogs()[-1])
    mysql_server.run_sql("FLUSH BINARY LOGS; DROP DATABASE sessions")
    store = SchemaStore(open_store(f"sqlite:///{tmp_path}/store.db"))
    track_files([binlog], store.engine, "s")
    found = [change for change in changes(store, "s", TABLE) if change.entry.is_statement]
    assert [change.session for change in found] == [
        Session(server_id, thread_id, None) for thread_id, server_id in threads[1:3]
    ]
    lines = [msgspec.json.decode(msgspec.json.encode(change.line())) for change in found]
    assert [line["session"] for line in lines] == [
        {"server_id": server_id, "thread_id": thread_id} for thread_id, server_id in threads[1:3]
    ]
    # The account is there where the server needs one to name a definer.
    sessions = store.sessions(range(1, store.newest_version("s") + 1))
    *others, last = (sessions[version] for version in sorted(sessions))
    thread_id, server_id = threads[-1]
    assert last == Session(server_id, thread_id, "root@localhost")
    assert {one.thread_id for one in others} >= {thread_id for thread_id, _ in threads[:-1]}
    assert {one.invoker for one in others} == {None}


def test_what_nobody_noted_is_not_said(tmp_path: Path):
    store = SchemaStore(open_store(f"sqlite:///{tmp_path}/store.db"))
    track(store, Stream(), "CREATE DATABASE d", "CREATE TABLE t (a INT)")
    (change,) = (one for one in changes(store, "s", TableName("d", "t")) if one.entry.is_statement)
    assert change.session is None
    assert "session" not in msgspec.json.decode(msgspec.json.encode(change.line()))
    assert msgspec.json.encode(Session(1, None)) == b'{"server_id":1}'
