"""How far DDL has been reported to others: one row for each source.
Not here: reporting it (`tracking/watch/watch_ddl.py`, `tracking/watch/notify_versions.py`)."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from strata_cdc.store.database import Ledger, upsert, writing
from strata_cdc.store.tables import notified_position


class NotifiedLedger(Ledger):
    """The two marks of a source; each is written by one process at a time."""

    def watched(self, source: str) -> str | None:
        """The GTID set up to which the server's stream was watched; None if it never was."""
        executed = self._get(source, notified_position.c.gtid_executed)
        return None if executed is None else str(executed)

    def put_watched(self, source: str, executed: str) -> None:
        """Stores this GTID set."""
        self._put(source, {"gtid_executed": executed})

    def version(self, source: str) -> int:
        """The newest schema version whose event is known to be sent; 0 if none is."""
        return int(self._get(source, notified_position.c.version_id) or 0)

    def put_version(self, source: str, version: int) -> None:
        """Stores this version."""
        self._put(source, {"version_id": version})

    def _get(self, source: str, column: sa.Column[Any]) -> Any:
        return self._value(sa.select(column).where(notified_position.c.source == source))

    def _put(self, source: str, values: dict[str, str | int]) -> None:
        with writing(self._engine) as connection:
            upsert(connection, notified_position, {"source": source}, values)
