"""The view of a table's history: each version of each row with the time range in which it was valid, as sqlglot's
trees.
Not here: the changes and rows of which it is made (`mirrors/histories/`).

An event puts a row under a key, or removes it. The next event under the same key ends the version that was put. In a
table without a key, the key is the whole row, and its number among equal rows: the n-th row that was put is the n-th
row that is removed. Rows are equal if their columns are equal here. Values that no column holds are not compared: a DDL
may have changed them (a zero date that was NULL), and no reader can see from them which of the rows was removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from msgspec import Struct
from sqlglot import exp

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.made_values import with_lookups
from strata_cdc.dialects.trees import aliased, column_of, create_view, equal, is_in, is_insert, name_of, type_text
from strata_cdc.dialects.view_source import OF_NO_STAGE
from strata_cdc.dialects.views import BEFORE, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.dialects.view_source import Branch, ColumnSource, ViewColumn, ViewSource

_UTC: Final = pa.timestamp("us", tz="UTC")
_WHEN: Final = (("gtid", "_gtid", pa.string()), ("time", "_committed_at", _UTC), ("seq", "_seq", pa.int64()))
"""The columns with the time of a change: the name in events, the name in change tables, and the type."""
VALIDITY: Final = tuple(
    (f"_valid_{side}{ending}", kind)
    for ending, kind in (("", _UTC), ("_gtid", pa.string()), ("_seq", pa.int64()))
    for side in ("from", "to")
)
"""The columns that a history has in addition to the table's own, with their types."""


class Emptied(Struct, frozen=True):
    """A transaction that removed all rows without naming them."""

    seq: int
    gtid: str | None
    committed_at: int | None
    """Microseconds UTC."""


class HistorySource(Struct, frozen=True):
    """The data of which the view of a history is made."""

    view: ViewSource
    has_key: bool
    base: Branch | None
    """The rows at the begin of the history; None if there were no rows. The branch's versions are not used."""
    after: int
    """Ordinal of the transaction after which the history begins."""
    until: int
    """Ordinal of the transaction that the mirror had reached when the view was made."""
    mirror: exp.Expr | None
    """The mirror, as the engine reads it: it shows how far it has come since. None: the history ends at `until`."""
    emptied: tuple[Emptied, ...]
    """In order, those after the ordinal `after`."""
    stages_begin: tuple[int, ...] = ()
    """For each stage but the first, the ordinal of the transaction that begins it."""


