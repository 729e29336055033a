"""Views over change tables for engines that read Delta or Parquet, as sqlglot's trees.
Not here: which rows and columns belong to a table (`views/`), the types of change tables
(`strata_cdc.changes.arrow`)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from msgspec.structs import replace
from sqlglot import exp

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.dialects.conversions import converted
from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.made_values import Lookup, query_of, text_name, text_of_bytes, with_lookups
from strata_cdc.dialects.texts import LONGEST, text_of
from strata_cdc.dialects.trees import (
    aliased,
    along,
    and_,
    column_of,
    create_view,
    equal,
    is_in,
    is_insert,
    is_of_mariadb,
    last_of,
    name_of,
    named,
    not_,
    or_,
    paren,
    select,
    typed,
    union_all,
)
from strata_cdc.dialects.view_source import ColumnSource, ViewColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.dialects.view_source import Branch, MadeValues, RowEnd, ViewSource

BEFORE: Final = "_before"
SHARED: Final = ("_op", "_source", "_gtid", "_seq", "_row", "_committed_at", "_binlog_file", "_binlog_pos")
_CALLS: Final = {
    Dialect.DUCKDB: {"fail": "error", "contains": "list_contains", "has_key": "map_contains"},
    Dialect.SPARK: {"fail": "raise_error", "contains": "array_contains", "has_key": "map_contains_key"},
}


_ONLY_A_MIRROR: Final = "what the server made of this value only a mirror tells (`mirrors` in the settings)"
_NEW_VALUE: Final = f"{_ONLY_A_MIRROR}, or, if it was published later than this view was made, `strata views` run again"
NO_IMAGE: Final = "the log has no image with it"
_ONLY_CHANGES: Final = "the log has only what changed in the document"
_NO_OLD_KEY: Final = (
    "an image before a change lacks this column of the key (TiCDC writes it in CSV with `output-old-value = true`; "
    "the rows of a mirror need no such image)"
)
_NO_OLD_GENERATED: Final = (
    "an image before a change lacks this generated column of the key: MariaDB logs no generated columns of updates"
)
_NEW_ROW: Final = "the row was published later than this view was made: run `strata views` again"


class ViewWriter:
    """Writes the views of one table for one engine. An event puts a row under a key, or removes it."""

    def __init__(self, dialect: Dialect, source: ViewSource) -> None:
        self._dialect = dialect
        self._source = source

    # The two views ------------------------------------------------------------------------------

    def changes(self, view: exp.Table) -> str:
        """Returns the view of every change, with the current columns, and with their old values in `_before`."""
        selects = [self._changes_of(branch) for branch in self._source.branches]
        return create_view(view, union_all([*selects, *self._guards(self._change_columns())]), self._dialect)

    def now(self, view: exp.Table) -> str:
        """Returns the view of the present rows: what was last put under each key, and not removed since."""
        queries = [query for stage in range(self._source.stages) for query in self._stage(stage)]
        outer = self._left(self._source.stages - 1, [self._opened(at) for at in self._shown()])
        outer.set("with_", self._with([*self._mappings(), *queries]))
        return create_view(view, outer, self._dialect)

    def _with(self, queries: list[exp.CTE]) -> exp.With:
        """Some queries, in order, for the one that reads them."""
        for query in queries if self._dialect is Dialect.DUCKDB else ():
            # DuckDB would keep what is read several times, and compute all columns for it, whatever columns are
            # requested: also those whose values are errors.
            query.set("materialized", False)  # noqa: FBT003  sqlglot's word for NOT MATERIALIZED
        return exp.With(expressions=queries, recursive=bool(self._source.follows))

    def _stage(self, stage: int) -> list[exp.CTE]:
        """The queries of a stage; the last one has its events with the values after each of them, and with the number 1
        in `newest` for those that say which rows are there at its end."""
        if stage in self._source.without_key:
            return self._counted(stage)
        newest = named(self._over(exp.RowNumber(), stage, newest_first=True), "newest")
        ranked = select(*self._passed_on(), *self._fillings(stage), newest).from_(f"events_{stage}", copy=False)
        return [aliased(self._all_events(stage), f"events_{stage}"), aliased(ranked, f"ranked_{stage}")]

    def _fillings(self, stage: int) -> list[exp.Expr]:
        """Each value after each event: from an earlier one if the image lacks it."""
        return [named(self._over(last_of(column_of(name)), stage), name) for name in self._value_names(stage)]

    def _counted(self, stage: int) -> list[exp.CTE]:
        """The queries of a stage without a key. Of equal rows, the one that was put last is removed first. So a row is
        there if afterwards there were never fewer equal rows than with it; fewer than none are rows that are older than
        the log."""
        size = exp.Sum(this=exp.Case(ifs=[exp.If(this=equal("put", 1), true=_number(1))], default=_number(-1)))
        sized = select("*", named(self._over(size, stage), "size"))
        least = self._over(exp.Min(this=column_of("size")), stage, newest_first=True)
        is_left = exp.GTE(this=least, expression=column_of("size"))
        newest = exp.Case(ifs=[exp.If(this=is_left, true=_number(1))], default=_number(2))
        left = select(
            *self._passed_on(),
            *map(column_of, self._value_names(stage)),
            named(newest, "newest"),
        )
        return [
            aliased(self._all_events(stage), f"events_{stage}"),
            aliased(sized.from_(f"events_{stage}", copy=False), f"sized_{stage}"),
            aliased(left.from_(f"sized_{stage}", copy=False), f"ranked_{stage}"),
        ]

    def _all_events(self, stage: int) -> exp.Expr:
        """The events of a stage, beginning with the rows that the one before it left."""
        begun = [self._left(stage - 1, self._carried(stage))] if stage else []
        guards = self._guards(self._event_columns(stage)) if stage == self._source.stages - 1 else []
        return union_all([*begun, *self._events(stage), *guards] or [self._nothing(self._event_columns(stage))])

    def _left(self, stage: int, selected: Sequence[exp.Expr]) -> exp.Select:
        """A query of the rows that are there at the end of a stage."""
        rows = select(*selected).from_(f"ranked_{stage}", copy=False)
        return rows.where(equal("newest", 1), copy=False).where(equal("put", 1), copy=False)

    def _carried(self, stage: int) -> list[exp.Expr]:
        """The columns of `_event_columns`, for rows from the stage before: with their keys after the ALTER between the
        two; an error if they are not known."""
        carried = [*map(column_of, ("put", "seq", "row"))]
        for at, column in enumerate(self._source.columns):
            if self._is_key(column, stage):
                carried.append(named(self._value_after(at), f"k{at}"))
            if self._is_key(column, stage) and column.has_texts:
                carried.append(named(self._part(at, "x"), f"t{at}"))
            if self._has_value(column, stage):
                carried.append(column_of(f"v{at}"))
        return carried

    def _over(self, function: exp.Expr, stage: int, *, newest_first: bool = False) -> exp.Window:
        """A window function over the events of a key."""
        return along(function, self._identity(stage), newest_first=newest_first)

    def _identity(self, stage: int) -> list[exp.Expr]:
        """What the events of a row have in common as long as the row keeps its key."""
        return self._key_names(stage)

    # Columns of events --------------------------------------------------------------------------

    @staticmethod
    def _is_key(column: ViewColumn, stage: int) -> bool:
        """Whether the column distinguishes the rows of a stage: as `k`, with what `_invalid` has for it as `t`."""
        return column.is_key and column.stage == stage

    @staticmethod
    def _has_value(column: ViewColumn, stage: int) -> bool:
        """Whether the events of a stage have the value, or why it is not known, as `v`: it is shown, or is needed in a
        later stage."""
        return column.is_shown or column.stage > stage or (column.of is not None and column.stage == stage)

    def _shown(self) -> list[int]:
        return [at for at, column in enumerate(self._source.columns) if column.is_shown]

    def _key_names(self, stage: int) -> list[exp.Expr]:
        """The columns that distinguish rows. Without a key, 0 and -0 are different, which only their texts tell."""
        names: list[exp.Expr] = []
        for at, column in enumerate(self._source.columns):
            if self._is_key(column, stage):
                by_text = stage in self._source.without_key and _has_zeros(column.kind)
                key = column_of(f"k{at}")
                names.append(self._typed(key, pa.string()) if by_text else key)
                names += [column_of(f"t{at}")] if column.has_texts else []
        return names

    def _value_names(self, stage: int) -> list[str]:
        return [f"v{at}" for at, column in enumerate(self._source.columns) if self._has_value(column, stage)]

    def _passed_on(self) -> list[exp.Expr]:
        """The columns of events, but for their values and keys."""
        return [column_of(name) for name in ("put", "seq", "row")]

    # Rows of the log ----------------------------------------------------------------------------

    def _changes_of(self, branch: Branch) -> exp.Select:
        is_delete = exp.EQ(this=column_of("_op"), expression=exp.Literal.string("delete"))
        selected = []
        for column, column_source in zip(self._source.columns, branch.column_sources, strict=True):
            expression = self._then(column_source, column)
            if column.is_key:
                old = self._then(column_source, column, BEFORE)
                expression = exp.Case(ifs=[exp.If(this=is_delete.copy(), true=old)], default=expression)
            selected.append(named(expression, column.published))
        images = exp.Struct(
            expressions=[
                exp.PropertyEQ(this=name_of(column.published), expression=self._then(column_source, column, BEFORE))
                for column, column_source in zip(self._source.columns, branch.column_sources, strict=True)
            ]
        )
        has_image = exp.Not(this=exp.Is(this=column_of(BEFORE), expression=exp.null()))
        selected.append(named(exp.Case(ifs=[exp.If(this=has_image, true=images)]), BEFORE))
        selected += [column_of(name) for name in (*SHARED, "_schema_version", "_missing", "_invalid")]
        return (
            select(*selected)
            .from_(self._relation(branch.relation), copy=False)
            .where(is_in("_schema_version", branch.versions), copy=False)
        )

    def _events(self, stage: int = 0) -> Iterable[exp.Select]:
        """The queries of the events of a stage: rows that are put under a key, and rows that are removed."""
        for branch in [branch for branch in self._source.branches if branch.stage == stage]:
            is_left = exp.GT(this=column_of("_seq"), expression=exp.Literal.number(self._source.removed_until))
            own = and_(is_in("_schema_version", branch.versions), is_left)
            put, removed = self._relations(branch)
            yield select(*self._put(branch)).from_(put, copy=False).where(own, self._is_put(branch), copy=False)
            yield (
                select(*self._removed(branch))
                .from_(removed, copy=False)
                .where(own.copy(), self._is_removed(branch), copy=False)
            )

    def _is_put(self, branch: Branch) -> exp.Expr:
        """Whether a change puts a row."""
        has_image = exp.NEQ(this=column_of("_op"), expression=exp.Literal.string("delete"))
        return has_image if branch.end is None else and_(has_image, self._is_current(branch, branch.end))

    def _is_removed(self, branch: Branch) -> exp.Expr:
        """Whether a change removes a row."""
        has_image = exp.NEQ(this=column_of("_op"), expression=exp.Literal.string("insert"))
        return has_image if branch.end is None else and_(has_image, self._is_current(branch, branch.end, BEFORE))

    def _is_current(self, branch: Branch, end: RowEnd, inside: str = "") -> exp.Expr:
        """Whether an image of a system-versioned table is of a current row. An image that lacks its end has not changed
        it: only current rows are ever updated."""
        if not end.physical:
            # Conditions may be tested in any order, and rows of other versions are no mistake.
            fail = exp.Cast(this=self._call("fail", exp.Literal.string(_NEW_ROW)), to=exp.DataType.build("BOOLEAN"))
            is_own = is_in("_schema_version", branch.versions)
            return exp.Case(ifs=[exp.If(this=is_own, true=fail)], default=exp.false())
        moments = [self._typed(_literal(moment, self._dialect), moment.type) for moment in end.of_current]
        ends = [column_of(name, inside) for name in end.physical]
        value = ends[0] if len(ends) == 1 else exp.Coalesce(this=ends[0], expressions=ends[1:])
        return or_(exp.Is(this=value, expression=exp.null()), exp.In(this=value.copy(), expressions=moments))

    def _relations(self, branch: Branch) -> tuple[exp.Expr, exp.Expr]:
        """The rows of a branch with the results of lookups: for `_put`, and for `_removed`."""
        pairs = list(zip(self._source.columns, branch.column_sources, strict=True))
        keys = [pair for pair in pairs if self._is_key(pair[0], branch.stage)]
        put = [*self._lookups(pairs), *self._lookups([pair for pair in pairs if pair[1].in_key], BEFORE)]
        removed = [*self._lookups(keys), *self._lookups(keys, BEFORE)]
        relation = self._relation(branch.relation)
        return with_lookups(relation, put, self._dialect), with_lookups(relation.copy(), removed, self._dialect)

    def _with_mappings(self) -> Iterable[Branch]:
        return self._source.branches

    def _mappings(self) -> list[exp.CTE]:
        """The queries of the mappings in which values are looked up."""
        return [
            query_of(column_source, column.kind, self._dialect)
            for branch in self._with_mappings()
            for column, column_source in zip(self._source.columns, branch.column_sources, strict=True)
            if column_source.made is not None
        ]

    def _lookups(self, pairs: Sequence[tuple[ViewColumn, ColumnSource]], inside: str = "") -> list[Lookup]:
        """The lookups for some columns of an image."""
        return [
            Lookup(
                _looked_up(column_source.made, inside),
                self._lookup_key(column_source, column_source.made, inside),
                column_source,
                column.kind,
            )
            for column, column_source in pairs
            if column_source.made is not None
        ]

    def _put(self, branch: Branch) -> list[exp.Expr]:
        selected = [named(exp.Literal.number(1), "put"), *_order()]
        stays = self._stays(branch)
        for at, (column, column_source) in enumerate(zip(self._source.columns, branch.column_sources, strict=True)):
            if self._is_key(column, branch.stage):
                selected.append(named(self._key(column_source, column), f"k{at}"))
            if self._is_key(column, branch.stage) and column.has_texts:
                selected.append(named(self._key_text(column_source, column), f"t{at}"))
            if self._has_value(column, branch.stage):
                selected.append(named(self._held(column_source, column, stays, branch.stage), f"v{at}"))
        return selected

    def _stays(self, branch: Branch) -> exp.Expr:
        """Whether a change keeps the row under its key."""
        sources = zip(self._source.columns, branch.column_sources, strict=True)
        keys = [pair for pair in sources if self._is_key(pair[0], branch.stage)]
        same = [
            (self._key(column_source, column), self._value(column_source, column, BEFORE))
            for column, column_source in keys
        ]
        same += [
            (self._key_text(column_source, column), self._text(column_source, column, BEFORE))
            for column, column_source in keys
            if column.has_texts
        ]
        equal_pairs = [exp.NullSafeEQ(this=after, expression=before) for after, before in same]
        return and_(*equal_pairs) if equal_pairs else exp.true()

    def _removed(self, branch: Branch) -> list[exp.Expr]:
        selected = [named(exp.Literal.number(0), "put"), *_order()]
        for at, (column, column_source) in enumerate(zip(self._source.columns, branch.column_sources, strict=True)):
            if self._is_key(column, branch.stage):
                selected.append(named(self._old(column_source, column), f"k{at}"))
            if self._is_key(column, branch.stage) and column.has_texts:
                selected.append(named(self._text(column_source, column, BEFORE), f"t{at}"))
            if self._has_value(column, branch.stage):
                selected.append(named(self._typed(exp.null(), _held_type(column)), f"v{at}"))
        return selected

    def _key(self, column_source: ColumnSource, column: ViewColumn) -> exp.Expr:
        """The key of the row after a change; a MINIMAL image lacks a key that has not changed, or that an INSERT left
        to its default."""
        is_missing = self._lists("_missing", column_source.missing)
        given = self._known(self._lacking(column_source), column)
        branches = [
            exp.If(this=and_(is_missing, is_insert()), true=given),
            exp.If(this=is_missing.copy(), true=self._old(column_source, column)),
        ]
        if column.is_document:
            partial = self._fails(exp.Literal.string(f"{column.name}: {_ONLY_CHANGES}"), column)
            branches.append(exp.If(this=self._has_key("_invalid", column_source.missing), true=partial))
        return exp.Case(ifs=branches, default=self._known(column_source, column))

    def _key_text(self, column_source: ColumnSource, column: ViewColumn) -> exp.Expr:
        """In the same way, what `_invalid` has for the key."""
        is_missing = self._lists("_missing", column_source.missing)
        given = self._text(column_source.lacking or ColumnSource(), column)
        cases = [
            exp.If(this=and_(is_missing.copy(), is_insert()), true=given),
            exp.If(this=is_missing, true=self._text(column_source, column, BEFORE)),
        ]
        return exp.Case(ifs=cases, default=self._text(column_source, column))

    def _held(self, column_source: ColumnSource, column: ViewColumn, stays: exp.Expr, stage: int) -> exp.Expr:
        """A struct of the value, or of the reason why it is not known. NULL: the image lacks the value, which is then
        that of the earlier image. This never fails: the row may have changed since."""
        is_missing = self._lists("_missing", column_source.missing)
        given = self._placed(self._lacking(column_source), column)
        # An insert of a sequence changes its row.
        is_new = exp.false() if stage in self._source.of_one_row else is_insert()
        branches = [exp.If(this=and_(is_missing, is_new), true=given)]
        if column_source.in_key:
            is_before = not_(self._lists("_missing", f"{BEFORE}.{column_source.missing}"))
            old = self._placed(column_source, column, BEFORE)
            branches.append(exp.If(this=and_(is_missing.copy(), is_before), true=old))
        elif column_source.missing:
            moves = and_(is_missing.copy(), exp.Not(this=paren(stays.copy())))
            branches.append(exp.If(this=moves, true=self._moved(column, stage)))
        branches.append(exp.If(this=is_missing.copy(), true=exp.null()))
        if column.is_generated:
            unlogged = self._not_known("MariaDB logs no generated columns of updates", column)
            branches.insert(1, exp.If(this=and_(is_missing.copy(), is_of_mariadb()), true=unlogged))
        if column.is_document:
            partial = self._not_known(_ONLY_CHANGES, column)
            branches.insert(0, exp.If(this=self._has_key("_invalid", column_source.missing), true=partial))
        return exp.Case(ifs=branches, default=self._placed(column_source, column))

    def _moved(self, column: ViewColumn, _stage: int) -> exp.Expr:
        """The value in a row whose key changed, if the image lacks the column."""
        return self._not_known(f"the image of a row that changed its key lacks it; {_NEW_ROW}", column)

    def _placed(self, column_source: ColumnSource, column: ViewColumn, inside: str = "") -> exp.Expr:
        if column_source.unknown is not None:
            return self._not_known(f"the log does not tell {column_source.unknown}", column)
        value = self._struct(
            column, v=self._value(column_source, column, inside), x=self._text(column_source, column, inside)
        )
        doubts = [
            exp.If(this=is_so, true=self._not_known(why, column)) for is_so, why in self._doubts(column_source, inside)
        ]
        return exp.Case(ifs=doubts, default=value) if doubts else value

    @staticmethod
    def _lacking(column_source: ColumnSource) -> ColumnSource:
        return column_source.lacking or ColumnSource(unknown="what an INSERT gave it")

    def _known(self, column_source: ColumnSource, column: ViewColumn, inside: str = "") -> exp.Expr:
        """The value; an error if the log does not have it."""
        if column_source.unknown is None:
            value = self._value(column_source, column, inside)
            fails = [
                exp.If(this=is_so, true=self._fails(exp.Literal.string(f"{column.name}: {why}"), column))
                for is_so, why in self._doubts(column_source, inside)
            ]
            return exp.Case(ifs=fails, default=value) if fails else value
        return self._fails(exp.Literal.string(f"{column.name}: the log does not tell {column_source.unknown}"), column)

    def _old(self, column_source: ColumnSource, column: ViewColumn) -> exp.Expr:
        """The value before a change, of a column that distinguishes rows."""
        lacks = exp.Literal.string(f"{column.name}: {_NO_OLD_GENERATED if column.is_generated else _NO_OLD_KEY}")
        is_missing = self._lists("_missing", f"{BEFORE}.{column_source.missing}")
        fails = exp.If(this=is_missing, true=self._fails(lacks, column))
        return exp.Case(ifs=[fails], default=self._known(column_source, column, BEFORE))

    def _opened(self, at: int) -> exp.Expr:
        return named(self._value_after(at), self._source.columns[at].name)

    def _value_after(self, at: int) -> exp.Expr:
        """The value after an event; an error if it is not known."""
        column = self._source.columns[at]
        made, value, why = column_of(f"v{at}"), self._part(at, "v"), self._part(at, "u")
        lacks = exp.Literal.string(f"{column.name}: {NO_IMAGE}")
        fails = [
            exp.If(this=exp.Is(this=made, expression=exp.null()), true=self._fails(lacks, column)),
            exp.If(this=exp.Not(this=exp.Is(this=why, expression=exp.null())), true=self._fails(why.copy(), column)),
        ]
        return exp.Case(ifs=fails, default=value)

    @staticmethod
    def _part(at: int, name: str) -> exp.Expr:
        """A field of the struct of a value."""
        return exp.Dot(this=column_of(f"v{at}"), expression=name_of(name))

    # Rows of versions that the view does not know ------------------------------------------------

    def _guards(self, columns: Sequence[tuple[str, pa.DataType]]) -> Iterable[exp.Select]:
        """Queries without rows that fail if there are rows of a newer version: the view must not return only a part of
        the rows."""
        for relation, versions in self._source.known:
            fail = self._call("fail", exp.Literal.string(self._source.message))
            is_known = exp.Case(
                ifs=[exp.If(this=self._is_known(versions), true=exp.false())],
                default=exp.Cast(this=fail, to=exp.DataType.build("BOOLEAN")),
            )
            yield select(*self._nulls(columns)).from_(self._relation(relation), copy=False).where(is_known, copy=False)

    def _nothing(self, columns: Sequence[tuple[str, pa.DataType]]) -> exp.Select:
        """A query without rows."""
        return select(*self._nulls(columns)).where(exp.false(), copy=False)

    def _nulls(self, columns: Sequence[tuple[str, pa.DataType]]) -> list[exp.Expr]:
        return [named(self._typed(exp.null(), kind), name) for name, kind in columns]

    def _is_known(self, versions: Sequence[int]) -> exp.Expr:
        return is_in("_schema_version", versions)

    def _event_columns(self, stage: int = 0) -> list[tuple[str, pa.DataType]]:
        event_columns: list[tuple[str, pa.DataType]] = [("put", pa.int32()), ("seq", pa.int64()), ("row", pa.int64())]
        for at, column in enumerate(self._source.columns):
            if self._is_key(column, stage):
                event_columns.append((f"k{at}", column.kind))
            if self._is_key(column, stage) and column.has_texts:
                event_columns.append((f"t{at}", pa.string()))
            if self._has_value(column, stage):
                event_columns.append((f"v{at}", _held_type(column)))
        return event_columns

    def _change_columns(self) -> list[tuple[str, pa.DataType]]:
        own = [(column.published, column.kind) for column in self._source.columns]
        utc = pa.timestamp("us", tz="UTC")
        kinds = {"_seq": pa.int64(), "_row": pa.int64(), "_binlog_pos": pa.int64(), "_committed_at": utc}
        shared = [(name, kinds.get(name, pa.string())) for name in SHARED]
        invalid = pa.map_(pa.string(), pa.string())
        rest = [("_schema_version", pa.int64()), ("_missing", pa.list_(pa.string())), ("_invalid", invalid)]
        return [*own, (BEFORE, pa.struct(own)), *shared, *rest]

    # Expressions --------------------------------------------------------------------------------

    def _then(self, column_source: ColumnSource, column: ViewColumn, inside: str = "") -> exp.Expr:
        """The value that a row had when it was changed; NULL if the table had no such column."""
        if column_source.is_in_no_file:
            return self._fails(exp.Literal.string(f"{column.name}: {_NEW_ROW}"), column)
        known = column_source if column_source.physical else ColumnSource()
        return self._value(known, column, inside)

    def _value(self, column_source: ColumnSource, column: ViewColumn, inside: str = "") -> exp.Expr:
        if not column_source.physical:
            return self._typed(
                exp.null() if column_source.literal is None else _literal(column_source.literal, self._dialect),
                column.kind,
            )
        if column_source.steps:
            return self._converted(column_source, column, inside)
        expressions = [column_of(name, inside) for name in column_source.physical]
        typed = (
            [self._typed(expression, column.kind) for expression in expressions]
            if column_source.is_cast
            else expressions
        )
        return typed[0] if len(typed) == 1 else exp.Coalesce(this=typed[0], expressions=typed[1:])

    def _raw(self, column_source: ColumnSource, inside: str) -> exp.Expr:
        """A value before all conversions."""
        kind = column_source.kind or pa.string()
        expressions = [typed(column_of(name, inside), kind, self._dialect) for name in column_source.physical]
        return (
            expressions[0] if len(expressions) == 1 else exp.Coalesce(this=expressions[0], expressions=expressions[1:])
        )

    def _lookup_key(self, column_source: ColumnSource, made: MadeValues, inside: str) -> exp.Expr:
        """A value as it is looked up."""
        if not made.asks_texts:
            return self._raw(column_source, inside)
        text = self._kept_text(column_source, ViewColumn("", "", pa.string()), inside)
        known = exp.Coalesce(this=text, expressions=[exp.Literal.string("")])
        # NULL for a NULL, which DuckDB's CONCAT leaves out.
        label = exp.DPipe(this=known, expression=exp.Literal.string(":"))
        return exp.DPipe(this=label, expression=self._raw(column_source, inside))

    def _converted(self, column_source: ColumnSource, column: ViewColumn, inside: str) -> exp.Expr:
        """A value after all conversions; NULL if it is not known what the server made of it."""
        value: exp.Expr | None = None if column_source.by_text else self._raw(column_source, inside)
        for step in column_source.steps:
            value = None if value is None else converted(value, step, self._dialect)
        known = [] if value is None else [self._typed(value, column.kind)]
        if column_source.made is not None:
            known.append(column_of(_looked_up(column_source.made, inside)))
        first, *rest = known or [self._typed(exp.null(), column.kind)]
        expression = exp.Coalesce(this=first, expressions=rest) if rest else first
        if column_source.of_null is None:
            return expression
        is_null = exp.Is(this=self._raw(column_source, inside), expression=exp.null())
        return exp.Case(ifs=[exp.If(this=is_null, true=self._value(column_source.of_null, column))], default=expression)

    def _doubts(self, column_source: ColumnSource, inside: str = "") -> list[tuple[exp.Expr, str]]:
        """The conditions under which a value is not known, each with the reason: no file had it when the view was made,
        or it is not known what conversions made of it."""
        if column_source.is_in_no_file:
            return [(exp.true(), _NEW_ROW)]
        if not column_source.steps:
            return []
        shown = " and ".join(step.shown for step in column_source.steps)
        column = ViewColumn("", "", _kind_after(column_source))
        is_null = exp.Is(this=self._raw(column_source, inside), expression=exp.null())
        lost = exp.Is(this=self._converted(replace(column_source, of_null=None), column, inside), expression=exp.null())
        why = _ONLY_A_MIRROR if column_source.made is None else _NEW_VALUE
        doubts: list[tuple[exp.Expr, str]] = [(and_(not_(is_null), lost), f"{shown}: {why}")]
        if column_source.loses_texts:
            is_text = not_(exp.Is(this=self._text(column_source, column, inside), expression=exp.null()))
            doubts.insert(0, (is_text, f"{shown}: {_ONLY_A_MIRROR}"))
        if column_source.of_null is not None and column_source.of_null.unknown is not None:
            doubts.append((is_null.copy(), f"the log does not tell {column_source.of_null.unknown}"))
        return doubts

    def _text(self, column_source: ColumnSource, column: ViewColumn, inside: str = "") -> exp.Expr:
        """What distinguishes a value from others that look the same: its entry in `_invalid`; NULL if there is none."""
        if not column_source.physical:
            is_zero = column.is_zero and column_source.literal is None and column_source.unknown is None
            text = LONGEST if is_zero else column_source.literal_text
            return self._typed(exp.null() if text is None else exp.Literal.string(text), pa.string())
        if column_source.by_text:
            made = column_source.made
            has_texts = made is not None and made.texts is not None
            kept_text = column_of(text_name(_looked_up(made, inside))) if made is not None and has_texts else exp.null()
            return self._typed(kept_text, pa.string())
        kept = self._kept_text(column_source, column, inside)
        if column_source.of_null is not None:
            is_null = exp.Is(this=self._raw(column_source, inside), expression=exp.null())
            given = exp.Case(ifs=[exp.If(this=is_null, true=self._text(column_source.of_null, column))])
            kept = exp.Coalesce(this=kept, expressions=[given])
        if column_source.empty_text is None:
            return kept
        is_empty = exp.EQ(this=self._value(column_source, column, inside), expression=exp.Literal.string(""))
        return exp.Case(ifs=[exp.If(this=is_empty, true=exp.Literal.string(column_source.empty_text))], default=kept)

    def _kept_text(self, column_source: ColumnSource, column: ViewColumn, inside: str) -> exp.Expr:
        if not column_source.missing:
            return self._typed(exp.null(), pa.string())
        name = f"{BEFORE}.{column_source.missing}" if inside else column_source.missing
        return text_of(column_of("_invalid"), name, column.kind, self._dialect)

    def _typed(self, value: exp.Expr, kind: pa.DataType) -> exp.Expr:
        return typed(value, kind, self._dialect)

    def _struct(self, column: ViewColumn, **given: exp.Expr) -> exp.Expr:
        """A struct of a value (`v`) with what `_invalid` has for it (`x`), or of the reason why it is not known
        (`u`)."""
        fields = [
            exp.PropertyEQ(this=name_of(field.name), expression=given.get(field.name, exp.null()))
            for field in _held_type(column).fields
        ]
        return self._typed(exp.Struct(expressions=fields), _held_type(column))

    def _not_known(self, why: str, column: ViewColumn) -> exp.Expr:
        return self._struct(column, u=exp.Literal.string(f"{column.name}: {why}"))

    def _fails(self, message: exp.Expr, column: ViewColumn) -> exp.Expr:
        return self._typed(self._call("fail", message), column.kind)

    def _lists(self, column: str, name: str) -> exp.Expr:
        expression = self._call("contains", column_of(column), exp.Literal.string(name))
        return exp.Coalesce(this=expression, expressions=[exp.false()])

    def _has_key(self, column: str, name: str) -> exp.Expr:
        expression = self._call("has_key", column_of(column), exp.Literal.string(name))
        return exp.Coalesce(this=expression, expressions=[exp.false()])

    def _call(self, what: str, *arguments: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this=_CALLS[self._dialect][what], expressions=list(arguments))

    def _relation(self, name: str) -> exp.Expr:
        return dict(self._source.relations)[name].copy()


def _looked_up(made: MadeValues, inside: str) -> str:
    """The name of the column with the converted values of an image."""
    return f"{made.name}_old" if inside else made.name


def _held_type(column: ViewColumn) -> pa.DataType:
    """The type of a value, or of the reason why it is not known; for a key with what `_invalid` has."""
    has_texts = column.is_key and column.has_texts
    return pa.struct([("v", column.kind), ("u", pa.string()), *([("x", pa.string())] if has_texts else [])])


def _has_zeros(kind: pa.DataType) -> bool:
    """Whether values have numbers among them that may be -0."""
    return bool(pa.types.is_floating(kind) or pa.types.is_list(kind))


def _number(number: int) -> exp.Expr:
    return exp.Literal.number(number)


def _kind_after(column_source: ColumnSource) -> pa.DataType:
    return arrow_type(column_source.steps[-1].after)


def _literal(value: pa.Scalar, dialect: Dialect) -> exp.Expr:
    """A value that is not NULL, in a form that can be cast to its type."""
    plain = value.as_py()
    if isinstance(plain, bytes):
        return exp.Anonymous(this="unhex", expressions=[exp.Literal.string(plain.hex())])
    if isinstance(plain, str) and not plain.isprintable():
        # A literal of DuckDB cannot have a zero byte.
        return text_of_bytes(exp.Literal.string(plain.encode().hex()), dialect)
    return exp.Literal.string(plain.isoformat(sep=" ") if isinstance(plain, datetime) else str(plain))


def _order() -> list[exp.Expr]:
    return [named(column_of("_seq"), "seq"), named(column_of("_row"), "row")]
