"""Which changes of a table are wanted: those of rows with some keys, of rows that meet a condition, of transactions.
Not here: reading changes (`table_changes.py`), what a condition means (`dialects/conditions/`)."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.errors import PastUnknownError
from strata_cdc.past.key_images import facts_of_keys, key_images
from strata_cdc.past.key_texts import KeyImage, KeyValues
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.current_rows import column_of_end, is_past
from strata_cdc.tables.layout import column_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strata_cdc.dialects.conditions.condition import Condition
    from strata_cdc.past.timeline import ChangeSpan
    from strata_cdc.schema.model.definition import Column, TableDefinition


class ReadFirst(Struct, frozen=True):
    """The columns that a filter looks at; the others are read only where it finds a change."""

    own: tuple[str, ...] = ()
    """Of both images, as the definition spells them."""
    facts: tuple[str, ...] = ()
    """Of the change: `_gtid`, `_missing` and the like."""
    without: set[tuple[str, int, int]] | None = None
    """Row groups in which it wants no change: file, number, version. Readers add to it, and pass over them later."""


class ChangeFilter(Protocol):
    """A choice of changes."""

    def reads(self, span: ChangeSpan) -> ReadFirst | None:
        """What it looks at in a range; None if no change of the range is wanted.

        Raises:
            Usage: It has no meaning for the table.
        """

    def may_want(self, rows: pa.Table, span: ChangeSpan) -> bool:
        """Whether any of some changes may be wanted, by the table's own columns of `reads` alone."""

    def wanted(self, rows: pa.Table, span: ChangeSpan) -> pa.Array:
        """For each change, whether it is wanted: never NULL.

        Args:
            rows: The columns of `reads`, as change tables call them, with `_op`, `_seq` and `_row`; images before are
                in `_before`.
            span: The range.

        Raises:
            PastUnknownError: For a change, nobody knows.
        """


class EveryOf(Struct, frozen=True):
    """The changes that all of some filters want."""

    filters: tuple[ChangeFilter, ...]

    def reads(self, span: ChangeSpan) -> ReadFirst | None:
        """See `ChangeFilter`."""
        reads = [columns.reads(span) for columns in self.filters]
        if any(columns is None for columns in reads):
            return None
        own = dict.fromkeys(name for columns in reads if columns is not None for name in columns.own)
        facts = dict.fromkeys(name for columns in reads if columns is not None for name in columns.facts)
        return ReadFirst(tuple(own), tuple(facts))

    def may_want(self, rows: pa.Table, span: ChangeSpan) -> bool:
        """See `ChangeFilter`."""
        return all(choice.may_want(rows, span) for choice in self.filters)

    def wanted(self, rows: pa.Table, span: ChangeSpan) -> pa.Array:
        """See `ChangeFilter`. Each filter is asked of what those before it want: what nobody knows of other changes
        does not matter."""
        holds = np.ones(len(rows), np.bool_)
        for choice in self.filters:
            left = rows if holds.all() else rows.filter(pa.array(holds))
            holds[holds] = np.asarray(choice.wanted(left, span))
        return pa.array(holds)


