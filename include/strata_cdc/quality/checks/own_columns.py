"""Users' own rules along the versions of a table: in which versions they hold, and the names of their columns there.
Not here: reading rules (`own.py`), finding out which column is which (`schema/history/column_lifetimes.py`). A name
means the column that had it first within the versions of the rule. The rule follows that column under all of its
names, and ends with it: a column that was added under the name later is another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.quality.checks.names import METADATA, column_name
from strata_cdc.quality.checks.own import COLUMN_ARGUMENTS, COLUMN_LISTS, columns_of
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strata_cdc.quality.checks.rules import Rule
    from strata_cdc.schema.model.definition import Column, TableDefinition
    from strata_cdc.schema.model.lifetimes import ColumnLifetime, ColumnLifetimes


class VersionsBefore(Struct, frozen=True):
    """What is known of the versions of a table."""

    lifetimes: tuple[ColumnLifetimes, ...] = ()
    """None if it is not known: then columns are identified by name."""

    def holds(self, rule: Rule, version: int) -> bool:
        """Whether a rule is about the rows of a version."""
        if rule.versions is None:
            return True
        order = [number for lifetime in self.lifetimes for number in lifetime.versions]
        first, last = rule.versions
        # A column that is not among them is identified only by its number.
        ordinals = {number: at for at, number in enumerate(order)} if version in order else {}
        at = ordinals.get(version, version)
        return (first is None or ordinals.get(first, first) <= at) and (last is None or at <= ordinals.get(last, last))

    def column(self, rule: Rule, name: str, version: int) -> str | None:
        """What a version calls a column that a rule names; None if it does not have it.

        Args:
            name: As MySQL's table has it.
            version: One of the table's.
        """
        lifetime_and_place = next(
            ((lifetime, at) for lifetime in self.lifetimes if (at := lifetime.index_of(version)) is not None), None
        )
        if lifetime_and_place is None:
            return name
        lifetime = lifetime_and_place[0]
        column = self.first(rule, name, lifetime)
        step = None if column is None else lifetime.step_at(column, version)
        return None if step is None else step.name

    def unknown_versions(self, rule: Rule) -> list[int]:
        """Ends of a rule's range that are no versions of the table."""
        known = {version for lifetime in self.lifetimes for version in lifetime.versions}
        return [version for version in rule.versions or () if version is not None and version not in known]

    def first(self, rule: Rule, name: str, lifetime: ColumnLifetimes) -> ColumnLifetime | None:
        """The column of a table that a rule means by a name."""
        if rule.versions is None:
            return lifetime.first_named(name, 0, len(lifetime.versions))
        held = [at for at, version in enumerate(lifetime.versions) if self.holds(rule, version)]
        return lifetime.first_named(name, held[0], held[-1]) if held else None

    def other_names(self, rule: Rule, version: int) -> Iterator[tuple[str, str]]:
        """Pairs of a name that a rule may give to a column of a version, and what that calls it."""
        for lifetime in self.lifetimes:
            if version in lifetime.versions:
                for name in sorted({step.name for column in lifetime.columns for step in column.steps}):
                    called = self.column(rule, name, version)
                    if called is not None:
                        yield name, called


class VersionRule(Struct, frozen=True):
    """A user's rule as it is checked on the rows of one version."""

    rule: Rule
    definition: TableDefinition
    """The version, its columns under the names that the rule may give them."""
    real: Mapping[str, Column]
    """From such a name to the version's own column."""


def follow(
    rule: Rule, past: VersionsBefore, version: int, definition: TableDefinition, names: Mapping[str, str]
) -> VersionRule | None:
    """The rule for the rows of a version; None if it is not about them, or they lack one of its columns.

    Args:
        rule: The user's.
        past: What is known of the table.
        definition: What it is.
        names: From a column of the version to what the rule's arguments are to call it.
    """
    if not past.holds(rule, version):
        return None
    arguments: dict[str, str] = {}
    new_names: dict[str, str] = {}
    for name in columns_of(rule):
        if name in METADATA:
            continue
        called = past.column(rule, _own_name(name), version)
        column = None if called is None else definition.column(called)
        if column is None:
            return None
        arguments[name] = names[column.name]
        if fold_name(column.name) != fold_name(_own_name(name)):
            new_names[name] = column.name
    moved = replace(rule, kwargs=_renamed(rule, arguments), because=_because(rule, new_names, version))
    view = dict(_view(rule, past, version, definition)) if rule.where is not None else {}
    seen = replace(definition, columns=tuple(replace(column, name=name) for name, column in view.items()))
    return VersionRule(moved, seen, view)


def names_at(rule: Rule, past: VersionsBefore, version: int) -> dict[str, str | None]:
    """What a version calls the columns in a rule's arguments, for people; None for one that it does not have."""
    own = sorted(name for name in columns_of(rule) if name not in METADATA)
    return {name: past.column(rule, _own_name(name), version) for name in own}


def why_not(rule: Rule, past: VersionsBefore, versions: Sequence[int]) -> str:
    """Why none of some versions has the columns of a rule."""
    for version in versions:
        for name, called in names_at(rule, past, version).items():
            lifetime = next((lifetime for lifetime in past.lifetimes if version in lifetime.versions), None)
            column = None if lifetime is None or called is not None else past.first(rule, _own_name(name), lifetime)
            if column is not None and column.ended is not None:
                return f"version {column.ended} has dropped the column that was called {name} in version " + (
                    f"{column.steps[0].version_id}; a rule about a later one of that name says `versions`"
                )
    return f"no version of the table in this interval has the columns {', '.join(sorted(columns_of(rule)))}"


def _view(rule: Rule, past: VersionsBefore, version: int, definition: TableDefinition) -> Iterator[tuple[str, Column]]:
    pairs = list(past.other_names(rule, version))
    if not any(version in lifetime.versions for lifetime in past.lifetimes):
        pairs = [(column.name, column.name) for column in definition.columns]
    for name, called in pairs:
        column = definition.column(called)
        if column is not None:
            yield name, column


def _renamed(rule: Rule, arguments: Mapping[str, str]) -> dict[str, object]:
    kwargs = dict(rule.kwargs)
    for key in COLUMN_ARGUMENTS:
        if key in kwargs:
            kwargs[key] = arguments.get(str(kwargs[key]), kwargs[key])
    for key in COLUMN_LISTS:
        if isinstance(kwargs.get(key), list):
            kwargs[key] = [arguments.get(str(name), name) for name in kwargs[key]]
    return kwargs


def _because(rule: Rule, new_names: Mapping[str, str], version: int) -> str:
    parts = [f"{old} is called {new} in version {version}, as the DDL says" for old, new in sorted(new_names.items())]
    return "; ".join((rule.because, *parts))


def _own_name(name: str) -> str:
    """The name of MySQL's column for a name in the change table."""
    return name[1:] if name.startswith("__") and column_name(name[1:]) == name else name
