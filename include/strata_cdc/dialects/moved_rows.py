"""The view of the present rows of a table in which rows may get another key: the image after such a change may lack
columns (MINIMAL), whose values are those that the row had under its old key.
Not here: views of changes, rows whose images never lack the rest of a row (`views.py`).

Each event belongs to a row, which begins with an INSERT. If a row gets another key, the change has two events: the row
is removed from the old key, and put under the new key. The query follows these back, so that every event has the change
with which its row began. Values that an image lacks are in the last earlier image of the same row that has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from sqlglot import exp

from strata_cdc.dialects.trees import (
    aliased,
    along,
    and_,
    column_of,
    equal,
    is_insert,
    last_of,
    name_of,
    named,
    not_,
    or_,
    paren,
    select,
)
from strata_cdc.dialects.views import ViewWriter

if TYPE_CHECKING:
    from strata_cdc.dialects.view_source import Branch, ViewColumn

_CHANGE: Final = ("seq", "row")
"""The columns that identify a change."""


class RowsWriter(ViewWriter):
    """Writes the view of the rows; it follows them through changes of their keys if the source asks for it."""

    def _follows(self, stage: int) -> bool:
        """Whether rows are followed in a stage: without a key, all images have the whole row, and a sequence has one
        row."""
        has_key = stage not in self._source.without_key | self._source.of_one_row
        return stage in self._source.follows and has_key

    def _stage(self, stage: int) -> list[exp.CTE]:
        if not self._follows(stage):
            return super()._stage(stage)
        filled = select(*self._passed_on(), column_of("newest"), *self._fillings(stage)).from_(
            f"owned_{stage}", copy=False
        )
        events = aliased(self._all_events(stage), f"events_{stage}")
        return [events, *self._origins(stage), aliased(filled, f"ranked_{stage}")]

    # Events -------------------------------------------------------------------------------------

    def _put(self, branch: Branch) -> list[exp.Expr]:
        if not self._follows(branch.stage):
            return super()._put(branch)
        begins = or_(is_insert(), not_(paren(self._stays(branch))))
        return [*super()._put(branch), edge(begins)]

    def _removed(self, branch: Branch) -> list[exp.Expr]:
        if not self._follows(branch.stage):
            return super()._removed(branch)
        is_update = exp.EQ(this=column_of("_op"), expression=exp.Literal.string("update"))
        return [*super()._removed(branch), edge(and_(is_update, not_(paren(self._stays(branch)))))]

    def _carried(self, stage: int) -> list[exp.Expr]:
        return [*super()._carried(stage), *([edge(exp.true())] if self._follows(stage) else [])]

    def _event_columns(self, stage: int = 0) -> list[tuple[str, pa.DataType]]:
        return [*super()._event_columns(stage), *([("edge", pa.int32())] if self._follows(stage) else [])]

    def _moved(self, column: ViewColumn, stage: int) -> exp.Expr:
        """NULL: the value is in an earlier image, under the old key."""
        return exp.null() if self._follows(stage) else super()._moved(column, stage)

    # The rows that they belong to ---------------------------------------------------------------

    def _origins(self, stage: int) -> list[exp.CTE]:
        """The queries up to `owned`: all events, with the change with which their row began (`origin`), as far as the
        log has it."""
        change = exp.Struct(
            expressions=[exp.PropertyEQ(this=name_of(name), expression=column_of(name)) for name in _CHANGE]
        )
        start = exp.Case(ifs=[exp.If(this=and_(equal("put", 1), equal("edge", 1)), true=change)])
        begun = select(
            "*",
            named(self._over(last_of(start), stage), "start"),
            named(self._over(exp.RowNumber(), stage, newest_first=True), "newest"),
        ).from_(f"events_{stage}", copy=False)
        is_known = not_(exp.Is(this=column_of("start"), expression=exp.null()))
        moves = and_(equal("put", 0), equal("edge", 1), is_known)
        its_names = list(map(name_of, (*_CHANGE, "earlier")))
        moved = exp.CTE(
            this=exp.Union(this=_first_moves(stage), expression=_further_moves(stage), distinct=False),
            alias=exp.TableAlias(this=exp.to_identifier(f"moved_{stage}"), columns=its_names),
        )
        earliest = named(exp.Min(this=column_of("earlier")), "earliest")
        firsts = (
            select(*map(column_of, _CHANGE), earliest)
            .from_(f"moved_{stage}", copy=False)
            .group_by(*map(column_of, _CHANGE), copy=False)
        )
        starts = (
            select(*map(column_of, (*_CHANGE, "start"))).from_(f"begun_{stage}", copy=False).where(moves, copy=False)
        )
        return [
            aliased(begun, f"begun_{stage}"),
            aliased(starts, f"moves_{stage}"),
            moved,
            aliased(firsts, f"firsts_{stage}"),
            aliased(self._owned(stage), f"owned_{stage}"),
        ]

    def _owned(self, stage: int) -> exp.Select:
        origin = exp.Coalesce(this=column_of("earliest"), expressions=[column_of("start")])
        every = [exp.column(name_of(name), "begun") for name, _ in self._event_columns(stage)]
        firsts = exp.alias_(exp.to_table(f"firsts_{stage}"), "firsts", table=True)
        return (
            select(*every, column_of("newest"), named(origin, "origin"))
            .from_(f"begun_{stage} AS begun", copy=False)
            .join(firsts, on=_is_change("start", "begun", "firsts"), join_type="left", copy=False)
        )

    def _fillings(self, stage: int) -> list[exp.Expr]:
        """Each value after each event; a row that is older than the log is identified by its key until it gets another
        key."""
        if not self._follows(stage):
            return super()._fillings(stage)
        is_older = exp.Is(this=column_of("origin"), expression=exp.null())
        keys = [exp.Case(ifs=[exp.If(this=is_older.copy(), true=key)]) for key in self._identity(stage)]
        return [
            named(
                along(
                    last_of(column_of(name)),
                    [column_of("origin"), *(key.copy() for key in keys)],
                ),
                name,
            )
            for name in self._value_names(stage)
        ]


def _first_moves(stage: int) -> exp.Select:
    """Changes of keys, with the change by which their row began under the old key."""
    return select(*map(column_of, _CHANGE), column_of("start")).from_(f"moves_{stage}", copy=False)


def _further_moves(stage: int) -> exp.Select:
    """The same, followed back over one more change of the key."""
    own = [exp.column(name_of(name), "moved") for name in _CHANGE]
    selected = select(*own, exp.column(name_of("start"), "moves")).from_(f"moved_{stage} AS moved", copy=False)
    return selected.join(
        exp.alias_(exp.to_table(f"moves_{stage}"), "moves", table=True),
        on=_is_change("earlier", "moved", "moves"),
        copy=False,
    )


def _is_change(column: str, inside: str, of: str) -> exp.Expr:
    """Whether a column of one query is the change of a row of another query."""
    return and_(
        *(
            exp.EQ(
                this=exp.Dot(this=exp.column(name_of(column), inside), expression=name_of(name)),
                expression=exp.column(name_of(name), of),
            )
            for name in _CHANGE
        )
    )


def edge(holds: exp.Expr) -> exp.Expr:
    """Returns the column that says whether a row begins under its key with this event, or gets another key after it."""
    numbers = [exp.Literal.number(number) for number in (1, 0)]
    return named(exp.Case(ifs=[exp.If(this=holds, true=numbers[0])], default=numbers[1]), "edge")
