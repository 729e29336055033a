"""What people have decided on rows that were withheld: to publish them as they are, or to do without them.
Not here: carrying it out (`pipeline/quarantine/`), the states (`table_intervals.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict, replace

from strata_cdc.store.database import reading, writing
from strata_cdc.store.table_intervals import IntervalState, same_piece, store_piece
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
    """Of the interval, microseconds UTC."""
    database_name: str
    table_name: str
    run: str
    verb: Verb
    because: str
    decided_by: str
    decided_at: int
    """Microseconds UTC."""
    rows: int
    """That it is about: those which nobody had published."""
    done_at: int | None = None
    """None: it was begun and not carried out; doing it again completes it."""


class DecisionLedger:
    """All decisions of a source; those that were carried out are never changed."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def begin(self, decision: Decision) -> None:
        """Notes what somebody is about to do."""
        with writing(self._engine) as connection:
            _put(connection, decision)

    def settle(self, decision: Decision, before: TableInterval, after: TableInterval) -> bool:
        """Notes that it is done, with the state that follows, in one transaction.

        Returns:
            False if another run has changed the piece since `before` was read: then nothing is noted of the decision,
            and what a release has committed is owed again, so that the next run puts its rows in the place.
        """
        with writing(self._engine) as connection:
            now = same_piece(connection, before)
            if now == before:
                store_piece(connection, after)
                _put(connection, decision)
                return True
            if now is not None and decision.verb is Verb.RELEASE:
                store_piece(connection, replace(now, state=IntervalState.OWED, reason=None))
            return False

    def select(self, source: str, start: int | None = None) -> list[Decision]:
        """All of a source, or of its interval that starts then (microseconds UTC), in order of time."""
        found = quarantine_decision.c
        order = (found.decided_at, found.start_at, found.database_name, found.table_name)
        query = sa.select(*found).where(found.source == source).order_by(*order)
        if start is not None:
            query = query.where(found.start_at == start)
        with reading(self._engine) as connection:
            return [_from_row(row) for row in connection.execute(query)]

    def is_decided(self, piece: TableInterval) -> bool:
        """Whether a piece is as a decision on its run has left it."""
        if (
            piece.state not in {IntervalState.PUBLISHED, IntervalState.DISCARDED, IntervalState.HELD}
            or piece.run is None
        ):
            return False
        found = quarantine_decision.c
        key = (found.source == piece.source) & (found.start_at == piece.start) & (found.run == piece.run)
        key &= (found.database_name == piece.database) & (found.table_name == piece.table)
        with reading(self._engine) as connection:
            return connection.execute(sa.select(found.run).where(key & found.done_at.is_not(None))).first() is not None


_KEY = ("source", "start_at", "database_name", "table_name", "run", "verb")


def _put(connection: sa.Connection, decision: Decision) -> None:
    values: dict[str, Any] = {**asdict(decision), "verb": str(decision.verb)}
    found = quarantine_decision
    same = sa.and_(*(found.c[name] == values[name] for name in _KEY))
    if connection.execute(sa.select(found.c.run).where(same).with_for_update()).first() is None:
        connection.execute(found.insert().values(values))
    else:
        connection.execute(found.update().where(same).values(values))


def _from_row(row: sa.Row[Any]) -> Decision:
    found = dict(zip(Decision.__struct_fields__, tuple(row), strict=True))
    return Decision(**{**found, "verb": Verb(found["verb"])})
