"""Values of a sink's columns, from the texts in its files to the types of change tables.
Not here: bytes (`encodings.py`), the files (`csv_rows.py`, `canal_rows.py`), types in Arrow (`changes/arrow.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.changes.arrow import VECTOR, arrow_type_of
from strata_cdc.errors import BadData, Usage
from strata_cdc.schema.model.types import Family, TypeKind, kinds_of, parse_column_type
from strata_cdc.ticdc.encodings import BinaryForm, NotEncodedError, bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.model.definition import Column
    from strata_cdc.schema.model.types import ColumnType

_NOT_LEAP: Final = "([02468][1235679]|[13579][01345789])"
"""Two digits that four does not divide."""
_NO_DATE: Final = rf"^0000|-00-|-00( |$)|-02-3|-(04|06|09|11)-31|^(\d\d{_NOT_LEAP}|{_NOT_LEAP}00)-02-29"
"""Dates that no calendar has: a zero in them, or a day that their month lacks."""
_TIME: Final = r"^(?P<sign>-?)(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)(?:\.(?P<f>\d{1,6}))?$"


class NotAValueError(ValueError):
    """A text is no value of its column's type."""


class ValueForm(Struct, frozen=True):
    """What the types do not say of the texts of a sink's values."""

    binary: BinaryForm
    has_label_numbers: bool
    """ENUM and SET are numbers, not labels."""
    time_zone: str | None
    """In which TiCDC writes TIMESTAMP: the time zone of its server (`cdc server --tz`). None: not known."""


class ConvertedTexts(Struct, frozen=True):
    """The values of a column, of its type in `changes/arrow.py`."""

    values: pa.Array
    invalid: pa.Array | None = None
    """The texts of the values that the type cannot express (zero dates), else NULL; None if there are none."""


class ColumnValues(Struct, frozen=True):
    """How the texts of one column become values."""

    name: str
    read_as: pa.DataType
    """The type that a CSV reader may convert the texts to; string for all other readers."""
    convert: Callable[[pa.Array], ConvertedTexts]
    """From texts, or values of `read_as`. Raises NotAValueError for a text that is no value."""


def column_values(column: Column, form: ValueForm) -> ColumnValues:
    """How the texts of a column become values.

    Raises:
        Usage: The column is a TIMESTAMP, and no time zone is known.
        BadData: The column has numbers of labels, and no labels are known.
    """
    kind = parse_column_type(column.column_type)
    read_as, convert = FROM_TEXT[kind.kind](column, kind, form)

    def checked(texts: pa.Array) -> ConvertedTexts:
        try:
            return convert(texts)
        except (pa.ArrowInvalid, NotEncodedError, IndexError) as error:
            raise NotAValueError(f"column {column.name}: a value is no {column.column_type}") from error

    return ColumnValues(column.name, read_as, checked)


_Conversion = tuple[pa.DataType, "Callable[[pa.Array], ConvertedTexts]"]


def _cast(_column: Column, kind: ColumnType, _form: ValueForm) -> _Conversion:
    """Arrow reads the text."""
    target = arrow_type_of(kind)
    return target, lambda texts: ConvertedTexts(texts.cast(target))


def _bits(_column: Column, kind: ColumnType, _form: ValueForm) -> _Conversion:
    """BIT, as a number."""
    target, count = arrow_type_of(kind), kind.length or 1

    def convert(texts: pa.Array) -> ConvertedTexts:
        numbers = _within(texts.cast(pa.uint64()), 0, (1 << count) - 1)
        return ConvertedTexts(pc.equal(numbers, 1) if pa.types.is_boolean(target) else numbers.cast(target))

    return pa.uint64(), convert


def _integer(_column: Column, kind: ColumnType, _form: ValueForm) -> _Conversion:
    """Read as a type of the same range, where Arrow has one."""
    target = arrow_type_of(kind)
    signed, unsigned = _INTEGERS[kind.kind]
    read_as = unsigned if kind.unsigned else signed
    if kind.kind is not TypeKind.MEDIUMINT:
        return read_as, lambda texts: ConvertedTexts(texts.cast(read_as).cast(target))
    least, most = (0, _MEDIUM) if kind.unsigned else (-(_MEDIUM + 1) // 2, _MEDIUM // 2)
    return read_as, lambda texts: ConvertedTexts(_within(texts.cast(read_as), least, most).cast(target))


_MEDIUM: Final = (1 << 24) - 1
_INTEGERS: Final = {
    TypeKind.TINYINT: (pa.int8(), pa.uint8()),
    TypeKind.SMALLINT: (pa.int16(), pa.uint16()),
    TypeKind.MEDIUMINT: (pa.int32(), pa.uint32()),
    TypeKind.INT: (pa.int32(), pa.uint32()),
    TypeKind.BIGINT: (pa.int64(), pa.uint64()),
}


def _within(numbers: pa.Array, least: int, most: int) -> pa.Array:
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] is not None and not least <= bounds["min"] <= bounds["max"] <= most:
        raise pa.ArrowInvalid("a number beyond the bounds of its type")
    return numbers


def _text(_column: Column, _kind: ColumnType, _form: ValueForm) -> _Conversion:
    return pa.string(), ConvertedTexts


def _bytes(_column: Column, _kind: ColumnType, form: ValueForm) -> _Conversion:
    return pa.string(), lambda texts: ConvertedTexts(bytes_of(texts, form.binary))


def _calendar(_column: Column, kind: ColumnType, _form: ValueForm) -> _Conversion:
    """DATE and DATETIME."""
    target = arrow_type_of(kind)
    return pa.string(), lambda texts: _dates(texts, lambda good: good.cast(target))


