"""Which statements of DDL on a table are taken back, and what the table is while its rows are changed.

Statements that lost values are chosen as changes of rows are; others only by name (`--gtid`), since a later version of
an application needs its new columns whatever happened to the rows.
Not here: one statement (`inverse_ddl.py`), statements that removed all rows or partitions (`table_survey.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import Usage
from strata_cdc.past.timeline import TableEvent
from strata_cdc.past.undo.columns import holds_all, is_settable
from strata_cdc.past.undo.inverse_ddl import InverseDdl, inverse_ddl
from strata_cdc.past.undo.steps import Direction, SkippedError
from strata_cdc.position.ordinals import AFTER_ALL
from strata_cdc.schema.model.row_effects import EffectKind, RowEffect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.past.timeline import ChangeSpan, TablePart, TableTimeline
    from strata_cdc.past.undo.choice import Choice
    from strata_cdc.schema.model.definition import TableName

_IN_UTC: Final = RowEffect(kind=EffectKind.CONVERT, time_zone="+00:00")
"""What the ALTER TABLE of a script does to values: its session has this time zone."""


class RefusedDdl(Struct, frozen=True):
    """A chosen statement that is not taken back."""

    event: TableEvent
    reason: str


class SchemaUndo(Struct, frozen=True):
    """What becomes of the statements on one table."""

    before: ChangeSpan | None = None
    """The table as it is now; None if there is none."""
    now: ChangeSpan | None = None
    """The table while rows are changed."""
    inverses: tuple[InverseDdl, ...] = ()
    """The last statement first."""
    refused: tuple[RefusedDdl, ...] = ()
    left: tuple[TableEvent, ...] = ()
    """Statements within the chosen times that lost nothing, and that are not named."""

    @property
    def events(self) -> tuple[TableEvent, ...]:
        """The chosen statements."""
        return (*(inverse.event for inverse in self.inverses), *(refused.event for refused in self.refused))

    @property
    def last_name(self) -> TableName | None:
        """What the table is called at the end; None if it is gone then."""
        if self.now is None or any(inverse.drops_table for inverse in self.inverses):
            return None
        names = [inverse.rename_to for inverse in self.inverses if inverse.rename_to is not None]
        return names[-1] if names else self.now.name

    def restoring(self, event: TableEvent) -> InverseDdl | None:
        """What takes a statement back, if it lost values."""
        return next((inverse for inverse in self.inverses if inverse.event == event and inverse.restored), None)

    def parts_for(self, span: ChangeSpan, parts: tuple[TablePart, ...]) -> tuple[TablePart, ...]:
        """The timeline as values of a range meet it: without what is taken back, and with what takes it back if the
        range is later."""
        undone = [inverse.event for inverse in self.inverses]
        if not undone:
            return parts
        left = [part for part in parts if part not in undone]
        back = [
            replace(event, seq=AFTER_ALL + at, before=event.after, after=event.before, effect=_IN_UTC)
            for at, event in enumerate(undone)
            if event.seq <= span.until
        ]
        return (*left, *back)


def in_order_of_names(schemas: Iterable[SchemaUndo]) -> list[SchemaUndo]:
    """The tables that go or get another name at the end, in an order in which each name is given up before another
    table gets it.

    Raises:
        Usage: There is no such order.
    """
    names = {schema.now.name: schema for schema in schemas if schema.now is not None}
    moving = {name: schema for name, schema in names.items() if schema.last_name != name}
    ordered: list[SchemaUndo] = []
    while moving:
        name = next((name for name, schema in moving.items() if schema.last_name not in names), None)
        if name is None:
            name, schema = next(iter(moving.items()))
            raise Usage(
                f"{name} cannot be called {schema.last_name} again: that is the name of another table now",
                remedy="Rename the tables as they should be; then choose the other changes, without this RENAME TABLE.",
            )
        del names[name]
        ordered.append(moving.pop(name))
    return ordered


def schema_undo(
    timeline: TableTimeline,
    now: ChangeSpan | None,
    choice: Choice,
    direction: Direction,
    removals: list[TableEvent],
    refused: tuple[RefusedDdl, ...] = (),
) -> SchemaUndo:
    """Chooses statements, and finds out what takes them back.

    Args:
        timeline: Everything that happened to the table.
        now: The table as it is now, or as it is made again.
        choice: Which changes.
        direction: No statement is made again.
        removals: The chosen statements that removed rows.
        refused: Chosen statements that are known not to be taken back.
    """
    if now is None or direction is Direction.REDO or choice.is_of_rows:
        return SchemaUndo(now, now)
    chosen = [part for part in timeline.parts if isinstance(part, TableEvent) and _is_chosen(part, choice)]
    chosen = [event for event in chosen if event not in removals]
    left = tuple(event for event in chosen if choice.gtids is None and choice.statement is None and not _loses(event))
    at, name = now, now.name
    inverses: list[InverseDdl] = []
    reasons = [*refused]
    kept = [*left, *(ddl.event for ddl in refused)]
    for event in reversed([event for event in chosen if event not in kept]):
        try:
            inverse = inverse_ddl(event, at, name)
        except SkippedError as error:
            reasons.append(RefusedDdl(event, str(error)))
            continue
        inverses.append(inverse)
        at, name = inverse.now, inverse.rename_to or name
    return SchemaUndo(now, at, tuple(inverses), tuple(reasons), left)


def _is_chosen(event: TableEvent, choice: Choice) -> bool:
    return (
        event.is_statement
        and event.after is not None
        and choice.has_statement(event.statement)
        and choice.has_transaction(event.gtid, event.committed_at)
    )


def _loses(event: TableEvent) -> bool:
    """Whether values of rows are not as they were after a statement."""
    if event.before is None or event.after is None:
        return False
    after = event.after.columns_by_id
    return any(
        is_settable(column) and (number not in after or not holds_all(column, after[number]))
        for number, column in zip(event.before.ids, event.before.definition.columns, strict=True)
    )
