"""Conversions by which an ALTER of MariaDB makes other values than that of MySQL: rows are read again then.
Not here: the conversions that are known (`schema/model/conversions.py`, `tables/values/`).

Found by random ALTERs on MariaDB 11.8.9 and 10.11 (`tests/tables/test_effects_on_server.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.model.charsets import NOT_OF_ASCII
from strata_cdc.schema.model.types import TEMPORAL_WITH_FRACTION, Family, TypeKind, parse_column_type

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Column

_TEXTS = frozenset({Family.CHARACTERS, Family.TEXT})


def unknown_on_mariadb(old: Column, new: Column, *, truncates_fractions: bool) -> str | None:
    """Why it is not known what a conversion makes of the values; None if it is what MySQL makes of them.

    Args:
        old: The column before.
        new: The column afterwards, with converted values.
        truncates_fractions: Whether the session cuts fractions of seconds, as it does by default.
    """
    before, after = parse_column_type(old.column_type), parse_column_type(new.column_type)
    families = before.kind.facts.family, after.kind.facts.family
    if not truncates_fractions and before.kind in TEMPORAL_WITH_FRACTION and before.length:
        # It rounds a TIME(2) that becomes TIME, and cuts a DATETIME(3) that becomes DATE.
        return "which fractions of seconds TIME_ROUND_FRACTIONAL rounds is not known here"
    if families[0] is Family.FLOATING and families[1] in _TEXTS:
        # 0.00000010000000116860974, where MySQL writes 1.0000000116860974e-7.
        return f"{new.name}: how MariaDB writes floating-point numbers as texts is not known here"
    if families == (Family.BITS, Family.FLOATING):
        # 64 bits, all 1, become -1.
        return f"{new.name}: which numbers MariaDB makes of bits is not known here"
    if families[0] is Family.LABELS and new.character_set in NOT_OF_ASCII:
        # The label 12 becomes the one character U+3132.
        return f"{new.name}: which texts MariaDB makes of labels in {new.character_set} is not known here"
    if before.kind is TypeKind.SET and families[1] is Family.LABELS:
        # 'a,x' of SET('y', 'x', 'a') becomes '' in SET('a', 'b', 'x', 'y', 'z').
        return f"{new.name}: which labels MariaDB keeps of a SET is not known here"
    return None
