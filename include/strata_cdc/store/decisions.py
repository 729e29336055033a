"""What people have decided on rows that were withheld: to publish them as they are, or to discard them.
Not here: carrying it out (`pipeline/quarantine/`), the states (`table_intervals.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict, replace

from strata_cdc.store.database import Ledger, upsert, writing
from strata_cdc.store.table_intervals import IntervalState, same_table_interval, store_table_interval
from strata_cdc.store.tables import quarantine_decision

if TYPE_CHECKING:
    from strata_cdc.store.table_intervals import TableInterval


class Verb(StrEnum):
    """What was decided."""

    RELEASE = "release"
    DISCARD = "discard"


class Decision(Struct, frozen=True):
    """One decision on one table's part of one interval, as a run left it."""

    source: str
    start_at: int
    """Start of the interval, microseconds UTC."""
    database_name: str
    table_name: str
    run: str
    verb: Verb
    because: str
    decided_by: str
    decided_at: int
    """Microseconds UTC."""
    rows: int
    """Rows that the decision is about: those that were not published."""
    done_at: int | None = None
    """None: the decision was begun and is not carried out; doing it again completes it."""


class DecisionLedger(Ledger):
    """All decisions of a source; those that were carried out are never changed."""

    def begin(self, decision: Decision) -> None:
        """Stores a decision before it is carried out."""
        with writing(self._engine) as connection:
            _put(connection, decision)

    def settle(self, decision: Decision, before: TableInterval, after: TableInterval) -> bool:
        """Stores that it is carried out, with the state that follows, in one transaction.

        Returns:
            False if another run has changed the table's part since `before` was read: then nothing of the decision is
            stored, and what a release has committed is pending again, so that the next run replaces its rows.
        """
        with writing(self._engine) as connection:
            now = same_table_interval(connection, before)
            if now == before:
                store_table_interval(connection, after)
                _put(connection, decision)
                return True
            if now is not None and decision.verb is Verb.RELEASE:
                store_table_interval(connection, replace(now, state=IntervalState.PENDING, reason=None))
            return False

    def select(self, source: str, start: int | None = None) -> list[Decision]:
        """All decisions of a source, or of its interval that starts at a time (microseconds UTC), in order of time."""
        columns = quarantine_decision.c
        order = (columns.decided_at, columns.start_at, columns.database_name, columns.table_name)
        query = sa.select(*columns).where(columns.source == source).order_by(*order)
        if start is not None:
            query = query.where(columns.start_at == start)
        return [_from_row(row) for row in self._rows(query)]

    def is_decided(self, entry: TableInterval) -> bool:
        """Whether a table's part of an interval is still as a decision on its run has left it."""
        if (
            entry.state not in {IntervalState.PUBLISHED, IntervalState.DISCARDED, IntervalState.BLOCKED}
            or entry.run is None
        ):
            return False
        columns = quarantine_decision.c
        key = (columns.source == entry.source) & (columns.start_at == entry.start) & (columns.run == entry.run)
        key &= (columns.database_name == entry.database) & (columns.table_name == entry.table)
        return bool(self._rows(sa.select(columns.run).where(key & columns.done_at.is_not(None))))


_KEY = ("source", "start_at", "database_name", "table_name", "run", "verb")


def _put(connection: sa.Connection, decision: Decision) -> None:
    values: dict[str, Any] = {**asdict(decision), "verb": str(decision.verb)}
    upsert(connection, quarantine_decision, {name: values[name] for name in _KEY}, values)


def _from_row(row: sa.Row[Any]) -> Decision:
    values = dict(zip(Decision.__struct_fields__, tuple(row), strict=True))
    return Decision(**{**values, "verb": Verb(values["verb"])})
