"""A MariaDB server that keeps its binlog in its storage engine (12.3) is refused before anything is requested of it."""

from __future__ import annotations

from typing import Any, Self

import pytest

from strata_cdc.binlog.protocol.replication import ServerState
from strata_cdc.errors import SourceSettingsError

ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    "SELECT @@GLOBAL.server_uid": [("uid", 1, "12.3.2-MariaDB-log", 1, "0-1-5", 1.0)],
    "SHOW GLOBAL VARIABLES": [("binlog_expire_logs_seconds", "0"), ("binlog_storage_engine", "innodb")],
}
"""What such a server answers, by the beginning of the query; BINLOG_GTID_POS is an error there."""


class ScriptedConnection:
    """A connection, and its cursors."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []

    def get_server_info(self) -> str:
        return "12.3.2-MariaDB-log"

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, query: str, _: object = None) -> None:
        [self._rows] = [rows for begin, rows in ANSWERS.items() if query.startswith(begin)]

    def fetchone(self) -> tuple[Any, ...]:
        return self._rows[0]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


def test_a_binlog_in_the_storage_engine_is_refused_by_name() -> None:
    with pytest.raises(SourceSettingsError, match="binlog_storage_engine is innodb") as refused:
        ServerState.read(ScriptedConnection())  # type: ignore[arg-type]
    assert "my.cnf" in refused.value.remedy
