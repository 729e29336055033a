"""What steps hand to each other: small frozen values that go through XCom and JSON files.
Not here: the steps themselves; anything heavy (Airflow parses what it imports)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct, field

from strata.values import to_plain

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_micros(time: datetime) -> int:
    """Microseconds since 1970 UTC; exact.

    Raises:
        ValueError: The time has no zone.
    """
    if time.tzinfo is None:
        raise ValueError(f"{time} has no time zone")
    return (time - _EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """The inverse of `to_micros`."""
    return _EPOCH + timedelta(microseconds=micros)


class Span(Struct, frozen=True, order=True):
    """A half-open span [start, end) of commit time, microseconds UTC."""

    start: int
    end: int

    @property
    def key(self) -> str:
        """The span as it stands in paths: `20261121T033000.000000Z-20261121T033500.000000Z`."""
        return f"{moment_key(self.start)}-{moment_key(self.end)}"

    def __str__(self) -> str:
        return f"[{from_micros(self.start):%Y-%m-%d %H:%M:%S.%f}, {from_micros(self.end):%Y-%m-%d %H:%M:%S.%f}) UTC"


def moment_key(micros: int) -> str:
    """A time as it stands in paths; sorts as text in the order of time."""
    return f"{from_micros(micros):%Y%m%dT%H%M%S.%f}Z"


class Interval(Struct, frozen=True):
    """A span that owns transactions: those with first_seq < seq <= last_seq."""

    start: int
    end: int
    first_seq: int
    """Ordinal of the last transaction before the interval."""
    last_seq: int
    gtid_executed: str
    """What the stream had executed at the interval's end."""


class Refused(Struct, frozen=True):
    """Rows of a table that cannot be decoded, and why."""

    table: str
    rows: int
    error: dict[str, str | int]


class RowsRemoved(Struct, frozen=True):
    """Rows of a table that a DDL removed, so that no change tells of it."""

    interval: int
    """Start of the interval that owns it (microseconds UTC)."""
    table: str
    gtid: str | None
    statement: str


class RunPlan(Struct, frozen=True):
    """What one run decodes, checks and publishes: `plan.json` in its run folder."""

    source: str
    run: str
    lake: str
    intervals: tuple[Interval, ...]
    slices: tuple[dict[str, Any], ...]
    """`rows.plan.Slice` as JSON, each with the `interval_start` that owns it."""
    expected_rows: dict[str, dict[str, int]]
    """Rows in the events' own counts: interval start -> table -> rows."""
    refused: tuple[Refused, ...] = ()
    definitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Version id -> {database, table, definition} of every schema version that the slices need."""
    removed: tuple[RowsRemoved, ...] = ()
    executed_before: str = ""
    """What the stream had executed before the first interval."""
    breaks: dict[str, str] = field(default_factory=dict)
    """Where the binlog of transactions without a GTID does not go on where the one before ends: start of the interval
    -> FILE:OFFSET."""

    def to_json(self) -> str:
        """The plan as text."""
        return json.dumps(to_plain(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> RunPlan:
        """Reads what `to_json` wrote."""
        found = json.loads(text)
        found["intervals"] = tuple(Interval(**interval) for interval in found["intervals"])
        found["slices"] = tuple(found["slices"])
        found["refused"] = tuple(Refused(**refused) for refused in found["refused"])
        found["removed"] = tuple(RowsRemoved(**removed) for removed in found.get("removed", ()))
        return cls(**found)


class PlanReport(Struct, frozen=True):
    """What planning found, small enough for XCom."""

    source: str
    run: str
    run_url: str
    intervals: int
    slices: int
    rows: int
    refused: int
    """Rows whose schema is not known."""
    left_alone: int
    """Intervals that reach out of the requested span, and were not done again."""