class KeyFilter:
    """The changes of rows that have one of some keys, before the change or after it; without rows of the past, which
    have the keys of current rows.

    Args:
        columns_in: Gives the columns that identify a row, in the definition of a version; None if it lacks some.
        keys: The values of these columns, in their order, as texts (`key_texts.py`).
    """

    def __init__(
        self, columns_in: Callable[[ChangeSpan], Sequence[Column] | None], keys: Sequence[Sequence[str]]
    ) -> None:
        self._columns_in, self._keys = columns_in, [tuple(key) for key in keys]
        self._known: dict[int, list[KeyValues]] = {}
        self._without: set[tuple[str, int, int]] = set()

    def reads(self, span: ChangeSpan) -> ReadFirst | None:
        """See `ChangeFilter`. In ranges in which the table lacks one of the columns, no row has such a key."""
        columns = self._columns(span)
        if columns is None or any(not len(values) for values in columns):
            return None
        end = column_of_end(span.definition)
        key = [values.column for values in columns]
        names = dict.fromkeys([*(column.name for column in key), *([] if end is None else [end.name])])
        return ReadFirst(tuple(names), ("_missing", *facts_of_keys(key)), self._without)

    def may_want(self, rows: pa.Table, span: ChangeSpan) -> bool:
        """See `ChangeFilter`."""
        for values in (self._columns(span) or [])[:1]:
            name = column_name(values.column.name)
            after, before = rows[name], pc.struct_field(rows[BEFORE], name)
            # A change may be of any row if no image has the column, or if the image before lacks it: then the row may
            # have had another key.
            is_lacking = pc.and_(before.is_null(), pc.or_(after.is_null(), rows[BEFORE].is_valid()))
            lacks = before.null_count and pc.any(is_lacking).as_py()
            # A value that the column does not hold is NULL in it.
            lacks = lacks or (len(values.verbatim) and after.null_count)
            if lacks or any(pc.any(values.among(KeyImage(image))).as_py() for image in (after, before)):
                return True
        return False

    def wanted(self, rows: pa.Table, span: ChangeSpan) -> pa.Array:
        """See `ChangeFilter`. Of a key of several columns, each column has one of the values: a few more changes than
        those of the keys may be wanted."""
        columns = self._columns(span) or []
        before_has, after_has = [], []
        for values, (before, after) in zip(columns, key_images(rows, [of.column for of in columns]), strict=True):
            before_has.append(values.among(before))
            after_has.append(values.among(after))
            refuse_absent(rows, span, values.column.name, before.values)
        has_key = pc.or_(reduce(pc.and_, before_has), reduce(pc.and_, after_has))
        return pc.and_(has_key, pc.invert(is_past(rows, span.definition)))

    def _columns(self, span: ChangeSpan) -> list[KeyValues] | None:
        if span.version_id not in self._known:
            columns = self._columns_in(span)
            if columns is None:
                return None
            self._known[span.version_id] = [
                KeyValues.from_texts(column, list(dict.fromkeys(texts)))
                for column, texts in zip(columns, zip(*self._keys, strict=True), strict=True)
            ]
        return self._known[span.version_id]


def refuse_absent(rows: pa.Table, span: ChangeSpan, name: str, before: pa.Array) -> None:
    """Refuses images before changes that lack a column of the key: a partial image has the key of then, which may have
    been another one.

    Raises:
        PastUnknownError: There is such an image.
    """
    missing = rows["_missing"].combine_chunks()
    if missing.null_count == len(missing) or before.null_count == 0:
        return
    lacks = _listed(missing, f"{BEFORE}.{name}")
    if pc.any(lacks).as_py():
        raise _not_logged(span, name, "which row a change is of")


class ConditionFilter:
    """The changes of rows that meet a condition, before the change or after it.

    The condition has the names of some version; in other versions, it is about the same columns under their names of
    then. In a version that lacks one of the columns, no row meets it.

    Args:
        text: The condition, in MySQL's SQL.
        names_of: The range whose names it has.

    Raises:
        ConditionError: It is not a condition on the table; the message has the position.
    """

    def __init__(self, text: str, names_of: ChangeSpan) -> None:
        # Imported here: only conditions need sqlglot.
        from strata_cdc.dialects.conditions.condition import check_condition, parse  # noqa: PLC0415  see above

        check_condition(text)
        self._text, self._names_of = text, names_of
        self.columns = parse(text, names_of.definition, str(names_of.name)).columns
        """The columns that it names."""
        self._known: dict[int, _VersionCondition | None] = {}

    def reads(self, span: ChangeSpan) -> ReadFirst | None:
        """See `ChangeFilter`."""
        known = self._read(span)
        return None if known is None else ReadFirst(tuple(known.names.values()), ("_missing", "_invalid"))

    def may_want(self, rows: pa.Table, span: ChangeSpan) -> bool:  # noqa: ARG002  the protocol's
        """See `ChangeFilter`."""
        return True

    def wanted(self, rows: pa.Table, span: ChangeSpan) -> pa.Array:
        """See `ChangeFilter`."""
        known = self._read(span)
        if known is None or not len(rows):
            return _none_of(len(rows))
        images = rows[BEFORE].combine_chunks()
        missing, invalid = rows["_missing"].combine_chunks(), _keys(rows["_invalid"].combine_chunks())
        op = rows["_op"].combine_chunks()
        befores, afters = {}, {}
        unknown_before = unknown_after = _none_of(len(rows))
        for name, then in known.names.items():
            before = images.field(images.type.get_field_index(column_name(then)))
            lacks_before, lacks_after = _listed(missing, f"{BEFORE}.{then}"), _listed(missing, then)
            is_kept = pc.and_(pc.and_(lacks_after, pc.equal(op, "update")), pc.invert(lacks_before))
            afters[name] = pc.if_else(is_kept, before, rows[column_name(then)].combine_chunks())
            befores[name] = before
            lacks_after = pc.and_(lacks_after, pc.invert(is_kept))
            unknown_before = _any(unknown_before, lacks_before, _listed(invalid, f"{BEFORE}.{then}"))
            unknown_after = _any(unknown_after, lacks_after, _listed(invalid, then))
        has_before, has_after = pc.not_equal(op, "insert"), pc.not_equal(op, "delete")
        holds = pc.or_(
            _known(known.condition, befores, has_before, unknown_before),
            _known(known.condition, afters, has_after, unknown_after),
        )
        doubt = pc.or_(pc.and_(has_after, unknown_after), pc.and_(has_before, unknown_before))
        if pc.any(pc.and_(doubt, pc.invert(holds))).as_py():
            raise _not_logged(span, ", ".join(sorted(self.columns)), f"whether `{self._text}` is true for a change")
        return holds

    def _read(self, span: ChangeSpan) -> _VersionCondition | None:
        if span.version_id not in self._known:
            self._known[span.version_id] = self._read_anew(span)
        return self._known[span.version_id]

    def _read_anew(self, span: ChangeSpan) -> _VersionCondition | None:
        from strata_cdc.dialects.conditions.condition import parse  # noqa: PLC0415  as above
        from strata_cdc.dialects.conditions.read import UnknownColumnError  # noqa: PLC0415  as above

        definition, then = with_names_of(span, self._names_of)
        try:
            condition = parse(self._text, definition, str(span.name))
        except UnknownColumnError:
            return None
        return _VersionCondition(condition, {name: then[fold_name(name)] for name in sorted(condition.columns)})