class HistoryWriter(Writer):
    """Writes the view of one table's history for one engine."""

    def __init__(self, dialect: Dialect, history: HistorySource) -> None:
        super().__init__(dialect, history.view)
        self._history = history

    def history(self, view: exp.Table) -> str:
        """Returns the view with one row for each version of a row that a transaction left."""
        return create_view(view, self.query(), self._dialect)

    def query(self) -> exp.Expr:
        """Returns the query of the history, without a view's name."""
        stages = range(self._source.stages)
        queries = [query for stage in stages for query in self._stage(stage)]
        shown = [exp.select(*map(self._version, self._places_shown()), *self._validity()) for _ in stages]
        every = [
            one.from_(f"spans_{stage}").where(_is_put(), self._lasts(), *self._ended(stage))
            for stage, one in zip(stages, shown, strict=True)
        ]
        outer = self._union(every)
        outer.set("with_", exp.With(expressions=[*self._mappings(), *queries]))
        return outer

    def _stage(self, stage: int) -> list[exp.CTE]:
        """The queries of a stage; the last one has its versions of rows."""
        begun = [self._left(stage - 1, self._carried(stage))] if stage else []
        guards = self._guards(self._columns(stage)) if stage == self._source.stages - 1 else []
        # A table that never had a row has neither changes nor files.
        parts = [*begun, *self._changes_and_base(stage), *guards] or [self._nothing(self._columns(stage))]
        spans = aliased(self._spans(stage), f"spans_{stage}")
        if stage < self._source.stages - 1 and self._dialect is Dialect.DUCKDB:
            # They are read twice, which doubles with each stage.
            spans.set("materialized", True)  # noqa: FBT003  sqlglot's word for MATERIALIZED
        return [
            aliased(self._union(parts), f"events_{stage}"),
            aliased(self._numbered(stage), f"numbered_{stage}"),
            spans,
        ]

    # From one stage to the next -----------------------------------------------------------------

    def _is_left(self, stage: int) -> exp.Expr:
        """Whether a version is that of a row which was there when the stage ended."""
        begins = self._history.stages_begin[stage]
        emptied = sum(one.seq <= begins for one in self._history.emptied)
        is_last = exp.Is(this=exp.Column(this=name_of("to_seq")), expression=exp.null())
        return exp.and_(is_last, equal("segment", emptied))

    def _ended(self, stage: int) -> list[exp.Expr]:
        """The condition for versions that ended in the stage; those that did not go on in the next one."""
        return [exp.not_(exp.paren(self._is_left(stage)))] if stage < self._source.stages - 1 else []

    def _left(self, stage: int, selected: Sequence[exp.Expr]) -> exp.Select:
        return exp.select(*selected).from_(f"spans_{stage}").where(_is_put(), self._is_left(stage))

    def _carried(self, stage: int) -> list[exp.Expr]:
        carried = super()._carried(stage)
        return [*carried[:3], *map(column_of, ("since", "gtid", "time", "segment")), *carried[3:]]

    def _carried_value(self, at: int, stage: int) -> exp.Expr:
        """The value that is shown of a version that goes on: for a column of the key, only if the ALTER between the
        stages left it as it is shown."""
        column, value = self._source.columns[at], column_of(f"v{at}")
        if column.stage != OF_NO_STAGE:
            return value
        form = self._form_of(at, stage)
        shown, after = (exp.Dot(this=column_of(f"v{one}"), expression=name_of("v")) for one in (at, form))
        why = exp.Dot(this=value.copy(), expression=name_of("u"))
        changed = self._not_known("the log does not tell what became of a key that an ALTER changed", column)
        stays = exp.or_(
            exp.not_(exp.Is(this=why, expression=exp.null())),
            exp.NullSafeEQ(this=shown, expression=self._tried(after, column.kind)),
        )
        return exp.alias_(exp.Case(ifs=[exp.If(this=stays, true=value)], default=changed), f"v{at}", quoted=True)

    def _form_of(self, at: int, stage: int) -> int:
        """The column that distinguishes the rows of a stage, for a column of the key that is shown."""
        shown = [one for one, column in enumerate(self._source.columns) if column.stage == OF_NO_STAGE]
        forms = [one for one, column in enumerate(self._source.columns) if self._is_key(column, stage)]
        return forms[shown.index(at)]

    def _tried(self, value: exp.Expr, kind: pa.DataType) -> exp.Expr:
        built = exp.DataType.build(type_text(self._dialect, kind), dialect=self._dialect.value)
        return exp.TryCast(this=value, to=built, safe=True)

    # Events -------------------------------------------------------------------------------------

    def _changes_and_base(self, stage: int) -> Iterable[exp.Select]:
        if stage == 0 and self._history.base is not None:
            yield self._base(self._history.base)
        for branch in [branch for branch in self._source.branches if branch.stage == stage]:
            inside = exp.and_(is_in("_schema_version", branch.versions), *self._bounds())
            is_put = exp.NEQ(this=column_of("_op"), expression=exp.Literal.string("delete"))
            is_taken = exp.NEQ(this=column_of("_op"), expression=exp.Literal.string("insert"))
            puts = self._put if self._history.has_key else self._put_whole
            takes = self._taken if self._history.has_key else self._taken_whole
            put, taken = self._relations(branch)
            for values, relation, which in ((puts(branch), put, is_put), (takes(branch), taken, is_taken)):
                # `_put` and `_taken` begin with `put`, `seq` and `row`.
                event = [*values[:3], *self._happened(), *values[3:]]
                yield exp.select(*event).from_(relation).where(inside.copy(), which)

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
        newest = exp.select(exp.Max(this=column_of("_seq"))).from_(self._history.mirror.copy())
        return exp.Greatest(this=until, expressions=[exp.Coalesce(this=newest.subquery(), expressions=[until.copy()])])

    def _happened(self) -> list[exp.Expr]:
        own = [exp.alias_(column_of(there), name, quoted=True) for name, there, _ in _WHEN if name != "seq"]
        return [exp.alias_(column_of("_seq"), "since", quoted=True), *own, self._segment(column_of("_seq"))]

    def _segment(self, seq: exp.Expr) -> exp.Expr:
        """How often the table had been emptied before a transaction."""
        found = [
            exp.If(
                this=exp.LT(this=seq.copy(), expression=exp.Literal.number(emptied.seq)), true=exp.Literal.number(at)
            )
            for at, emptied in enumerate(self._history.emptied)
        ]
        last = exp.Literal.number(len(found))
        return exp.alias_(exp.Case(ifs=found, default=last) if found else last, "segment", quoted=True)

    def _base(self, base: Branch) -> exp.Select:
        """The rows at the begin: it is not known since when they have had these values."""
        nothing = [exp.alias_(self._typed(exp.null(), kind), name, quoted=True) for name, kind in _happening()]
        selected = [
            exp.alias_(exp.Literal.number(1), "put", quoted=True),
            exp.alias_(exp.Literal.number(self._history.after), "seq", quoted=True),
            exp.alias_(exp.Literal.number(-1), "row", quoted=True),
            *nothing,
            exp.alias_(exp.Literal.number(0), "segment", quoted=True),
        ]
        for at, (column, place) in enumerate(self._pairs(base)):
            if not self._history.has_key:
                selected.append(exp.alias_(self._known(place, column), f"v{at}", quoted=True))
                continue
            if self._is_key(column, base.stage):
                selected.append(exp.alias_(self._known(place, column), f"k{at}", quoted=True))
            if column.has_texts and column.is_key and column.stage >= base.stage:
                name = "t" if column.stage == base.stage else "x"
                selected.append(exp.alias_(self._text(place, column), f"{name}{at}", quoted=True))
            if self._has_value(column, base.stage):
                selected.append(exp.alias_(self._placed(place, column), f"v{at}", quoted=True))
        rows = with_lookups(self._relation(base.relation), self._lookups(list(self._pairs(base))), self._dialect)
        return exp.select(*selected).from_(rows)

    def _put_whole(self, branch: Branch) -> list[exp.Expr]:
        """The image after a change, in a table without a key; values that it lacks are in the image before the
        change."""
        selected = [exp.alias_(exp.Literal.number(1), "put", quoted=True), *_order()]
        for at, (column, place) in enumerate(self._pairs(branch)):
            given = self._known(self._lacking(place), column)
            is_missing = self._lists("_missing", place.missing)
            found = exp.Case(
                ifs=[
                    exp.If(this=exp.and_(is_missing, is_insert()), true=given),
                    exp.If(this=is_missing.copy(), true=self._value(place, column, BEFORE)),
                    *self._differences(place, column),
                ],
                default=self._known(place, column),
            )
            selected.append(exp.alias_(found, f"v{at}", quoted=True))
        return selected

    def _differences(self, place: ColumnSource, column: ViewColumn) -> list[exp.If]:
        if not column.is_document:
            return []
        partial = exp.Literal.string(f"{column.name}: the log has only what changed in the document")
        return [exp.If(this=self._has_key("_invalid", place.missing), true=self._fails(partial, column))]

    def _taken_whole(self, branch: Branch) -> list[exp.Expr]:
        selected = [exp.alias_(exp.Literal.number(0), "put", quoted=True), *_order()]
        for at, (column, place) in enumerate(self._pairs(branch)):
            selected.append(exp.alias_(self._old(place, column), f"v{at}", quoted=True))
        return selected

    def _pairs(self, branch: Branch) -> Iterable[tuple[ViewColumn, ColumnSource]]:
        return zip(self._source.columns, branch.places, strict=True)

    def _columns(self, stage: int) -> list[tuple[str, pa.DataType]]:
        event_columns = self._event_columns(stage)
        if not self._history.has_key:
            event_columns = [
                *event_columns[:3],
                *((f"v{at}", column.kind) for at, column in enumerate(self._source.columns)),
            ]
        return [*event_columns[:3], *_happening(), ("segment", pa.int32()), *event_columns[3:]]

    def _is_known(self, versions: Sequence[int]) -> exp.Expr:
        is_later = exp.GT(this=column_of("_seq"), expression=self._reached())
        return exp.or_(super()._is_known(versions), is_later)

    # Spans --------------------------------------------------------------------------------------

    def _numbered(self, stage: int) -> exp.Select:
        number: exp.Expr = exp.Literal.number(0)
        if not self._history.has_key:
            number = self._along(exp.RowNumber(), ("segment", "put", *self._value_names(stage)), ("seq", "row"))
        return exp.select("*", exp.alias_(number, "number", quoted=True)).from_(f"events_{stage}")

    def _spans(self, stage: int) -> exp.Select:
        values = self._value_names(stage)
        if self._history.has_key:
            key: tuple[str, ...] = ("segment", *(one.name for one in self._key_names(stage)))
            order: tuple[str, ...] = ("seq", "row", "put")
        else:
            key, order = ("segment", "number", *values), ("taken",)
        kept = [*self._passed_on(stage), *map(column_of, ("segment", "since", "gtid", "time"))]
        ends = [
            exp.alias_(
                self._along(exp.Lead(this=exp.Column(this=name_of(name))), key, order), f"to_{name}", quoted=True
            )
            for name, _, _ in _WHEN
        ]
        filled = [self._filled(name, key, order) for name in values]
        return exp.select(*kept, *filled, *ends).from_(f"numbered_{stage}")

    def _filled(self, name: str, key: tuple[str, ...], order: tuple[str, ...]) -> exp.Expr:
        """The value, from an earlier image if this one lacks it."""
        value = exp.Column(this=name_of(name))
        if not self._history.has_key:
            return value
        return exp.alias_(self._along(exp.IgnoreNulls(this=exp.LastValue(this=value)), key, order), name, quoted=True)

    def _along(self, function: exp.Expr, key: tuple[str, ...], order: tuple[str, ...]) -> exp.Window:
        return exp.Window(
            this=function,
            partition_by=[exp.Column(this=name_of(name)) for name in key],
            order=exp.Order(
                expressions=[
                    # Of a put and a removal with the same number, the put came first.
                    exp.Ordered(
                        this=exp.Column(this=name_of("put" if name == "taken" else name)),
                        desc=name == "taken",
                        nulls_first=False,
                    )
                    for name in order
                ]
            ),
        )

    # What is shown ------------------------------------------------------------------------------

    def _version(self, at: int) -> exp.Expr:
        value = self._told(at) if self._history.has_key else exp.Column(this=name_of(f"v{at}"))
        return exp.alias_(value, self._source.columns[at].published, quoted=True)

    def _validity(self) -> list[exp.Expr]:
        made = {"_seq": ("since", "seq"), "_gtid": ("gtid", "gtid"), "": ("time", "time")}
        validity = []
        for name, kind in VALIDITY:
            since, what = made[name.removeprefix("_valid_from").removeprefix("_valid_to")]
            value = exp.Column(this=name_of(since)) if name.startswith("_valid_from") else self._end(what, kind)
            validity.append(exp.alias_(value, name, quoted=True))
        return validity

    def _end(self, what: str, kind: pa.DataType) -> exp.Expr:
        """When the next version followed, or when the version ended because the table was emptied."""
        next_ = exp.Column(this=name_of(f"to_{what}"))
        if not self._history.emptied:
            return next_
        texts = {"seq": lambda one: one.seq, "gtid": lambda one: one.gtid, "time": lambda one: one.committed_at}
        ends = [
            exp.If(
                this=exp.EQ(this=exp.Column(this=name_of("segment")), expression=exp.Literal.number(at)),
                true=self._constant(texts[what](emptied), kind),
            )
            for at, emptied in enumerate(self._history.emptied)
        ]
        is_followed = exp.Not(this=exp.Is(this=exp.Column(this=name_of("to_seq")), expression=exp.null()))
        return exp.Case(ifs=[exp.If(this=is_followed, true=next_), *ends])

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
        return exp.or_(is_older, is_left, ends_later)


def _happening() -> list[tuple[str, pa.DataType]]:
    return [("since", pa.int64()), ("gtid", pa.string()), ("time", _UTC)]


def _order() -> list[exp.Expr]:
    return [exp.alias_(column_of("_seq"), "seq", quoted=True), exp.alias_(column_of("_row"), "row", quoted=True)]


def _is_put() -> exp.Expr:
    return exp.EQ(this=exp.Column(this=name_of("put")), expression=exp.Literal.number(1))
