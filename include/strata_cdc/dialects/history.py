"""The view of a table's history: each version of each row with the time range in which it was valid, as sqlglot's
trees.
Not here: the changes and rows of which it is made (`mirrors/histories/`).

An event puts a row under a key, or removes it. The next event under the same key ends the version that was put. As long
as a table has no key, the key is the whole row, and its number among equal rows: the n-th row that was put is the n-th
row that is removed. A version also ends with an ALTER that changed what is shown of the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from msgspec import Struct
from sqlglot import exp

from strata_cdc.dialects.made_values import with_lookups
from strata_cdc.dialects.moved_rows import RowsWriter, edge
from strata_cdc.dialects.trees import (
    aliased,
    along,
    and_,
    column_of,
    create_view,
    equal,
    is_in,
    name_of,
    named,
    not_,
    or_,
    paren,
    select,
    tried,
)
from strata_cdc.dialects.views import NO_IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.dialects.engines import Dialect
    from strata_cdc.dialects.view_source import Branch, ColumnSource, ViewColumn, ViewSource

    Ranges = tuple[tuple[int | None, int | None], ...]

_UTC: Final = pa.timestamp("us", tz="UTC")
_WHEN: Final = (("gtid", "_gtid", pa.string()), ("time", "_committed_at", _UTC), ("seq", "_seq", pa.int64()))
"""The columns with the time of a change: the name in events, the name in change tables, and the type."""
VALIDITY: Final = tuple(
    (f"_valid_{side}{ending}", kind)
    for ending, kind in (("", _UTC), ("_gtid", pa.string()), ("_seq", pa.int64()))
    for side in ("from", "to")
)
"""The columns that a history has in addition to the table's own, with their types."""
_ENDED: Final = 2
"""In `put`, and in `side`: a version that has ended in an earlier stage, with its values as they are shown."""


class Moment(Struct, frozen=True):
    """A transaction that did something to all rows without naming them."""

    seq: int
    gtid: str | None
    committed_at: int | None
    """Microseconds UTC."""


class HistorySource(Struct, frozen=True):
    """The data of which the view of a history is made."""

    view: ViewSource
    base: Branch | None
    """The rows at the begin of the history; None if there were no rows. The branch's versions are not used."""
    after: int
    """Ordinal of the transaction after which the history begins."""
    until: int
    """Ordinal of the transaction that the mirror had reached when the view was made."""
    mirror: exp.Expr | None
    """The mirror, as the engine reads it: it shows how far it has come since. None: the history ends at `until`."""
    emptied: tuple[Moment, ...]
    """When all rows were removed; in order, those after the ordinal `after`."""
    stages_begin: tuple[Moment, ...] = ()
    """For each stage but the first, when it begins."""
    keys: tuple[tuple[int, Ranges], ...] = ()
    """Columns of the key, by their numbers in the view, and the values of the wanted rows: those of other rows may be
    skipped."""


