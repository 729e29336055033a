"""The lifetimes of a table and of its columns, from CREATE to DROP through all names: values, stored in a run's plan.
Not here: computing them from a history (`schema/history/column_lifetimes.py`)."""

from __future__ import annotations

from msgspec import Struct

from strata_cdc.schema.model.folding import fold_name


class ColumnStep(Struct, frozen=True):
    """The facts of a column from one version on."""

    version_id: int
    name: str
    kind: str
    """Equal if values stay as they are: type, charset, whether NULL is allowed, and the position in the primary key."""
    is_key: bool = False
    """Whether it is part of the primary key."""


class ColumnLifetime(Struct, frozen=True):
    """One column from the statement that made it to the one that dropped it."""

    steps: tuple[ColumnStep, ...]
    ended: int | None = None
    """The first version that does not have it any more."""


class ColumnLifetimes(Struct, frozen=True):
    """A table from CREATE to DROP, under all of its names."""

    versions: tuple[int, ...] = ()
    """In stream order; later ones override earlier ones of the same position."""
    columns: tuple[ColumnLifetime, ...] = ()

    def index_of(self, version: int) -> int | None:
        """The index of a version among them; None if it is none of them."""
        return self.versions.index(version) if version in self.versions else None

    def step_at(self, column: ColumnLifetime, version: int) -> ColumnStep | None:
        """The facts of a column in a version; None if that version does not have it."""
        at = self.versions.index(version)
        return next((step for step, first, end in self._spans(column) if first <= at < end), None)

    def first_named(self, name: str, first: int, last: int) -> ColumnLifetime | None:
        """The first column that has a name, between two indexes of versions (both inclusive)."""
        wanted = fold_name(name)
        lifetimes = [
            (max(begin, first), number)
            for number, column in enumerate(self.columns)
            for step, begin, end in self._spans(column)
            if fold_name(step.name) == wanted and begin <= last and end > first
        ]
        return self.columns[min(lifetimes)[1]] if lifetimes else None

    def key_of(self, version: int) -> frozenset[ColumnLifetime]:
        """The columns of the primary key in a version."""
        steps = ((column, self.step_at(column, version)) for column in self.columns)
        return frozenset(column for column, step in steps if step is not None and step.is_key)

    def keeps(self, column: ColumnLifetime, first: int, last: int) -> bool:
        """Whether a column exists, with an equal `kind`, between two indexes of versions (both inclusive)."""
        kinds = {step.kind for step, begin, end in self._spans(column) if begin <= last and end > first}
        here = [(begin, end) for _, begin, end in self._spans(column)]
        return len(kinds) == 1 and here[0][0] <= first and here[-1][1] > last

    def _spans(self, column: ColumnLifetime) -> list[tuple[ColumnStep, int, int]]:
        """Each step with the index of the version where it begins, and of the version where the next step begins."""
        ordinals = {version: at for at, version in enumerate(self.versions)}
        begins = [ordinals[step.version_id] for step in column.steps]
        end = len(self.versions) if column.ended is None else ordinals[column.ended]
        return list(zip(column.steps, begins, [*begins[1:], end], strict=True))
