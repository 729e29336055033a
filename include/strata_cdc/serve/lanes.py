"""What a table comes from, drawn along the time of its versions: the names that it had, the copies that replaced it,
and the statements that moved rows by partitions.
Not here: its versions (`table_page.py`), drawing (`pictures.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.schema.history.partition_changes import newest_partition_changes
from strata_cdc.schema.history.versions import EVERY_TABLE
from strata_cdc.serve.pictures import Band, bands, marks
from strata_cdc.serve.rendering import query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from markupsafe import Markup

    from strata_cdc.schema.answers.changes import ShownChange
    from strata_cdc.schema.history.partition_changes import PlacedChange
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.serve.pictures import Period

    DrawBand = Callable[[ShownChange], Band]

_LEAST_NAMES: Final = 2
"""Fewer are no history of names."""
_TITLE: Final = 120


class Lane(Struct, frozen=True):
    """One name along the time, or what happened to partitions."""

    name: TableName | None
    """None: the partitions."""
    note: str
    """What it is beside a name that the table had; empty for those."""
    picture: Markup


class TableAncestry(Struct, frozen=True):
    """What a table comes from."""

    lanes: tuple[Lane, ...]
    """Names in the order in which the table had them first, then copies, then partitions; empty if it always had one
    name and there are none of the others."""
    partitions: tuple[PlacedChange, ...]
    """Statements that name partitions, the newest first."""


def lineage_of(
    store: SchemaStore, source: str, timeline: Sequence[ShownChange], span: Period, draw: DrawBand
) -> TableAncestry:
    """What a table comes from.

    Args:
        timeline: The changes of the table under all its names, in stream order.
        span: What the pictures show.
        draw: The band of a change.
    """
    names = list(dict.fromkeys(change.entry.name for change in timeline if change.entry.name != EVERY_TABLE))
    lanes = [_lane_of_name(name, timeline, span, draw) for name in names] if len(names) >= _LEAST_NAMES else []
    copies = list(_copies(store, source, timeline, span))
    placed = [
        newest_partition_change
        for newest_partition_change in newest_partition_changes(store.engine, source, names)
        if _is_of(newest_partition_change, timeline)
    ]
    if copies and not lanes:
        lanes = [_lane_of_name(name, timeline, span, draw) for name in names]
    if placed:
        copies.append(_lane_of_partitions(placed, span))
    return TableAncestry((*lanes, *copies), tuple(placed))


def _lane_of_name(name: TableName, timeline: Sequence[ShownChange], span: Period, draw: DrawBand) -> Lane:
    lane: list[Band] = []
    for change in timeline:
        if change.entry.name in {name, EVERY_TABLE}:
            lane.append(draw(change))
        elif lane and lane[-1].kind != "moved":
            lane.append(Band(change.entry.committed_at, "moved", f"{change.entry.name} from here on"))
    return Lane(name, "", bands(lane, span))


def _copies(store: SchemaStore, source: str, timeline: Sequence[ShownChange], span: Period) -> Iterator[Lane]:
    """The copies that tools filled and swapped in, each until it replaced the table."""
    for change in timeline:
        if change.online is None:
            continue
        copy, swap = change.online.copy, change.entry
        drawn = [
            Band(
                entry.committed_at,
                "copy",
                f"{copy} is filled beside {swap.name}",
                query(source=source, database=copy.database, table=copy.table),
            )
            for entry in store.timeline(source, {copy})
            if (entry.version_id, copy) in change.online.parts and entry.version_id != swap.version_id
        ]
        drawn.append(Band(swap.committed_at, "moved", f"it is {swap.name} from here on"))
        yield Lane(copy, f"{change.online.tool}: became {swap.name}", bands(drawn, span))


def _is_of(placed: PlacedChange, timeline: Sequence[ShownChange]) -> bool:
    """Whether the table had that name then: another table may have it before, or since."""
    reached = [change.entry for change in timeline if change.entry.seq <= placed.change.seq]
    return bool(reached) and reached[-1].name == placed.change.name


def _lane_of_partitions(placed: Sequence[PlacedChange], span: Period) -> Lane:
    drawn = [
        Band(
            change.interval[0] if change.interval else span.end,
            "partition",
            change.change.statement[:_TITLE],
            "#partitions",
        )
        for change in reversed(placed)
    ]
    return Lane(None, "", marks(drawn, span))
