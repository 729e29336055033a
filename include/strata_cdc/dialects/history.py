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

from strata_cdc.dialects.trees import aliased, column_of, create_view, is_in, is_insert, name_of
from strata_cdc.dialects.views import BEFORE, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.dialects.engines import Dialect
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


class HistoryWriter(Writer):
    """Writes the view of one table's history for one engine."""

    def __init__(self, dialect: Dialect, history: HistorySource) -> None:
        super().__init__(dialect, history.view)
        self._history = history

    def history(self, view: exp.Table) -> str:
        """Returns the view with one row for each version of a row that a transaction left."""
        return create_view(view, self.query(), self._dialect)

    def query(self) -> exp.Select:
        """Returns the query of the history, without a view's name."""
        parts = [*self._changes_and_base(), *self._guards(self._columns())]
        # A table that never had a row has neither changes nor files.
        events = aliased(self._union(parts or [self._nothing(self._columns())]), "events")
        numbered = aliased(self._numbered(), "numbered")
        spans = aliased(self._spans(), "spans")
        shown = [self._shown(at) for at, _ in enumerate(self._source.columns)]
        outer = exp.select(*shown, *self._validity()).from_("spans").where(_is_put(), self._lasts())
        outer.set("with_", exp.With(expressions=[events, numbered, spans]))
        return outer

    # Events -------------------------------------------------------------------------------------

    def _changes_and_base(self) -> Iterable[exp.Select]:
        if self._history.base is not None:
            yield self._base(self._history.base)
        for branch in self._source.branches:
            inside = exp.and_(is_in("_schema_version", branch.versions), *self._bounds())
            is_put = exp.NEQ(this=column_of("_op"), expression=exp.Literal.string("delete"))
            is_taken = exp.NEQ(this=column_of("_op"), expression=exp.Literal.string("insert"))
            puts = self._put if self._history.has_key else self._put_whole
            takes = self._taken if self._history.has_key else self._taken_whole
            for values, which in ((puts(branch), is_put), (takes(branch), is_taken)):
                # `_put` and `_taken` begin with `put`, `seq` and `row`.
                event = [*values[:3], *self._happened(), *values[3:]]
                yield exp.select(*event).from_(self._relation(branch.relation)).where(inside.copy(), which)

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
            if column.is_key:
                selected.append(exp.alias_(self._known(place, column), f"k{at}", quoted=True))
            if column.is_key and column.has_texts:
                selected.append(exp.alias_(self._text(place, column), f"t{at}", quoted=True))
            selected.append(exp.alias_(self._placed(place, column), f"v{at}", quoted=True))
        return exp.select(*selected).from_(self._relation(base.relation))

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

    def _columns(self) -> list[tuple[str, pa.DataType]]:
        event_columns = self._event_columns()
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

    def _numbered(self) -> exp.Select:
        number: exp.Expr = exp.Literal.number(0)
        if not self._history.has_key:
            number = self._along(exp.RowNumber(), ("segment", "put", *self._names("v")), ("seq", "row"))
        return exp.select("*", exp.alias_(number, "number", quoted=True)).from_("events")

    def _spans(self) -> exp.Select:
        if self._history.has_key:
            key: tuple[str, ...] = ("segment", *self._names("k"), *self._names("t"))
            order: tuple[str, ...] = ("seq", "row", "put")
        else:
            key, order = ("segment", "number", *self._names("v")), ("taken",)
        kept = [exp.Column(this=name_of(name)) for name in ("put", "segment", "since", "gtid", "time")]
        values = [self._filled(name, key, order) for name in self._names("v")]
        ends = [
            exp.alias_(
                self._along(exp.Lead(this=exp.Column(this=name_of(name))), key, order), f"to_{name}", quoted=True
            )
            for name, _, _ in _WHEN
        ]
        return exp.select(*kept, *values, *ends).from_("numbered")

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

    def _names(self, letter: str) -> list[str]:
        def is_there(column: ViewColumn) -> bool:
            return letter == "v" or (column.is_key and (letter == "k" or column.has_texts))

        return [f"{letter}{at}" for at, column in enumerate(self._source.columns) if is_there(column)]

    # What is shown ------------------------------------------------------------------------------

    def _shown(self, at: int) -> exp.Expr:
        column = self._source.columns[at]
        if self._history.has_key:
            opened = self._opened(at)
            opened.set("alias", name_of(column.published))
            return opened
        return exp.alias_(exp.Column(this=name_of(f"v{at}")), column.published, quoted=True)

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
