"""ENUM and SET: converts them into each other by label, to texts and numbers, and from these.
Not here: the labels of a type (`schema/model/types.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.schema.model.types import TypeKind
from strata_cdc.tables.values.numbers import to_integers
from strata_cdc.tables.values.pair import by_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.tables.values.pair import Pair

_MEMBERS_OF_64_BITS = 63


def to_labels(values: pa.Array, pair: Pair) -> pa.Array:
    """Texts, ENUMs and SETs to an ENUM or SET: by labels that it has in exactly this spelling."""
    return by_value(values, _member_of(pair) if pair.new.kind is TypeKind.ENUM else _members_of(pair), pa.string())


def _member_of(pair: Pair) -> Callable[[str], str]:
    spelled = _spellings(pair)
    # An ENUM's number 0 stays 0; for a SET without members, or an empty text, this is an error.
    keeps_empty = pair.old.kind is TypeKind.ENUM and "" not in pair.old.labels

    def label_of(value: str) -> str:
        text = value if pair.old.kind is TypeKind.ENUM else value.rstrip(" ")
        label = spelled(text)
        if label is None and (text or not keeps_empty):
            pair.refuse(f"values are no labels of it, as {value!r}")
        return label or ""

    return label_of


def _members_of(pair: Pair) -> Callable[[str], str]:
    spelled = _spellings(pair)
    order = {label: number for number, label in enumerate(pair.new.labels)}
    is_enum = pair.old.kind is TypeKind.ENUM

    def members_of(value: str) -> str:
        if not value:
            return value
        members = {spelled(member) for member in ([value] if is_enum else value.split(","))}
        if None in members:
            pair.refuse(f"values are no members of it, as {value!r}")
        return ",".join(sorted((member for member in members if member is not None), key=order.__getitem__))

    return members_of


def _spellings(pair: Pair) -> Callable[[str], str | None]:
    """The label of the new type with this text; collations without case accept ASCII letters in either case."""
    labels = frozenset(pair.new.labels)
    has_case = not (pair.after.collation or "").endswith("_ci")
    folded = {} if has_case else {label.lower(): label for label in labels if label.isascii()}

    def spelled(text: str) -> str | None:
        if text in labels:
            return text
        return folded.get(text.lower()) if text.isascii() else None

    return spelled


def numbers_of_labels(values: pa.Array, pair: Pair) -> pa.Array:
    """The number of an ENUM's label, starting with 1; the bits of a SET's members."""
    bits = {label: number for number, label in enumerate(pair.old.labels)}
    if "" in bits:
        pair.refuse("a label is empty")
    if pair.old.kind is TypeKind.ENUM:
        numbers = by_value(values, lambda value: bits[value] + 1 if value else 0, pa.int64())
    elif len(bits) > _MEMBERS_OF_64_BITS:
        pair.refuse("the set has 64 members")
    else:
        numbers = by_value(values, lambda value: sum(1 << bits[word] for word in value.split(",") if word), pa.int64())
    return to_integers(numbers, pair)


def label_of_numbers(values: pa.Array, pair: Pair) -> pa.Array:
    """Integers to an ENUM: as the numbers of its labels."""
    labels = pair.new.labels
    range_ = pc.min_max(values).as_py()
    if range_["min"] is not None and (range_["min"] < 1 or range_["max"] > len(labels)):
        pair.refuse("numbers are none of its labels")
    return pa.array(labels, pa.string()).take(pc.subtract(values.cast(pa.int64()), 1))
