"""How Airflow's processes share one SQLite file: what the option `sql_alchemy_connect_args` names.
Not here: the environment that names it (`services.py`), the file itself (`local_airflow.py`)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event, orm

CONNECT_ARGS: Final[dict[str, Any]] = {"timeout": 60}
"""Seconds that a writer waits for another; Python's default of 5 is too short on a busy machine."""


@event.listens_for(sa.Engine, "savepoint")
def _write_from_the_start(connection: sa.Connection, _name: str) -> None:
    """SQLite treats a savepoint outside of a transaction as the begin of a transaction that reads. If another process
    writes before it does, its first write cannot wait and fails at once (SQLITE_BUSY_SNAPSHOT,
    sqlite.org/rescode.html): `airflow backfill create` beside a scheduler."""
    held = connection.connection.driver_connection
    if connection.dialect.name == "sqlite" and held is not None and not held.in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


_BESIDE_THE_LOOP: Final = ThreadPoolExecutor(1, thread_name_prefix="audit-log")
"""Its thread starts with the first row."""


@event.listens_for(orm.Session, "before_flush")
def _log_beside_the_loop(session: orm.Session, _context: orm.UOWTransaction, _objects: object) -> None:
    """The API server writes its audit log in its event loop (airflow/api_fastapi/logging/decorators.py of 3.3.2), which
    then waits for the file. If the file is locked by another request of the same server, whose commit needs the loop,
    both wait for the whole timeout, and the audited call ends with status 500. So a thread writes these rows."""
    if _is_in_event_loop() and session.get_bind().dialect.name == "sqlite":
        rows = [row for row in session.new if row.__tablename__ == "log"]
        for row in rows:
            session.expunge(row)
        if rows:
            _BESIDE_THE_LOOP.submit(_add, session.get_bind(), rows)


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _add(engine: sa.Engine | sa.Connection, rows: list[Any]) -> None:
    with orm.Session(engine) as session:
        session.add_all(rows)
        session.commit()
