"""Which rows are in some partitions, by the server's rules.
Not here: what the partitions are (`schema/model/partitions.py`)."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.errors import ReadAgainError
from strata_cdc.schema.model.conversions import ValueClass, value_class
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.partitions import Function
from strata_cdc.schema.model.types import parse_column_type
from strata_cdc.tables.layout import column_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from strata_cdc.schema.model.definition import Column, TableDefinition
    from strata_cdc.schema.model.partitions import BorderValue, HeldRows, Partition, Partitioning

_TO_DAYS_OF_1970: Final = 719_528
_SECOND: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  DATETIME has no zone
_PLAIN: Final = re.compile(r"[A-Za-z0-9]*")
_NO_CASE: Final = re.compile(r"(\w+_general_ci|\w+_0900_ai_ci|\w+_unicode_ci|\w+_unicode_520_ci|latin1_swedish_ci)")
_CASE: Final = re.compile(r"(\w+_bin|binary|\w+_0900_as_cs)")
"""In these collations, ASCII letters and digits equal only themselves; in those of `_NO_CASE` also the other case."""
_TEMPORAL: Final = (ValueClass.DATE, ValueClass.DATETIME, ValueClass.TIMESTAMP)


def in_partitions(rows: pa.Table, definition: TableDefinition, held: HeldRows) -> NDArray[np.bool_]:
    """Which rows are in the named partitions.

    Args:
        rows: With the columns of the definition, by their names in the change table.
        held: The partitions.

    Raises:
        ReadAgainError: It is not known: only the server knows the order of this type or text, or a NULL may be a zero
            date.
    """
    scheme = held.partitioning
    columns = [_ComparableColumn.from_rows(rows, definition, name, scheme) for name in scheme.columns]
    wanted = {fold_name(name) for name in held.names}
    inside = np.zeros(rows.num_rows, bool)
    for at, partition in enumerate(scheme.partitions):
        if fold_name(partition.name) not in wanted:
            continue
        if scheme.is_range:
            below = _is_below(columns, partition.below)
            inside |= below & ~_is_below(columns, scheme.partitions[at - 1].below) if at else below
        else:
            inside |= _is_listed(columns, partition)
    return inside


class _ComparableColumn:
    """A column's values as numbers or texts that compare in the same way as on the server."""

    def __init__(self, values: Any, nulls: NDArray[np.bool_], literal: Callable[[BorderValue], Any]) -> None:
        self.values, self.nulls, self._literal = values, nulls, literal

    @classmethod
    def from_rows(
        cls, rows: pa.Table, definition: TableDefinition, name: str, scheme: Partitioning
    ) -> _ComparableColumn:
        column = next((known for known in definition.columns if fold_name(known.name) == fold_name(name)), None)
        if column is None:
            raise ReadAgainError(f"the partitions are by a column {name} that the table has not")
        values = rows[column_name(column.name)].combine_chunks()
        kind = value_class(parse_column_type(column.column_type).kind)
        nulls = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
        if kind in _TEMPORAL:
            if nulls.any():
                raise _unknown(column, "a value is NULL, or a zero date")
            return cls(_moments(values, column, scheme.function), nulls, _literal_of(kind, scheme.function, column))
        if kind is ValueClass.INTEGER and scheme.function is Function.ITSELF:
            return cls(values.fill_null(0).to_numpy(zero_copy_only=False), nulls, _number(column))
        if kind is ValueClass.TEXT and not scheme.is_range:
            fold = _folding(column)
            return cls(_texts(values, column, fold), nulls, _text(column, fold))
        raise _unknown(column, f"the server alone knows how {column.column_type} is placed")

    def below(self, bound: BorderValue) -> NDArray[np.bool_]:
        """Whether values are below a bound. NULL is below everything, and everything is below None (MAXVALUE)."""
        if bound is None:
            return np.ones(len(self.nulls), bool)
        is_below: NDArray[np.bool_] = self.nulls | (self.values < self._literal(bound))
        return is_below

    def equal(self, bound: BorderValue) -> NDArray[np.bool_]:
        """Whether values equal a listed value; NULL equals a listed NULL."""
        if bound is None:
            return self.nulls
        is_equal: NDArray[np.bool_] = ~self.nulls & (self.values == self._literal(bound))
        return is_equal