class HistoryWriter(RowsWriter):
    """Writes the view of one table's history for one engine."""

    def __init__(self, dialect: Dialect, history: HistorySource) -> None:
        super().__init__(dialect, history.view)
        self._history = history

    def history(self, view: exp.Table) -> str:
        """Returns the view with one row for each version of a row that a transaction left."""
        return create_view(view, self.query(), self._dialect)

    def query(self) -> exp.Expr:
        """Returns the query of the history, without a view's name."""
        last = self._source.stages - 1
        queries = [query for stage in range(last + 1) for query in self._stage(stage)]
        shown = [named(self._value_after(at), self._source.columns[at].published) for at in self._shown()]
        outer = select(*shown, *self._validity(last)).from_(f"spans_{last}", copy=False)
        outer = outer.where(or_(self._is_version(), *([equal("put", _ENDED)] if last else [])), copy=False)
        outer.set("with_", self._with([*self._mappings(), *queries]))
        return outer

    def _stage(self, stage: int) -> list[exp.CTE]:
        """The queries of a stage; the last one has its versions of rows."""
        events = aliased(self._all_events(stage), f"events_{stage}")
        if stage in self._source.without_key:
            numbered = aliased(self._numbered(stage), f"numbered_{stage}")
            return [events, numbered, aliased(self._spans_of_equal(stage), f"spans_{stage}")]
        followed = self._origins(stage) if self._follows(stage) else []
        return [events, *followed, aliased(self._spans(stage), f"spans_{stage}")]

    # From one stage to the next -----------------------------------------------------------------

    def _is_left(self, stage: int) -> exp.Expr:
        """Whether a version is that of a row which was there when the stage ended."""
        begins = self._history.stages_begin[stage].seq
        emptied = sum(moment.seq <= begins for moment in self._history.emptied)
        is_last = exp.Is(this=exp.Column(this=name_of("to_seq")), expression=exp.null())
        return and_(is_last, equal("segment", emptied))

    def _left(self, stage: int, selected: Sequence[exp.Expr]) -> exp.Select:
        """A query of the rows that are there at the end of a stage, and of the versions that have ended by then."""
        sides = exp.Union(
            this=select(named(exp.Literal.number(1), "side")),
            expression=select(named(exp.Literal.number(_ENDED), "side")),
            distinct=False,
        ).subquery("sides", copy=False)
        is_row = and_(equal("side", 1), equal("put", 1), self._is_left(stage))
        stays = and_(self._is_left(stage), not_(paren(self._changes_after(stage))))
        has_ended = or_(equal("put", _ENDED), and_(self._is_version(), not_(paren(stays))))
        # One query of both: two would compute a stage twice, and those before it four times, eight times and so on.
        rows = select(*selected).from_(f"spans_{stage}", copy=False).join(sides, join_type="cross", copy=False)
        return rows.where(or_(is_row, and_(equal("side", _ENDED), has_ended)), copy=False)

    def _carried(self, stage: int) -> list[exp.Expr]:
        carried = {expression.alias_or_name: expression.unalias() for expression in super()._carried(stage)}
        begins = self._history.stages_begin[stage - 1]
        is_row, changes = equal("side", 1), and_(equal("side", 1), self._changes_after(stage - 1))
        for (name, kind), then in zip(_begin_columns(), (begins.seq, begins.gtid, begins.committed_at), strict=True):
            carried[name] = _either(changes, self._constant(then, kind), column_of(name))
        # Versions that have ended are in no segment, and nothing comes after them.
        apart = exp.Sub(this=exp.Literal.number(-1), expression=column_of("seq"))
        carried |= {"put": column_of("side"), "segment": _either(is_row, column_of("segment"), apart)}
        for what, _, kind in _WHEN:
            end = self._end(stage - 1, what, kind)
            carried[f"ended_{what}"] = _either(is_row, self._typed(exp.null(), kind), end)
        for at in self._shown():
            is_shown = or_(is_row.copy(), equal("put", _ENDED))
            carried[f"v{at}"] = _either(is_shown, column_of(f"v{at}"), self._as_shown(at, stage - 1))
        columns = self._event_columns(stage)
        for name, kind in columns:
            if name[0] in "kt" and name[1:].isdigit():
                carried[name] = _either(is_row, carried[name], self._typed(exp.null(), kind))
        return [named(carried[name], name) for name, _ in columns]

    def _changes_after(self, stage: int) -> exp.Expr:
        """Whether the ALTER after a stage changed what is shown of a row: then another version begins."""
        differences: list[exp.Expr] = [exp.false()]
        for at in self._shown():
            if self._form(at, stage) != self._form(at, stage + 1):
                before, after = (self._as_shown(at, at_stage) for at_stage in (stage, stage + 1))
                differences.append(not_(paren(exp.NullSafeEQ(this=before, expression=after))))
        return or_(*differences)

    def _form(self, at: int, stage: int) -> int:
        """The column with what is shown of a column of the view in a stage: how it was at the end of that stage, or of
        the first later one after which an ALTER may have changed it."""
        later = [
            (column.stage, form)
            for form, column in enumerate(self._source.columns)
            if column.of == at and column.stage >= stage
        ]
        return min(later)[1] if later else at

    def _as_shown(self, at: int, stage: int) -> exp.Expr:
        """A struct of the value that is shown of a column in a stage, or of the reason why it cannot be shown."""
        form, column = self._form(at, stage), self._source.columns[at]
        then, value, why = self._source.columns[form], self._part(form, "v"), self._part(form, "u")
        lacks = self._not_known(NO_IMAGE, column)
        is_lacking = exp.Is(this=column_of(f"v{form}"), expression=exp.null())
        if then.unlike is not None:
            unlike = self._not_known(f"the log does not tell {then.unlike}", column)
            is_exact: exp.Expr = exp.Is(this=value, expression=exp.null())
            shown: exp.Expr = exp.null()
            if then.is_castable:
                shown = tried(value, column.kind, self._dialect)
                again = exp.NullSafeEQ(this=tried(shown.copy(), then.kind, self._dialect), expression=value.copy())
                is_exact = or_(is_exact, again)
            marked = _either(is_exact, self._struct(column, v=shown, u=why), unlike)
        else:
            marked = self._struct(column, v=self._typed(value, column.kind), u=why)
        return _either(is_lacking, lacks, marked)

    # Events -------------------------------------------------------------------------------------

    def _events(self, stage: int = 0) -> Iterable[exp.Select]:
        if stage == 0 and self._history.base is not None:
            yield self._base(self._history.base)
        for branch in [branch for branch in self._source.branches if branch.stage == stage]:
            inside = and_(is_in("_schema_version", branch.versions), *self._bounds())
            put, removed = self._relations(branch)
            events = (
                (self._put(branch), put, self._is_put(branch)),
                (self._removed(branch), removed, self._is_removed(branch)),
            )
            for values, relation, which in events:
                # `_put` and `_removed` begin with `put`, `seq` and `row`.
                event = [*values[:3], *self._happened(), *self._nulls(self._ended()), *values[3:]]
                yield select(*event).from_(relation, copy=False).where(inside.copy(), which, copy=False)

    def _with_mappings(self) -> Iterable[Branch]:
        return (*super()._with_mappings(), *([] if self._history.base is None else [self._history.base]))

    def _bounds(self) -> list[exp.Expr]:
        return [
            exp.GT(this=column_of("_seq"), expression=exp.Literal.number(self._history.after)),
            exp.LTE(this=column_of("_seq"), expression=self._reached()),
        ]

    def _reached(self) -> exp.Expr:
        """The ordinal that the mirror has reached: that of its last change. Everything before it is in the mirror,
        too."""
        until = exp.Literal.number(self._history.until)
        if self._history.mirror is None:
            return until
        newest = select(exp.Max(this=column_of("_seq"))).from_(self._history.mirror.copy(), copy=False)
        return exp.Greatest(
            this=until, expressions=[exp.Coalesce(this=newest.subquery(copy=False), expressions=[until.copy()])]
        )

    def _happened(self) -> list[exp.Expr]:
        own = [named(column_of(there), name) for name, there, _ in _WHEN if name != "seq"]
        return [named(column_of("_seq"), "since"), *own, self._segment(column_of("_seq"))]

    def _segment(self, seq: exp.Expr) -> exp.Expr:
        """How often the table had been emptied before a transaction."""
        cases = [
            exp.If(
                this=exp.LT(this=seq.copy(), expression=exp.Literal.number(emptied.seq)), true=exp.Literal.number(at)
            )
            for at, emptied in enumerate(self._history.emptied)
        ]
        last = exp.Literal.number(len(cases))
        return named(exp.Case(ifs=cases, default=last) if cases else last, "segment")

    def _base(self, base: Branch) -> exp.Select:
        """The rows at the begin: it is not known since when they have had these values."""
        selected = [
            named(exp.Literal.number(1), "put"),
            named(exp.Literal.number(self._history.after), "seq"),
            named(self._number_of_base(base), "row"),
            *self._nulls(_begin_columns()),
            named(exp.Literal.number(0), "segment"),
            *self._nulls(self._ended()),
        ]
        for at, (column, column_source) in enumerate(self._pairs(base)):
            if self._is_key(column, base.stage):
                selected.append(named(self._known(column_source, column), f"k{at}"))
            if self._is_key(column, base.stage) and column.has_texts:
                selected.append(named(self._text(column_source, column), f"t{at}"))
            if self._has_value(column, base.stage):
                selected.append(named(self._placed(column_source, column), f"v{at}"))
        if self._follows(base.stage):
            selected.append(edge(exp.true()))
        rows = with_lookups(self._relation(base.relation), self._lookups(list(self._pairs(base))), self._dialect)
        return select(*selected).from_(rows, copy=False)

    def _number_of_base(self, base: Branch) -> exp.Expr:
        """A number below those of changes; a different one for each row if rows are followed."""
        if not self._follows(base.stage):
            return exp.Literal.number(-1)
        keys = [
            self._known(column_source, column)
            for column, column_source in self._pairs(base)
            if self._is_key(column, base.stage)
        ]
        order = exp.Order(expressions=[exp.Ordered(this=key, desc=False, nulls_first=False) for key in keys])
        return exp.Neg(this=exp.Window(this=exp.RowNumber(), order=order))

    def _pairs(self, branch: Branch) -> Iterable[tuple[ViewColumn, ColumnSource]]:
        return zip(self._source.columns, branch.column_sources, strict=True)

    def _event_columns(self, stage: int = 0) -> list[tuple[str, pa.DataType]]:
        event_columns = super()._event_columns(stage)
        return [*event_columns[:3], *_begin_columns(), ("segment", pa.int64()), *self._ended(), *event_columns[3:]]

    def _ended(self) -> list[tuple[str, pa.DataType]]:
        """The columns with the ends of versions that have ended in an earlier stage."""
        return [(f"ended_{name}", kind) for name, _, kind in _WHEN] if self._source.stages > 1 else []

    def _is_known(self, versions: Sequence[int]) -> exp.Expr:
        is_later = exp.GT(this=column_of("_seq"), expression=self._reached())
        return or_(super()._is_known(versions), is_later)

    # Spans --------------------------------------------------------------------------------------

    def _identity(self, stage: int) -> list[exp.Expr]:
        return [column_of("segment"), *self._key_names(stage)]

    def _passed_on(self) -> list[exp.Expr]:
        return [*super()._passed_on(), *map(column_of, ("segment", "since", "gtid", "time"))]

    def _spans(self, stage: int) -> exp.Select:
        """The next event under a key ends a version."""
        ends = [self._to(name, self._over(exp.Lead(this=column_of(name)), stage)) for name, _, _ in _WHEN]
        events = f"owned_{stage}" if self._follows(stage) else f"events_{stage}"
        spans = select(*self._passed_on(), *self._fillings(stage), *ends).from_(events, copy=False)
        return spans.where(*self._wanted_keys(stage), copy=False)

    def _wanted_keys(self, stage: int) -> list[exp.Expr]:
        """Conditions for the events under the wanted keys. Where rows have values of the rows of other keys, or other
        keys later, all events are needed."""
        if self._source.stages > 1 or self._follows(stage):
            return []
        return [
            or_(*(_between(column_of(f"k{at}"), low, high) for low, high in ranges))
            for at, ranges in self._history.keys
        ]

    def _fillings(self, stage: int) -> list[exp.Expr]:
        fillings = super()._fillings(stage)
        if self._source.stages == 1:
            return fillings
        # A version that has ended keeps its values: several of them may come from one change.
        ended = equal("put", _ENDED)
        return [
            named(_either(ended, column_of(filling.alias), filling.unalias()), filling.alias) for filling in fillings
        ]

    def _numbered(self, stage: int) -> exp.Select:
        """The events of a stage without a key, with their numbers among those with equal rows."""
        number = along(exp.RowNumber(), [*self._identity(stage), column_of("put")])
        return select("*", named(number, "number")).from_(f"events_{stage}", copy=False)

    def _spans_of_equal(self, stage: int) -> exp.Select:
        """The n-th removal ends the n-th of equal rows."""
        put_first = exp.Order(expressions=[exp.Ordered(this=column_of("put"), desc=True, nulls_first=False)])
        ends = []
        for name, _, _ in _WHEN:
            pair = [*self._identity(stage), column_of("number")]
            lead = exp.Window(this=exp.Lead(this=column_of(name)), partition_by=pair, order=put_first.copy())
            ends.append(self._to(name, lead))
        values = map(column_of, self._value_names(stage))
        return select(*self._passed_on(), *values, *ends).from_(f"numbered_{stage}", copy=False)

    def _to(self, name: str, following: exp.Expr) -> exp.Expr:
        """A column with the end of each version."""
        ended = equal("put", _ENDED)
        end = _either(ended, column_of(f"ended_{name}"), following) if self._source.stages > 1 else following
        return named(end, f"to_{name}")

    # What is shown ------------------------------------------------------------------------------

    def _is_version(self) -> exp.Expr:
        """Whether it is a version that could be seen."""
        return and_(equal("put", 1), self._lasts())

    def _validity(self, stage: int) -> list[exp.Expr]:
        made = {"_seq": ("since", "seq"), "_gtid": ("gtid", "gtid"), "": ("time", "time")}
        validity = []
        for name, kind in VALIDITY:
            since, what = made[name.removeprefix("_valid_from").removeprefix("_valid_to")]
            value = exp.Column(this=name_of(since)) if name.startswith("_valid_from") else self._end(stage, what, kind)
            validity.append(named(value, name))
        return validity

    def _end(self, stage: int, what: str, kind: pa.DataType) -> exp.Expr:
        """When the next version followed, or when the version ended because an ALTER changed it or the table was
        emptied."""
        next_ = exp.Column(this=name_of(f"to_{what}"))
        is_followed = exp.Not(this=exp.Is(this=exp.Column(this=name_of("to_seq")), expression=exp.null()))
        ends = [exp.If(this=is_followed, true=next_)]
        if stage < self._source.stages - 1:
            then = self._history.stages_begin[stage]
            ends.append(exp.If(this=self._is_left(stage), true=self._at(then, what, kind)))
        for at, emptied in enumerate(self._history.emptied):
            ends.append(exp.If(this=equal("segment", at), true=self._at(emptied, what, kind)))
        return exp.Case(ifs=ends) if len(ends) > 1 else next_

    def _at(self, moment: Moment, what: str, kind: pa.DataType) -> exp.Expr:
        texts = {"seq": moment.seq, "gtid": moment.gtid, "time": moment.committed_at}
        return self._constant(texts[what], kind)

    def _constant(self, value: int | str | None, kind: pa.DataType) -> exp.Expr:
        if value is None:
            return self._typed(exp.null(), kind)
        if kind == _UTC:
            text = pa.scalar(value, _UTC).as_py().isoformat(sep=" ")
            return self._typed(exp.Literal.string(text), kind)
        return self._typed(exp.Literal.string(str(value)), kind)

    def _lasts(self) -> exp.Expr:
        """Whether the version could be seen: if the same transaction changes it again, it never could."""
        since = exp.Column(this=name_of("since"))
        is_older = exp.Is(this=since, expression=exp.null())
        is_left = exp.Is(this=exp.Column(this=name_of("to_seq")), expression=exp.null())
        ends_later = exp.LT(this=since.copy(), expression=exp.Column(this=name_of("to_seq")))
        return or_(is_older, is_left, ends_later)


def _begin_columns() -> list[tuple[str, pa.DataType]]:
    return [("since", pa.int64()), ("gtid", pa.string()), ("time", _UTC)]


def _either(holds: exp.Expr, value: exp.Expr, other: exp.Expr) -> exp.Expr:
    """The one value if a condition holds, else the other."""
    return exp.Case(ifs=[exp.If(this=holds.copy(), true=value)], default=other)


def _between(value: exp.Expr, low: int | None, high: int | None) -> exp.Expr:
    """Whether a value is in a range."""
    bounds: list[exp.Expr] = []
    if low is not None:
        bounds.append(exp.GTE(this=value, expression=exp.Literal.number(low)))
    if high is not None:
        bounds.append(exp.LTE(this=value.copy(), expression=exp.Literal.number(high)))
    return and_(*bounds)
