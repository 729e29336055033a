"""How Airflow's processes share one SQLite file: what the option `sql_alchemy_connect_args` names.
Not here: the environment that names it (`services.py`), the file itself (`local_airflow.py`)."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event

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
