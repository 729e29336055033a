"""The stages of a table, series of versions in which the same columns identify rows, and these columns.
Not here: the conversions themselves (`origins.py`), SQL (`dialects/views.py`)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.changes.arrow import may_be_invalid
from strata_cdc.dialects.conversions import stay_apart
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.lifetimes import earlier_origin
from strata_cdc.tables.origins import ValueOrigin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.dialects.view_source import TypeChange
    from strata_cdc.schema.model.definition import Column, TableDefinition
    from strata_cdc.tables.lifetimes import VersionSpan

KeyOf = Callable[["TableDefinition"], "Sequence[str]"]
"""Gives the columns that identify a row, by folded name; none if only the whole row does."""


class StageColumn(Struct, frozen=True):
    """A column as it is in one stage."""

    stage: int
    column: Column
    """The column at the end of the stage."""
    origins: tuple[ValueOrigin, ...]
    """Where its values come from in each version up to the end of the stage."""


class KeyStages(Struct, frozen=True):
    """The stages of a table: series of versions in which different rows stay different."""

    of_spans: tuple[int, ...]
    """The stage of each version of the table, beginning with 0."""
    keys: tuple[StageColumn, ...] = ()
    """The columns that tell the rows of each stage apart, in order: all of them in a stage without a key."""
    without_key: frozenset[int] = frozenset()
    """The stages in which only whole rows are different: there may be equal rows."""
    of_one_row: frozenset[int] = frozenset()
    """The stages in which the table is a sequence: it has one row, and no column tells it apart."""

    def last_of(self, stage: int) -> int:
        """The index of the last version of a stage."""
        return len(self.of_spans) - 1 - self.of_spans[::-1].index(stage)


def key_stages(
    versions: Sequence[VersionSpan], key_of: KeyOf, ends_too: Callable[[VersionSpan, VersionSpan], bool] | None = None
) -> KeyStages:
    """The stages of a table.

    Args:
        versions: The table's versions.
        key_of: Gives the columns of a version's key.
        ends_too: Whether a stage also ends between two versions for another reason.
    """
    of_spans = [0]
    for span, following in pairwise(versions):
        ends = _ends(span, following, key_of) or (ends_too is not None and ends_too(span, following))
        of_spans.append(of_spans[-1] + ends)
    stages = KeyStages(tuple(of_spans))
    lasts = [(stage, stages.last_of(stage)) for stage in range(of_spans[-1] + 1)]
    keys = [
        stage_column(versions[: last + 1], stage, column)
        for stage, last in lasts
        for column in key_of_row(versions[last].definition, key_of)
    ]
    of_one_row = frozenset(stage for stage, last in lasts if versions[last].definition.sequence)
    without = frozenset(stage for stage, last in lasts if not key_of(versions[last].definition)) - of_one_row
    return KeyStages(stages.of_spans, tuple(keys), without, of_one_row)


def key_of_row(definition: TableDefinition, key_of: KeyOf) -> list[Column]:
    """The columns that tell rows apart: those of the key; without a key, all of them; none of a sequence, which has one
    row."""
    if definition.sequence:
        return []
    key = key_of(definition)
    return [column for column in definition.columns if not key or fold_name(column.name) in key]


def stage_column(versions: Sequence[VersionSpan], stage: int, column: Column) -> StageColumn:
    """A column of the last of some versions.

    Args:
        versions: The versions up to the end of the stage.
        stage: The number of the stage.
        column: The column, as the last of the versions has it.
    """
    origins = [ValueOrigin(column)]
    for span, following in reversed(list(pairwise(versions))):
        origins.append(earlier_origin(origins[-1], span.definition, following.effect))
    return StageColumn(stage, column, tuple(origins[::-1]))


def _ends(span: VersionSpan, following: VersionSpan, key_of: KeyOf) -> bool:
    """Whether other columns identify rows after a statement, or rows that were never there together may be equal."""
    if bool(key_of(span.definition)) != bool(key_of(following.definition)):
        return True
    if span.definition.sequence != following.definition.sequence:
        return True
    after = key_of_row(following.definition, key_of)
    origins = [earlier_origin(ValueOrigin(column), span.definition, following.effect) for column in after]
    before = {fold_name(origin.column.name) for origin in origins if origin.column is not None}
    added = [origin for origin in origins if origin.column is None]
    if before != {fold_name(column.name) for column in key_of_row(span.definition, key_of)}:
        return True
    # A new column of a table without a key has one value in all rows that are there, if it is known.
    has_other_columns = bool(added) and bool(key_of(span.definition))
    is_unknown = any(origin.unknown is not None for origin in added)
    steps = [step for origin in origins for step in origin.steps]
    return has_other_columns or is_unknown or any(map(_may_make_equal, steps))


def _may_make_equal(step: TypeChange) -> bool:
    return any(map(may_be_invalid, (step.before, step.after))) or step.unknown is not None or not stay_apart(step)
