"""What a table's mirror has to do because of the table's events, as a plan that can be printed.
Not here: doing it (`follow_steps.py`), what happened (`schema_events.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.mirrors.follow.schema_events import EventOrder, SchemaEvent
    from strata_cdc.schema.model.definition import TableName


class FollowAction(StrEnum):
    """What is done with the rows of a mirror."""

    LOSE = "rows are not known any more"
    """No log shows what happened to the rows."""
    FORGET = "the table is not known any more"
    DROP = "the table is gone"
    BEGIN = "rows begin anew"
    """The statement made the table, or the table has no rows after it, or only those that the statement adds."""
    TAKE_OVER = "rows of another name"
    """The table had this other name before, and the mirror of that name has its rows."""
    ALTER = "alter"
    """The effect of the statement is applied to the existing rows."""
    EMPTY = "all rows go"
    REARRANGE = "rows of partitions go, or change places"


class FollowStep(Struct, frozen=True):
    """One event, and what is done about it once all changes before it are applied."""

    event: SchemaEvent
    action: FollowAction

    @property
    def text(self) -> str:
        """The step in one line, for people."""
        change, removal = self.event.change, self.event.removal
        effect = removal if change is None else change.effect
        parts = [f"changes up to {self.event.before:,}", str(self.action)]
        if change is not None and change.renamed_from is not None and self.action is FollowAction.TAKE_OVER:
            parts.append(f"from {change.renamed_from}")
        if effect is not None and self.action in {FollowAction.ALTER, FollowAction.REARRANGE}:
            parts.append(effect.text or str(effect.kind))
        reason = self.event.lost if change is None else change.gap
        return "; ".join([*parts, *([reason] if reason else [])])


def plan_follow(table: TableName, coming: Iterable[SchemaEvent], until: EventOrder | None = None) -> list[FollowStep]:
    """The steps of a mirror from its position on.

    Args:
        table: Its table.
        coming: What happened to the table since, in order.
        until: Only events before this order have steps; None: all events have.
    """
    return [FollowStep(event, _action(table, event)) for event in coming if until is None or event.order < until]


def _action(table: TableName, event: SchemaEvent) -> FollowAction:
    change = event.change
    if change is None:
        if event.removal is None:
            return FollowAction.LOSE
        return FollowAction.EMPTY if event.removal.held is None else FollowAction.REARRANGE
    if change.definition is None:
        return FollowAction.DROP if change.gap is None else FollowAction.FORGET
    if event.begins_rows:
        return FollowAction.BEGIN
    is_moved = change.renamed_from is not None and change.renamed_from != table
    return FollowAction.TAKE_OVER if is_moved else FollowAction.ALTER
