"""The history of a table as a LazyFrame of polars, with the same steps as the view's SQL.
Not here: its parts (`history.py`), the SQL (`dialects/history.py`)."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pyarrow as pa

from strata_cdc.dialects.history import VALIDITY
from strata_cdc.dialects.texts import DAY, LONGEST, SECOND
from strata_cdc.dialects.view_source import ColumnSource
from strata_cdc.dialects.views import BEFORE
from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strata_cdc.dialects.history import HistorySource
    from strata_cdc.dialects.view_source import Branch, ViewColumn

_ORDER: Final = ["seq", "row", "put"]
_PARTITION: Final = "_interval"


def frame_of(
    source: HistorySource, files: Mapping[str, Sequence[str]], schemas: Mapping[str, pa.Schema]
) -> pl.LazyFrame:
    """The history as polars computes it.

    Args:
        source: The parts of the history.
        files: The data files of each relation.
        schemas: The columns of the change tables.
    """
    return _Frame(source, files, schemas).made()


class _Frame:
    def __init__(
        self, source: HistorySource, files: Mapping[str, Sequence[str]], schemas: Mapping[str, pa.Schema]
    ) -> None:
        self._source = source
        self._columns = source.view.columns
        self._files = files
        self._schemas = schemas
        self._segments = [one.seq for one in source.emptied]

    def made(self) -> pl.LazyFrame:
        events = pl.concat([*self._events(), self._nothing()], how="vertical")
        # Through a column that is always needed: columns that are not requested are not computed.
        put = pl.struct("put", "unknown").map_batches(_refuse_unnamed, return_dtype=pl.Int32)
        events = events.with_columns(put.alias("put")).drop("unknown")
        spans = self._spans_by_key(events) if self._source.has_key else self._spans_by_row(events)
        since, to = pl.col("since"), pl.col("to_seq")
        spans = spans.filter(pl.col("put") == 1, since.is_null() | to.is_null() | (since < to))
        if self._source.has_key:
            spans = spans.map_batches(self._refuse_unknown)
        return spans.select(*self._shown(), *self._validity())

    # Events -------------------------------------------------------------------------------------

    def _events(self) -> Iterable[pl.LazyFrame]:
        if self._source.base is not None:
            yield self._base(self._source.base)
        for branch in self._source.view.branches:
            if not self._files[branch.relation]:
                continue
            inside = self._scan(branch.relation).filter(
                pl.col("_schema_version").is_in(list(branch.versions)),
                pl.col("_seq") > self._source.after,
                pl.col("_seq") <= self._source.until,
            )
            put = inside.filter(pl.col("_op") != "delete")
            taken = inside.filter(pl.col("_op") != "insert")
            yield put.select(*self._when(1), *self._put(branch))
            yield taken.select(*self._when(0), *self._taken(branch))

    def _scan(self, relation: str) -> pl.LazyFrame:
        schema = pa.schema([field for field in self._schemas[relation] if field.name != _PARTITION])
        return pl.scan_parquet(
            list(self._files[relation]),
            schema=pl.DataFrame(schema.empty_table()).schema,
            missing_columns="insert",
            extra_columns="ignore",
            glob=False,
            cast_options=pl.ScanCastOptions(missing_struct_fields="insert", extra_struct_fields="ignore"),
        )

    def _when(self, put: int) -> list[pl.Expr]:
        return [
            pl.lit(put, pl.Int32).alias("put"),
            pl.col("_seq").alias("seq"),
            pl.col("_row").alias("row"),
            pl.col("_seq").alias("since"),
            pl.col("_gtid").alias("gtid"),
            pl.col("_committed_at").alias("time"),
            pl.sum_horizontal(
                pl.lit(0, pl.Int64), *(pl.col("_seq").gt(at).cast(pl.Int64) for at in self._segments)
            ).alias("segment"),
        ]

    def _base(self, base: Branch) -> pl.LazyFrame:
        when = [
            pl.lit(1, pl.Int32).alias("put"),
            pl.lit(self._source.after, pl.Int64).alias("seq"),
            pl.lit(-1, pl.Int64).alias("row"),
            pl.lit(None, pl.Int64).alias("since"),
            pl.lit(None, pl.String).alias("gtid"),
            pl.lit(None, pl.Datetime("us", "UTC")).alias("time"),
            pl.lit(0, pl.Int64).alias("segment"),
        ]
        pairs = list(self._pairs(base))
        told = [self._told(place, column) for column, place in pairs]
        texts = self._aliased([self._text(place, column) for column, place in pairs])
        # Only some of the files may have the map of values that no column holds.
        scanned = [pl.scan_parquet(file, missing_columns="insert", glob=False) for file in self._files[base.relation]]
        return pl.concat(scanned, how="diagonal").select(*when, *texts, *self._values(told, told))

    def _put(self, branch: Branch) -> list[pl.Expr]:
        pairs = list(self._pairs(branch))
        named = [self._key_put(place, column) for column, place in pairs]
        texts = self._aliased([self._key_text(place, column) for column, place in pairs])
        if not self._source.has_key:
            return [*texts, *self._values(named, named)]
        moves = pl.any_horizontal(
            pl.lit(value=False),
            *(
                held.struct.field("v").ne_missing(self._value(place, column, BEFORE))
                for held, (column, place) in zip(named, pairs, strict=True)
                if column.is_key
            ),
            *(
                self._key_text(place, column).ne_missing(self._text(place, column, BEFORE))
                for column, place in pairs
                if column.is_key and column.has_texts
            ),
        )
        held = [
            name if column.is_key else self._held_put(place, column, moves)
            for name, (column, place) in zip(named, pairs, strict=True)
        ]
        return [*texts, *self._values(held, named)]

    def _key_put(self, place: ColumnSource, column: ViewColumn) -> pl.Expr:
        """A value of the row after a change, for rows that are identified by it.

        If the image lacks the value, it is that of the image before, or the default of an INSERT.
        """
        absent = _lists(place.missing)
        return (
            pl.when(absent & _is_insert())
            .then(self._lacking(place, column))
            .when(absent)
            .then(self._old(place, column))
            .when(self._is_partial(place, column))
            .then(self._why(column, "the log has only what changed in the document"))
            .otherwise(self._told(place, column))
        )

    def _held_put(self, place: ColumnSource, column: ViewColumn, moves: pl.Expr) -> pl.Expr:
        """A value of the row after a change; NULL if it is the same as in the image before."""
        absent = _lists(place.missing)
        return (
            pl.when(self._is_partial(place, column))
            .then(self._why(column, "the log has only what changed in the document"))
            .when(absent & _is_insert())
            .then(self._lacking(place, column))
            .when(absent & moves)
            .then(self._why(column, "the image of a row that changed its key lacks it"))
            .when(absent)
            .then(None)
            .otherwise(self._told(place, column))
        )

    def _taken(self, branch: Branch) -> list[pl.Expr]:
        pairs = list(self._pairs(branch))
        old = [self._old(place, column) for column, place in pairs]
        texts = self._aliased([self._text(place, column, BEFORE) for column, place in pairs])
        return [*texts, *self._values([pl.lit(None, self._held_kind(column)) for column in self._columns], old)]

    def _aliased(self, texts: Sequence[pl.Expr]) -> list[pl.Expr]:
        """The texts from `_invalid`, only of the columns that need them to identify rows."""
        told = [self._has_text(column) for column in self._columns]
        return [text.alias(f"t{at}") for at, text in enumerate(texts) if told[at]]

    def _values(self, held: Sequence[pl.Expr], named: Sequence[pl.Expr]) -> list[pl.Expr]:
        """The values of an event: the row's key, the row's values, and why it may not be known which row it is."""
        whole = not self._source.has_key
        keys = [at for at, column in enumerate(self._columns) if column.is_key or whole]
        names = [] if whole else [named[at].struct.field("v").alias(f"k{at}") for at in keys]
        values = [named[at].struct.field("v") if whole else held[at] for at, _ in enumerate(self._columns)]
        unknown = pl.coalesce(*(named[at].struct.field("u") for at in keys), pl.lit(None, pl.String))
        return [*names, *(value.alias(f"v{at}") for at, value in enumerate(values)), unknown.alias("unknown")]

    def _nothing(self) -> pl.LazyFrame:
        """No events, in the columns of all events: there may be no events at all."""
        kinds: dict[str, Any] = {"put": pl.Int32, "seq": pl.Int64, "row": pl.Int64, "since": pl.Int64}
        kinds |= {"gtid": pl.String, "time": pl.Datetime("us", "UTC"), "segment": pl.Int64}
        kinds |= dict.fromkeys(self._texts(), pl.String)
        for at, column in enumerate(self._columns):
            if column.is_key and self._source.has_key:
                kinds[f"k{at}"] = self._kind(column)
        for at, column in enumerate(self._columns):
            kinds[f"v{at}"] = self._held_kind(column) if self._source.has_key else self._kind(column)
        kinds["unknown"] = pl.String
        return pl.LazyFrame(schema=kinds)

    # Spans --------------------------------------------------------------------------------------

    def _spans_by_key(self, events: pl.LazyFrame) -> pl.LazyFrame:
        key = ["segment", *(f"k{at}" for at, column in enumerate(self._columns) if column.is_key), *self._texts()]
        ordered = events.sort(_ORDER)
        ends = [pl.col(name).shift(-1).over(key).alias(f"to_{name}") for name in ("seq", "gtid", "time")]
        values = [pl.col(f"v{at}").forward_fill().over(key) for at, _ in enumerate(self._columns)]
        return ordered.with_columns(*ends, *values)

    def _spans_by_row(self, events: pl.LazyFrame) -> pl.LazyFrame:
        key = ["segment", *(f"v{at}" for at, _ in enumerate(self._columns))]
        numbered = events.sort("seq", "row").with_columns(pl.int_range(pl.len()).over([*key, "put"]).alias("number"))
        ends = [pl.col(name).shift(-1).over([*key, "number"]).alias(f"to_{name}") for name in ("seq", "gtid", "time")]
        return numbered.sort("put", descending=True).with_columns(*ends)

    # What is shown ------------------------------------------------------------------------------

    def _refuse_unknown(self, spans: pl.DataFrame) -> pl.DataFrame:
        for at, column in enumerate(self._columns):
            name = f"v{at}"
            if name not in spans.columns:
                continue
            why = spans[name].struct.field("u").drop_nulls()
            if len(why):
                raise Usage(why[0])
            if spans[name].null_count():
                raise Usage(f"{column.name}: the log has no image with it")
        return spans

    def _shown(self) -> list[pl.Expr]:
        found = []
        for at, column in enumerate(self._columns):
            value = pl.col(f"v{at}").struct.field("v") if self._source.has_key else pl.col(f"v{at}")
            found.append(value.alias(column.published))
        return found

    def _validity(self) -> list[pl.Expr]:
        ends = self._source.emptied
        of = {
            "_valid_from": pl.col("time"),
            "_valid_to": self._end("time", [_moment(one.committed_at) for one in ends]),
            "_valid_from_gtid": pl.col("gtid"),
            "_valid_to_gtid": self._end("gtid", [pl.lit(one.gtid, pl.String) for one in ends]),
            "_valid_from_seq": pl.col("since"),
            "_valid_to_seq": self._end("seq", [pl.lit(one.seq, pl.Int64) for one in ends]),
        }
        return [of[name].alias(name) for name, _ in VALIDITY]

    def _end(self, what: str, emptied: Sequence[pl.Expr]) -> pl.Expr:
        found = pl.col(f"to_{what}")
        for at, value in enumerate(emptied):
            is_emptied = pl.col("to_seq").is_null() & (pl.col("segment") == at)
            found = pl.when(is_emptied).then(value).otherwise(found)
        return found

    # Expressions --------------------------------------------------------------------------------

    def _pairs(self, branch: Branch) -> Iterable[tuple[ViewColumn, ColumnSource]]:
        return zip(self._columns, branch.places, strict=True)

    def _kind(self, column: ViewColumn) -> pl.DataType:
        return pl.DataFrame(pa.schema([("one", column.kind)]).empty_table()).schema["one"]

    def _held_kind(self, column: ViewColumn) -> pl.DataType:
        return pl.Struct({"v": self._kind(column), "u": pl.String})

    def _value(self, place: ColumnSource, column: ViewColumn, inside: str = "") -> pl.Expr:
        kind = self._kind(column)
        if not place.physical:
            return pl.lit(None if place.literal is None else place.literal.as_py(), kind)
        found = [pl.col(inside).struct.field(name) if inside else pl.col(name) for name in place.physical]
        typed = [one.cast(kind) for one in found] if place.is_cast else found
        return reduce(pl.coalesce, typed)

    def _told(self, place: ColumnSource, column: ViewColumn, inside: str = "") -> pl.Expr:
        if place.unknown is not None:
            return self._why(column, f"the log does not tell {place.unknown}")
        return _held(self._value(place, column, inside), pl.lit(None, pl.String))

    def _lacking(self, place: ColumnSource, column: ViewColumn) -> pl.Expr:
        return self._told(place.lacking or ColumnSource(unknown="what an INSERT gave it"), column)

    def _old(self, place: ColumnSource, column: ViewColumn) -> pl.Expr:
        """The value before a change, of a column by which rows are identified."""
        lacks = self._why(column, "an image before a change lacks this column of the key")
        return pl.when(_lists(f"{BEFORE}.{place.missing}")).then(lacks).otherwise(self._told(place, column, BEFORE))

    def _has_text(self, column: ViewColumn) -> bool:
        """Whether the column's text in `_invalid` distinguishes rows."""
        return column.has_texts and column.is_key

    def _texts(self) -> list[str]:
        return [f"t{at}" for at, column in enumerate(self._columns) if self._has_text(column)]

    def _text(self, place: ColumnSource, column: ViewColumn, inside: str = "") -> pl.Expr:
        """The text in `_invalid` of a column, as in the view's SQL."""
        if not place.physical:
            is_zero = column.is_zero and place.literal is None and place.unknown is None
            return pl.lit(LONGEST if is_zero else None, pl.String)
        kept = self._kept_text(place, column, inside)
        if place.empty_text is None:
            return kept
        is_empty = self._value(place, column, inside) == ""
        return pl.when(is_empty).then(pl.lit(place.empty_text)).otherwise(kept)

    def _kept_text(self, place: ColumnSource, column: ViewColumn, inside: str) -> pl.Expr:
        if not place.missing:
            return pl.lit(None, pl.String)
        name = f"{BEFORE}.{place.missing}" if inside else place.missing
        entry = pl.element().struct.field("key") == name
        found = _entries().list.eval(pl.element().filter(entry).struct.field("value")).list.first()
        if not pa.types.is_temporal(column.kind):
            return found
        length = found.str.len_chars()
        longer = (
            pl.when(length == len(DAY))
            .then(found + LONGEST[len(DAY) :])
            .when(length == len(SECOND))
            .then(found + LONGEST[len(SECOND) :])
        )
        return longer.otherwise(found).str.pad_end(len(LONGEST), "0")

    def _key_text(self, place: ColumnSource, column: ViewColumn) -> pl.Expr:
        """The text of the row after a change."""
        given = pl.lit(None, pl.String) if place.lacking is None else self._text(place.lacking, column)
        absent = _lists(place.missing)
        return (
            pl.when(absent & (pl.col("_op") == "insert"))
            .then(given)
            .when(absent)
            .then(self._text(place, column, BEFORE))
            .otherwise(self._text(place, column))
        )

    def _is_partial(self, place: ColumnSource, column: ViewColumn) -> pl.Expr:
        if not column.is_document:
            return pl.lit(value=False)
        keys = _entries().list.eval(pl.element().struct.field("key"))
        return keys.list.contains(place.missing).fill_null(value=False)

    def _why(self, column: ViewColumn, why: str) -> pl.Expr:
        return _held(pl.lit(None, self._kind(column)), pl.lit(f"{column.name}: {why}", pl.String))


def _refuse_unnamed(events: pl.Series) -> pl.Series:
    why = events.struct.field("unknown").drop_nulls()
    if len(why):
        raise Usage(why[0])
    return events.struct.field("put")


def _held(value: pl.Expr, unknown: pl.Expr) -> pl.Expr:
    """A value, or why it is not known; NULL as a whole stands for the value of the image before."""
    return pl.struct(value.alias("v"), unknown.alias("u"))


def _entries() -> pl.Expr:
    """The map `_invalid`, of one type, whether this version of polars has maps or not."""
    return pl.col("_invalid").cast(pl.List(pl.Struct({"key": pl.String, "value": pl.String})))


def _lists(name: str) -> pl.Expr:
    return pl.col("_missing").list.contains(name).fill_null(value=False)


def _moment(micros: int | None) -> pl.Expr:
    return pl.lit(micros, pl.Int64).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def _is_insert() -> pl.Expr:
    return pl.col("_op") == "insert"
