"""Decoded changes of rows that fulfil a condition, before the change or after it.
Not here: what the condition means (`dialects/conditions/`), decoding (`changes/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa  # noqa: TID253  only those who decode import this module
import pyarrow.compute as pc  # noqa: TID253  see above
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.changes.arrow import BEFORE, ChangeColumns
from strata_cdc.changes.port import ChangeBatch, Watermark
from strata_cdc.dialects.conditions.condition import Condition, check_condition, parse
from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.pipeline.decode.decode_files import FileStep


def choose_rows(steps: Iterator[FileStep], where: str) -> Iterator[FileStep]:
    """The steps of decoding with those changes alone whose row fulfils a condition before or after.

    Raises:
        ConditionError: The text is no condition on one of the tables.
        Usage: An image lacks a column that the condition names, or has no value of it that could be compared.
    """
    check_condition(where)
    chooser = _Chooser(where)
    for step in steps:
        if isinstance(step, ChangeBatch):
            chosen = chooser.chosen(step)
            if chosen.num_rows:
                yield replace(step, batch=chosen)
        else:
            yield step
            # Rows before a fault are written first; those of other tables may come after it, up to here.
            if isinstance(step, Watermark):
                chooser.end()
    chooser.end()


class _UndecidedChange(Struct, frozen=True):
    """The first change of which nobody knows whether it was requested."""

    seq: int
    error: Usage


class _Chooser:
    """The condition as each version reads it, and the first change that ends the choice."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._conditions: dict[object, Condition] = {}
        self._fault: _UndecidedChange | None = None

    def chosen(self, step: ChangeBatch) -> pa.RecordBatch:
        """The rows of a batch without those after a fault."""
        key = (step.table, step.version_id)
        if key not in self._conditions:
            self._conditions[key] = parse(self._where, step.definition, str(step.table))
        condition = self._conditions[key]
        holds, doubtful = _judged(step.batch, condition)
        first = pc.index(doubtful, value=True).as_py()
        seqs = ChangeColumns(step.batch).fact("_seq")
        if first >= 0 and self._fault is None:
            self._fault = _UndecidedChange(seqs[first].as_py(), _unknown(step, condition, first))
        if self._fault is not None:
            holds = pc.and_(holds, pc.less(seqs, self._fault.seq))
        return step.batch.filter(holds)

    def end(self) -> None:
        """Ends with the fault, if there was one.

        Raises:
            Usage: There was.
        """
        if self._fault is not None:
            raise self._fault.error


def _judged(batch: pa.RecordBatch, condition: Condition) -> tuple[pa.Array, pa.Array]:
    """For each change: whether the condition holds before or after it, and whether that is unknown."""
    columns = ChangeColumns(batch)
    op = columns.fact("_op")
    befores = dict(zip(columns.names, columns.before.flatten(), strict=True))
    afters = dict(zip(columns.names, columns.own, strict=True))
    unknown_after, unknown_before = _no(batch), _no(batch)
    for name in sorted(condition.columns):
        lacks_after, lacks_before = (_listed(batch, "_missing", f"{image}{name}") for image in ("", f"{BEFORE}."))
        # What an update does not name it leaves as it was.
        is_kept = pc.and_(pc.and_(lacks_after, pc.equal(op, "update")), pc.invert(lacks_before))
        afters[name] = pc.if_else(is_kept, befores[name], afters[name])
        lacks_after = pc.and_(lacks_after, pc.invert(is_kept))
        unknown_after = pc.or_(unknown_after, pc.or_(lacks_after, _listed(batch, "_invalid", name)))
        unknown_before = pc.or_(unknown_before, pc.or_(lacks_before, _listed(batch, "_invalid", f"{BEFORE}.{name}")))
    has_after, has_before = pc.not_equal(op, "delete"), pc.not_equal(op, "insert")
    after = _known(condition.evaluate(afters), has_after, unknown_after)
    before = _known(condition.evaluate(befores), has_before, unknown_before)
    holds = pc.or_(after, before)
    doubt = pc.or_(pc.and_(has_after, unknown_after), pc.and_(has_before, unknown_before))
    return holds, pc.and_(doubt, pc.invert(holds))


def _known(values: pa.Array, is_there: pa.Array, is_unknown: pa.Array) -> pa.Array:
    return pc.and_(pc.and_(pc.fill_null(values, fill_value=False), is_there), pc.invert(is_unknown))


def _no(batch: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(value=False), batch.num_rows)


def _listed(batch: pa.RecordBatch, column: str, name: str) -> pa.Array:
    """Whether a row's list (or map) has a name."""
    values = ChangeColumns(batch).fact(column)
    if values.null_count == len(values):
        return _no(batch)
    rows = ([key for key, _ in row] if column == "_invalid" and row else row for row in values.to_pylist())
    return pa.array([name in (row or ()) for row in rows])


def _unknown(step: ChangeBatch, condition: Condition, at: int) -> Usage:
    columns = ", ".join(sorted(condition.columns))
    return Usage(
        f"`{condition.text}` is neither true nor false for a change: the binlog has no value of {columns} to compare",
        table=str(step.table),
        gtid=ChangeColumns(step.batch).fact("_gtid")[at].as_py(),
        remedy="Give a condition about other columns. Partial images (binlog_row_image) lack columns, and zero dates "
        "have no value.",
    )