def _is_below(columns: Sequence[_ComparableColumn], bounds: tuple[BorderValue, ...]) -> NDArray[np.bool_]:
    """Compares by the first column in which a row and the bound differ; MAXVALUE ends the comparison."""
    is_below = columns[0].below(bounds[0])
    if len(bounds) == 1 or bounds[0] is None:
        return is_below
    return is_below | (columns[0].equal(bounds[0]) & _is_below(columns[1:], bounds[1:]))


def _is_listed(columns: Sequence[_ComparableColumn], partition: Partition) -> NDArray[np.bool_]:
    is_listed = np.zeros(len(columns[0].nulls), bool)
    for values in partition.values:
        is_listed |= np.logical_and.reduce([column.equal(value) for column, value in zip(columns, values, strict=True)])
    return is_listed


def _moments(values: pa.Array, column: Column, function: Function) -> NDArray[np.int64]:
    digits = parse_column_type(column.column_type).length or 0
    if function is Function.YEAR:
        moments = pc.year(values).cast(pa.int64())
    elif function is Function.TO_DAYS:
        moments = pc.add(_days(values), _TO_DAYS_OF_1970)
    elif function is Function.UNIX_TIMESTAMP:
        if digits:
            raise _unknown(column, "fractions of a second are rounded in a way that is not known here")
        moments = pc.divide(values.cast(pa.int64()), _SECOND)
    elif pa.types.is_date(values.type):
        moments = _days(values)
    else:
        moments = values.cast(pa.int64())
    return np.asarray(moments.to_numpy(zero_copy_only=False))


def _days(values: pa.Array) -> pa.Array:
    return values.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())


def _literal_of(kind: ValueClass, function: Function, column: Column) -> Callable[[BorderValue], int]:
    if function is not Function.ITSELF:
        return _number(column)
    if kind is ValueClass.TIMESTAMP:
        raise _unknown(column, "a TIMESTAMP is placed by the session's time zone")

    return lambda value: _moment(value, kind, column)


def _moment(value: BorderValue, kind: ValueClass, column: Column) -> int:
    """Days of a DATE, microseconds of a DATETIME, since 1970."""
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError as error:
        raise _unknown(column, f"{value!r} is no plain date") from error
    if moment.tzinfo is not None:
        raise _unknown(column, f"{value!r} is converted to the session's time zone")
    if kind is ValueClass.DATE:
        if moment.time() != datetime.min.time():
            raise _unknown(column, f"{value!r} is no date")
        return (moment.date() - date(1970, 1, 1)).days
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * _SECOND + since.microseconds


def _number(column: Column) -> Callable[[BorderValue], int]:
    def number(value: BorderValue) -> int:
        if isinstance(value, int):
            return value
        raise _unknown(column, f"{value!r} is no number")

    return number


def _folding(column: Column) -> Callable[[str], str]:
    collation = column.collation or ""
    if _NO_CASE.fullmatch(collation):
        return str.lower
    if _CASE.fullmatch(collation):
        return str
    raise _unknown(column, f"only the server knows which values are equal in {collation or 'its collation'}")


def _texts(values: pa.Array, column: Column, fold: Callable[[str], str]) -> NDArray[np.object_]:
    encoded = values.fill_null("").dictionary_encode()
    known = [_plain(column, fold, text) for text in encoded.dictionary.to_pylist()]
    return np.array(known, object)[encoded.indices.to_numpy()] if known else np.empty(0, object)


def _text(column: Column, fold: Callable[[str], str]) -> Callable[[BorderValue], str]:
    return lambda value: _plain(column, fold, value)


def _plain(column: Column, fold: Callable[[str], str], value: BorderValue) -> str:
    if not isinstance(value, str) or not _PLAIN.fullmatch(value):
        raise _unknown(column, f"the server alone knows what {value!r} is equal to")
    return fold(value)


def _unknown(column: Column, why: str) -> ReadAgainError:
    return ReadAgainError(f"which partition rows lie in is not known, by {column.name}: {why}")