def _timestamp(column: Column, _kind: ColumnType, form: ValueForm) -> _Conversion:
    zone = form.time_zone
    if zone is None:
        raise Usage(
            f"column {column.name} is a TIMESTAMP, and no file says in which time zone TiCDC writes it",
            remedy="Give --time-zone: the time zone of the TiCDC servers (`cdc server --tz`), such as UTC or +08:00.",
        )

    try:
        pc.assume_timezone(pa.array([0], pa.timestamp("us")), zone)
    except pa.ArrowInvalid as error:
        raise Usage(f"{zone!r} is no time zone", remedy="Give --time-zone as UTC, +08:00 or Europe/Berlin.") from error

    def convert(good: pa.Array) -> pa.Array:
        # A local time that there is twice, or never, is refused.
        return pc.assume_timezone(good.cast(pa.timestamp("us")), zone).cast(pa.timestamp("us", tz="UTC"))

    return pa.string(), lambda texts: _dates(texts, convert)


def _dates(texts: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> ConvertedTexts:
    try:
        return ConvertedTexts(convert(texts))
    except pa.ArrowInvalid:
        is_none = pc.match_substring_regex(texts, _NO_DATE)
        if not pc.any(is_none).as_py():
            raise
    nothing = pa.scalar(None, pa.string())
    good, bad = pc.if_else(is_none, nothing, texts), pc.if_else(is_none, texts, nothing)
    return ConvertedTexts(convert(good), bad)


def _time(_column: Column, _kind: ColumnType, _form: ValueForm) -> _Conversion:
    return pa.string(), lambda texts: ConvertedTexts(_micros(texts))


def _micros(texts: pa.Array) -> pa.Array:
    """TIME as microseconds."""
    parts = pc.extract_regex(texts, pattern=_TIME)
    if parts.null_count > texts.null_count:
        raise pa.ArrowInvalid("no time")
    sign, *numbers = parts.flatten()
    hours, minutes, seconds = (part.cast(pa.int64()) for part in numbers[:3])
    fraction = pc.utf8_rpad(numbers[3], 6, "0").cast(pa.int64())
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60), seconds)
    micros = pc.add(pc.multiply(whole, 1_000_000), fraction)
    return pc.if_else(pc.equal(sign, "-"), pc.negate(micros), micros)


def _labels(column: Column, kind: ColumnType, form: ValueForm) -> _Conversion:
    if not form.has_label_numbers:
        return pa.string(), ConvertedTexts
    if not kind.labels:
        raise BadData(
            f"column {column.name} has numbers of labels, and the schema file has no labels",
            remedy="TiCDC writes them since 2026 (ColumnElems). Use a sink of CSV, or exclude the table.",
        )
    text_of = _enum_text if kind.kind is TypeKind.ENUM else _set_text
    return pa.string(), lambda texts: ConvertedTexts(_by_number(texts, kind.labels, text_of))


def _by_number(texts: pa.Array, labels: tuple[str, ...], text_of: Callable[[int, tuple[str, ...]], str]) -> pa.Array:
    encoded = texts.cast(pa.uint64()).dictionary_encode()
    named = pa.array([text_of(number, labels) for number in encoded.dictionary.to_pylist()], pa.string())
    return named.take(encoded.indices)


def _enum_text(number: int, labels: tuple[str, ...]) -> str:
    """The label of a number; 0 is the empty text of an invalid value."""
    return ("", *labels)[number]


def _set_text(number: int, labels: tuple[str, ...]) -> str:
    if number >> len(labels):
        raise IndexError(number)
    return ",".join(label for at, label in enumerate(labels) if number >> at & 1)


def _vector(_column: Column, _kind: ColumnType, _form: ValueForm) -> _Conversion:
    return pa.string(), lambda texts: ConvertedTexts(_floats(texts))


def _floats(texts: pa.Array) -> pa.Array:
    """`[1,2.5]` as a list."""
    if not pc.all(pc.match_substring_regex(texts, r"^\[.*\]$")).as_py() and texts.null_count < len(texts):
        raise pa.ArrowInvalid("no vector")
    inner = pc.utf8_slice_codeunits(texts, 1, -1)
    lists = pc.split_pattern(inner, ",")
    is_empty = pc.equal(inner, "")
    numbers = pc.if_else(pc.equal(lists.flatten(), ""), pa.scalar(None, pa.string()), lists.flatten())
    values = pa.ListArray.from_arrays(lists.offsets, numbers.cast(pa.float32()), mask=lists.is_null())
    empty = pa.array([[]], VECTOR).take(pa.nulls(len(texts), pa.int8()).fill_null(0))
    return pc.if_else(is_empty, empty, values) if pc.any(is_empty).as_py() else values


_OF_FAMILY: Final[dict[Any, Callable[[Column, ColumnType, ValueForm], _Conversion]]] = {
    Family.INTEGER: _integer,
    Family.DECIMAL: _cast,
    Family.FLOATING: _cast,
    Family.BITS: _bits,
    Family.CHARACTERS: _text,
    Family.TEXT: _text,
    Family.BYTES: _bytes,
    Family.BLOB: _bytes,
    Family.LABELS: _labels,
    Family.TEMPORAL: _calendar,
    Family.YEAR: _cast,
    Family.DOCUMENT: _text,
    Family.VECTOR: _vector,
}
FROM_TEXT: Final = {
    **{kind: convert for family, convert in _OF_FAMILY.items() for kind in kinds_of(family)},
    TypeKind.TIME: _time,
    TypeKind.TIMESTAMP: _timestamp,
}
"""How the texts of each column type that TiDB has become values."""
