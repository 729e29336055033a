"""Rules about single rows, judged on Arrow batches: which rows of a batch break a rule.
Not here: which rules there are (`rules.py`), rules across rows and files (`before_after.py`, `pass_engine.py`).

Each judge answers as Great Expectations does on Spark: NULL breaks nothing but "not null".
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.arrow_columns import to_numbers, to_texts
from strata_cdc.binlog.kernels.json_texts import find_no_json
from strata_cdc.changes.row_hashes import bytes_of, offsets_of
from strata_cdc.quality.checks.arrow_values import by_value, column_of, equals, flags_of, rows_with, set_of
from strata_cdc.quality.checks.profile import EXAMPLES, Example, RuleFound, example_text
from strata_cdc.quality.checks.rules import IMAGES_AGREE, frame_column
from strata_cdc.quality.checks.sensitive import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strata_cdc.changes.row_hashes import Column
    from strata_cdc.quality.checks.arrow_values import Flags
    from strata_cdc.quality.checks.rules import RowSelection, Rule
    from strata_cdc.quality.checks.sensitive import Sensitive

    _Judge = Callable[[pa.Array, dict[str, Any]], pa.Array | None]

MOST_NESTED = 100
"""Levels of a JSON document that MySQL keeps (`JSON_DOCUMENT_MAX_DEPTH`, sql-common/json_dom.h)."""


class RuleRows:
    """A batch of change rows, and what rules ask of it more than once."""

    def __init__(
        self,
        batch: pa.RecordBatch,
        gtid: Callable[[int], str | None] = lambda _: None,
        keys: Sequence[str] = (),
        sensitive: Sensitive = NOTHING,
        texts: Mapping[str, pa.ChunkedArray] | None = None,
    ) -> None:
        """Takes a batch.

        Args:
            batch: Change rows, without columns that no rule needs.
            gtid: Of a row of the batch; called only for examples.
            keys: Columns by which a row is known, as the change table calls them; examples have them.
            sensitive: What examples must not show.
            texts: Columns beside those of the batch.
        """
        self.batch = batch
        self.gtid = gtid
        self.keys = tuple(map(frame_column, keys))
        self.sensitive = sensitive
        self._columns: dict[str, Column] = dict(zip(map(frame_column, batch.schema.names), batch.columns, strict=True))
        self._columns |= {frame_column(name): column for name, column in (texts or {}).items()}
        self._ops: dict[str, pa.Array] = {}
        self._selected: dict[RowSelection, tuple[Flags | None, int]] = {}

    def column(self, name: str) -> Column:
        """A column by its name in the rules."""
        if name == IMAGES_AGREE:
            return pc.equal(self.is_op("insert"), pc.is_null(self.column("_before")))
        return self._columns[name]

    def is_op(self, name: str) -> pa.Array:
        """Whether a row is an operation; NULL where it has none."""
        if name not in self._ops:
            self._ops[name] = equals(self.column("_op"), name)
        return self._ops[name]

    def selected(self, selection: RowSelection) -> tuple[Flags | None, int]:
        """The rows that a rule is about, None for all of them, and how many they are."""
        if selection not in self._selected:
            flags = self._select(selection)
            count = self.batch.num_rows if flags is None else int(np.count_nonzero(flags))
            self._selected[selection] = flags, count
        return self._selected[selection]

    def _select(self, selection: RowSelection) -> Flags | None:
        parts = [] if selection.deletes else [flags_of(pc.invert(self.is_op("delete")))]
        missing, invalid = self.column("_missing"), self.column("_invalid")
        if selection.unless_missing is not None:
            parts.append(~rows_with(missing, missing.values, selection.unless_missing))
        if selection.unless_invalid is not None:
            parts.append(~rows_with(invalid, invalid.keys, selection.unless_invalid))
        if selection.if_invalid is not None:
            parts.append(rows_with(invalid, invalid.keys, selection.if_invalid))
        return np.logical_and.reduce(parts) if parts else None


def judge_rows(rows: RuleRows, rule: Rule) -> RuleFound:
    """How many rows of a batch a rule is about, how many break it, and the first of these."""
    name = rule.column or ""
    selected, count = rows.selected(rule.selection)
    flags = _breaking(rows.column(name), rule)
    if flags is None:
        return RuleFound(count)
    broken = np.flatnonzero(flags if selected is None else flags & selected)
    examples = tuple(_example(rows, int(at), name) for at in broken[:EXAMPLES])
    return RuleFound(count, len(broken), examples)


def _breaking(column: Column, rule: Rule) -> Flags | None:
    """Which values break a rule; None for none of them."""
    if isinstance(column, pa.ChunkedArray):
        parts = [(len(chunk), _breaking(chunk, rule)) for chunk in column.chunks]
        if all(part is None for _, part in parts):
            return None
        return np.concatenate([np.zeros(size, np.bool_) if part is None else part for size, part in parts])
    judge, kwargs = ROW_JUDGES[rule.expectation], {**rule.kwargs, "members": rule.members}
    # A dictionary has no NULL: its rows do.
    is_of_rows = judge in (_null, _not_null)
    flags = judge(column, kwargs) if is_of_rows else by_value(column, lambda some: judge(some, kwargs))
    return None if flags is None else flags_of(flags)


def _example(rows: RuleRows, at: int, name: str) -> Example:
    position = {"_gtid": rows.gtid(at), **{column: rows.column(column)[at].as_py() for column in ("_seq", "_row")}}
    values = {column: _plain(rows.column(column)[at].as_py()) for column in (*rows.keys, name)}
    return Example(
        position["_seq"] or 0, position["_row"] or 0, example_text({**position, **rows.sensitive.shown(values)})
    )


def _plain(value: Any) -> Any:
    """A value as JSON has it, decimals and bytes as texts."""
    return json.loads(json.dumps(value, default=lambda item: item.hex() if isinstance(item, bytes) else str(item)))


def _null(column: pa.Array, _: dict[str, Any]) -> pa.Array | None:
    return pc.is_null(column) if column.null_count else None


def _not_null(column: pa.Array, _: dict[str, Any]) -> pa.Array | None:
    return pc.is_valid(column) if column.null_count < len(column) else None


def _outside(column: pa.Array, kwargs: dict[str, Any]) -> pa.Array | None:
    """Values that are not between two bounds; those of the column are mostly inside, which two numbers show."""
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    least, most = kwargs.get("min_value"), kwargs.get("max_value")
    is_low = least is not None and low is not None and (low < least or (kwargs.get("strict_min") and low == least))
    is_high = most is not None and high is not None and (high > most or (kwargs.get("strict_max") and high == most))
    if not (is_low or is_high):
        return None
    if pa.types.is_integer(column.type):
        column = column.cast(pa.decimal128(20, 0))
    if pa.types.is_decimal(column.type):
        # A bound may have more digits than the column.
        column = column.cast(pa.decimal256(76, column.type.scale))
    parts = []
    if is_low:
        below = pc.less_equal if kwargs.get("strict_min") else pc.less
        parts.append(below(column, _bound(least, column.type)))
    if is_high:
        above = pc.greater_equal if kwargs.get("strict_max") else pc.greater
        parts.append(above(column, _bound(most, column.type)))
    return parts[0] if len(parts) == 1 else pc.or_(*parts)


def _bound(value: Any, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(value) if pa.types.is_decimal(kind) else value, kind)


def _not_in_set(column: pa.Array, kwargs: dict[str, Any]) -> pa.Array | None:
    if not pa.types.is_string(column.type):
        # Mostly all of them are one.
        bounds = pc.min_max(column)
        if bounds["min"] == bounds["max"] and bounds["min"].as_py() in (None, *kwargs["value_set"]):
            return None
    known = pc.is_in(column, set_of(kwargs["value_set"], column.type))
    if known.true_count + column.null_count == len(column):
        return None
    return pc.and_not(pc.is_valid(column), known)


def _not_members(column: pa.Array, kwargs: dict[str, Any]) -> pa.Array | None:
    """Texts that are not members with commas between them; a value of SET has no comma in it."""
    parts = pc.split_pattern(column, ",")
    known = flags_of(pc.is_in(parts.values, to_texts(kwargs["members"])))
    until = np.concatenate(([0], np.cumsum(~known)))
    offsets = offsets_of(parts)
    is_bad = until[offsets[1:]] > until[offsets[:-1]]
    is_bad &= flags_of(pc.invert(equals(column, "")))
    return column_of(is_bad) if is_bad.any() else None


def _sizes(column: pa.Array) -> pa.Array:
    return pc.utf8_length(column) if pa.types.is_string(column.type) else pc.binary_length(column)


def _too_long(column: pa.Array, kwargs: dict[str, Any]) -> pa.Array | None:
    # No text has more characters than bytes.
    longest = pc.max(pc.binary_length(column)).as_py()
    if longest is None or longest <= kwargs["max_value"]:
        return None
    return pc.greater(_sizes(column), to_numbers(np.array([kwargs["max_value"]]))[0])


def _not_as_long(column: pa.Array, kwargs: dict[str, Any]) -> pa.Array | None:
    flags = pc.not_equal(_sizes(column), to_numbers(np.array([kwargs["value"]]))[0])
    return flags if flags.true_count else None


def _no_json(column: pa.Array, _: dict[str, Any]) -> pa.Array | None:
    bad = np.zeros(len(column), np.uint8)
    # What NULL has is no text.
    column = pc.coalesce(column, to_texts(["null"])[0]) if column.null_count else column
    finds_any = find_no_json(bytes_of(column), offsets_of(column), np.zeros(MOST_NESTED + 1, np.uint8), bad)
    return column_of(bad.astype(np.bool_)) if finds_any else None


ROW_JUDGES: Final[dict[str, _Judge]] = {
    "expect_column_values_to_not_be_null": _null,
    "expect_column_values_to_be_null": _not_null,
    "expect_column_values_to_be_between": _outside,
    "expect_column_values_to_be_in_set": _not_in_set,
    "expect_column_values_to_match_regex": _not_members,
    "expect_column_value_lengths_to_be_between": _too_long,
    "expect_column_value_lengths_to_equal": _not_as_long,
    "expect_column_values_to_be_json_parseable": _no_json,
}
"""From the expectations that the rules of ours use, to the rows that break them."""
