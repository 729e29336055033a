"""The columns of a view, and where each version of its table has their values.
Not here: single columns (`column_sources.py`), where keys may become equal (`key_stages.py`), SQL
(`dialects/views.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.dialects.view_source import OF_NO_STAGE, Branch, ColumnSource, ViewColumn
from strata_cdc.tables.column_sources import converted_place_of, held_place_of, kinds_of, place_of, view_column
from strata_cdc.tables.key_stages import KeyStages, key_stages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.tables.lifetimes import TableLifetime, Value

    Place = Callable[[Value, ViewColumn, Sequence[pa.Field], Mapping[str, pa.DataType]], ColumnSource]


class ViewLayout(Struct, frozen=True):
    """The columns of a view over the versions of a table."""

    life: TableLifetime
    shown: tuple[ViewColumn, ...]
    """The columns of the view."""
    stages: KeyStages
    place: Place
    """Where rows of a version have the value of a column of `shown`; the arguments of `place_of`."""

    @property
    def columns(self) -> tuple[ViewColumn, ...]:
        """The columns of the view, then those of the keys of the stages."""
        return (*self.shown, *self._forms())

    def places(self, at: int, there: Sequence[pa.Field]) -> tuple[ColumnSource, ...]:
        """Where rows of one version have the values of all `columns`.

        Args:
            at: Index of the version in the table's lifetime.
            there: Columns of the table in the lake.
        """
        of_era, stage = self.life.eras[at], self.stages.of_eras[at]
        kinds = kinds_of(of_era.definition)
        places = [
            self.place(value, column, there, kinds) for value, column in zip(of_era.values, self.shown, strict=True)
        ]
        for form, column in zip(self.stages.forms, self._forms(), strict=True):
            origin = of_era.values[form.at].origin
            until = replace(origin, steps=origin.steps[: len(origin.steps) - form.steps])
            is_over = stage > form.stage
            places.append(ColumnSource() if is_over else converted_place_of(until, column, there, kinds))
        return tuple(places)

    def branches(self, fields: Mapping[TableName, Sequence[pa.Field]]) -> tuple[Branch, ...]:
        """The branches of the view; versions whose values are in the same columns are one branch.

        Args:
            fields: The columns of each change table that exists.
        """
        found: dict[tuple[str, int, tuple[ColumnSource, ...]], list[int]] = {}
        for at, (era, stage) in enumerate(zip(self.life.eras, self.stages.of_eras, strict=True)):
            if era.name in fields:
                places = self.places(at, fields[era.name])
                found.setdefault((str(era.name), stage, places), []).append(era.version_id)
        return tuple(Branch(name, tuple(versions), places, stage) for (name, stage, places), versions in found.items())

    def _forms(self) -> list[ViewColumn]:
        return [
            replace(view_column(form.column, is_key=True), stage=form.stage, is_shown=False)
            for form in self.stages.forms
        ]


def changes_layout(life: TableLifetime, columns: Sequence[ViewColumn]) -> ViewLayout:
    """The layout of a view of changes, with the values that rows had then."""
    return ViewLayout(life, tuple(columns), KeyStages((0,) * len(life.eras), ()), place_of)


def rows_layout(life: TableLifetime, columns: Sequence[ViewColumn]) -> ViewLayout:
    """The layout of a view of present rows, with the values that conversions have left."""
    stages = key_stages(life, _key(columns))
    last = stages.of_eras[-1]
    shown = tuple(replace(column, stage=last) if column.is_key else column for column in columns)
    # The columns of the last stage's key are those that are shown.
    before = KeyStages(stages.of_eras, tuple(form for form in stages.forms if form.stage < last))
    return ViewLayout(
        life,
        shown,
        before,
        lambda value, column, there, kinds: converted_place_of(value.origin, column, there, kinds),
    )


def history_layout(life: TableLifetime, columns: Sequence[ViewColumn]) -> ViewLayout:
    """The layout of a history, with the values that rows had then, unless it is not known which they have now."""
    key = _key(columns)
    stages = key_stages(life, key, shows_before=True)
    if stages.of_eras[-1] == 0:
        return ViewLayout(life, tuple(columns), KeyStages(stages.of_eras, ()), held_place_of)
    shown = tuple(replace(column, stage=OF_NO_STAGE) if column.is_key else column for column in columns)

    def place(
        value: Value, column: ViewColumn, there: Sequence[pa.Field], kinds: Mapping[str, pa.DataType]
    ) -> ColumnSource:
        # What became of keys is seen at the end of each stage.
        return (place_of if column.is_key else held_place_of)(value, column, there, kinds)

    return ViewLayout(life, shown, stages, place)


def _key(columns: Sequence[ViewColumn]) -> list[int]:
    return [at for at, column in enumerate(columns) if column.is_key]