class _VersionCondition(Struct, frozen=True):
    """A condition as one version reads it."""

    condition: Condition
    names: Mapping[str, str]
    """The names of its columns -> their names in the version."""


def with_names_of(span: ChangeSpan, later: ChangeSpan) -> tuple[TableDefinition, dict[str, str]]:
    """A range's definition with the columns of another range alone, under the names that they have there; and from
    the folded name of each to its name in the range."""
    names = {number: column.name for number, column in zip(later.ids, later.definition.columns, strict=True)}
    kept = [
        (column, names[number])
        for number, column in zip(span.ids, span.definition.columns, strict=True)
        if number in names
    ]
    columns = tuple(replace(column, name=name) for column, name in kept)
    return replace(span.definition, columns=columns), {fold_name(name): column.name for column, name in kept}


def _known(condition: Condition, columns: Mapping[str, pa.Array], is_there: pa.Array, is_unknown: pa.Array) -> pa.Array:
    """Where the condition is true. Of images that are not there, nothing is looked at: they have no values."""
    is_judged = pc.and_(is_there, pc.invert(is_unknown))
    chosen = pc.indices_nonzero(is_judged)
    answers = condition.evaluate({name: values.take(chosen) for name, values in columns.items()})
    holds = _none_of(len(is_there))
    return pc.replace_with_mask(holds, is_judged, pc.fill_null(answers, fill_value=False))


def _none_of(count: int) -> pa.Array:
    """False, so many times; Arrow's own way loads pandas."""
    return pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(bytes((count + 7) // 8))], 0)


def _any(*masks: pa.Array) -> pa.Array:
    return reduce(pc.or_, masks)


def _keys(maps: pa.Array) -> pa.Array:
    """The keys of each row's map."""
    if maps.null_count == len(maps):
        return pa.nulls(len(maps), pa.list_(pa.string()))
    return pa.array(
        [None if row is None else [key for key, _ in row] for row in maps.to_pylist()], pa.list_(pa.string())
    )


def _listed(lists: pa.Array, name: str) -> pa.Array:
    """Whether each row's list has a name."""
    if lists.null_count == len(lists):
        return _none_of(len(lists))
    return pa.array([name in (row or ()) for row in lists.to_pylist()], pa.bool_())


def _not_logged(span: ChangeSpan, columns: str, what: str) -> PastUnknownError:
    return PastUnknownError(
        f"nobody knows {what}: the binlog has partial images, or values without a type, without {columns}",
        table=str(span.name),
        remedy="Name other columns, or other transactions. `binlog_row_image = FULL` logs whole rows; TiCDC writes "
        "them in CSV with `output-old-value = true`.",
    )
