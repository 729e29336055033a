"""Where an ALTER may make keys equal that rows had one after the other, and the keys in the versions before it.
Not here: the conversions themselves (`origins.py`), SQL (`dialects/views.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.changes.arrow import may_be_invalid
from strata_cdc.dialects.conversions import stay_apart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.dialects.view_source import TypeChange
    from strata_cdc.schema.model.definition import Column
    from strata_cdc.tables.lifetimes import TableLifetime, VersionSpan


class KeyForm(Struct, frozen=True):
    """A column of a key in one stage."""

    at: int
    """Index of the column in the definition of now."""
    stage: int
    column: Column
    """The column at the end of the stage."""
    steps: int
    """Number of later conversions, up to now."""


class KeyStages(Struct, frozen=True):
    """The stages of a table: series of versions in which different keys stay different."""

    of_eras: tuple[int, ...]
    """The stage of each version of the table, beginning with 0."""
    forms: tuple[KeyForm, ...]
    """The columns of the key in each stage, in order."""


def key_stages(lifetime: TableLifetime, key: Sequence[int], *, shows_before: bool = False) -> KeyStages:
    """The stages of a table.

    Args:
        lifetime: The table's lifetime; each column of the key has an origin in all of its versions.
        key: Indexes of the columns of the key.
        shows_before: Whether a stage also ends where a key may have another value afterwards than a cast gives.
    """
    of_eras = [0]
    forms: list[KeyForm] = []
    for era, following in zip(lifetime.eras, lifetime.eras[1:], strict=False):
        ends = any(_ends(era, following, at, shows_before=shows_before) for at in key)
        if ends:
            forms += [_form(era, at, of_eras[-1]) for at in key]
        of_eras.append(of_eras[-1] + ends)
    return KeyStages(tuple(of_eras), (*forms, *(_form(lifetime.eras[-1], at, of_eras[-1]) for at in key)))


def _ends(era: VersionSpan, following: VersionSpan, at: int, *, shows_before: bool) -> bool:
    value = era.values[at]
    steps = value.origin.steps[: len(value.origin.steps) - len(following.values[at].origin.steps)]
    may_differ = shows_before and (value.column is None or value.changed is not None)
    return bool(steps) and (may_differ or any(map(_may_make_equal, steps)))


def _may_make_equal(step: TypeChange) -> bool:
    return any(map(may_be_invalid, (step.before, step.after))) or step.unknown is not None or not stay_apart(step)


def _form(era: VersionSpan, at: int, stage: int) -> KeyForm:
    origin = era.values[at].origin
    if origin.column is None:
        raise ValueError("a column of the key has no origin")
    return KeyForm(at, stage, origin.column, len(origin.steps))
