"""What is judged of an interval: tables, their staged files, and the suites of rules that must hold of them.
Not here: judging by either engine (`run.py`, `one_pass.py`), which rules there are (`rules.py`)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.quality.checks.conditions import conditioned
from strata_cdc.quality.checks.names import METADATA, column_name
from strata_cdc.quality.checks.own_columns import VersionsBefore, follow
from strata_cdc.quality.checks.rules import (
    Exemptions,
    Rule,
    StreamFacts,
    frame_column,
    history_rule,
    rule_of_version,
    rules_of_definition,
    rules_of_stream,
)
from strata_cdc.quality.checks.sensitive import NOTHING, Sensitive
from strata_cdc.store.full_names import full_name
from strata_cdc.tables.statistics import unpack_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strata_cdc.schema.model.definition import TableDefinition, TableName


class JudgedFile(Struct, frozen=True):
    """A staged file, as the checks see it."""

    url: str
    digest: str
    """Of the bytes that were decoded."""
    version_id: int
    rows: int
    partial_rows: int
    invalid_rows: int
    size_bytes: int
    stats: bytes = b""
    """`statistics`, packed; empty if it has none."""

    @property
    def statistics(self) -> str:
        """Its statistics as Delta's log is to have them (JSON); empty if it has none.

        Raises:
            DamagedFileError: They have been changed since they were stored.
        """
        return unpack_statistics(self.stats, self.url) if self.stats else ""


class TableSubject(Struct, frozen=True):
    """One table of an interval: what was staged of it and what must hold of it."""

    table: TableName
    files: tuple[JudgedFile, ...]
    facts: StreamFacts
    definitions: Mapping[int, TableDefinition]
    """By schema version; at least those of the files."""
    own: tuple[Rule, ...] = ()
    """Users' own rules."""
    sensitive: Sensitive = NOTHING
    past: VersionsBefore = VersionsBefore()
    """What is known of its versions."""

    @property
    def name(self) -> str:
        """As verdicts call the table (`store/full_names.py`)."""
        return full_name(self.table.database, self.table.table)

    @property
    def versions(self) -> tuple[int, ...]:
        """The schema versions that decoded its files, in order."""
        return tuple(sorted({file.version_id for file in self.files}))

    def files_of(self, version: int) -> list[JudgedFile]:
        """Those that a schema version decoded."""
        return [file for file in self.files if file.version_id == version]

    def exempt(self, version: int) -> Exemptions:
        """What is exempt in the rows of a version."""
        files = self.files_of(version)
        return Exemptions(sum(file.partial_rows for file in files), sum(file.invalid_rows for file in files))


class Suite(Struct, frozen=True):
    """Rules that are judged together."""

    name: str
    version: int | None
    """None: the rows of all versions."""
    rules: tuple[Rule, ...]
    """Ours."""
    own: tuple[Rule, ...] = ()
    """Users' own."""


def suites_of(subject: TableSubject, label: str, columns: Mapping[int, Sequence[str] | None]) -> Iterator[Suite]:
    """A suite for each schema version, and one over what the versions share.

    A table with a single version has a single suite with all of it.

    Args:
        label: The interval's name in the Data Docs.
        columns: By version, the columns of its files; None where they are not those of the version, which has no suite.
    """
    stream = tuple(rules_of_stream(subject.facts))
    if len(columns) > 1:
        yield Suite(f"{subject.name} {label}, all versions", None, stream)
    for version, names in columns.items():
        if names is not None:
            rules = rules_of_version(subject.definitions[version], version, subject.exempt(version), names)
            shared = stream if len(columns) == 1 else ()
            own = tuple(_own_of_version(subject, version, names))
            yield Suite(f"{subject.name} {label}, version {version}", version, (*shared, *rules), own)


def _own_of_version(subject: TableSubject, version: int, columns: Sequence[str]) -> Iterator[Rule]:
    definition = subject.definitions[version]
    names = frame_names(definition, columns)
    for rule in subject.own:
        followed = follow(rule, subject.past, version, definition, names)
        if followed is not None:
            others = (
                other.definition
                for number, definition in subject.definitions.items()
                if (other := follow(rule, subject.past, number, definition, frame_names(definition))) is not None
            )
            conditioned_rule = conditioned(followed, subject.table, others, names, subject.exempt(version))
            if conditioned_rule is not None:
                yield conditioned_rule


def frame_names(definition: TableDefinition, columns: Sequence[str] | None = None) -> dict[str, str]:
    """From a column of a version to what the judged frame calls it.

    Args:
        columns: Those of its files; None before there is one.
    """
    names = published_names(definition, columns or planned_columns(definition))
    return {name: frame_column(published) for name, published in names.items()}


def count_rules(subject: TableSubject) -> int:
    """How many rules there are about a table, before any of its files is read; own ones may hold for some versions.
    If they cannot be known, the check of the table reports why."""
    count = len(subject.own) * len(subject.versions) + len(rules_of_stream(subject.facts))
    for version in subject.versions:
        definition = subject.definitions.get(version)
        if definition is not None:
            with suppress(Exception):
                columns = planned_columns(definition)
                count += len(rules_of_version(definition, version, subject.exempt(version), columns))
    return count


def planned_columns(definition: TableDefinition) -> tuple[str, ...]:
    """The columns of a version's files, before there is one."""
    return (*(column_name(column.name) for column in definition.columns), *METADATA)


def rules_of_version(
    definition: TableDefinition, version: int, exempt: Exemptions, columns: Sequence[str]
) -> tuple[Rule, ...]:
    """What must hold of the rows that a schema version has decoded."""
    names = published_names(definition, columns)
    rules = [rule_of_version(version), *rules_of_definition(definition, names, exempt)]
    # If images lack columns, nothing is known about what the last one left.
    # A versioned table also has rows of the past under the key.
    if definition.primary_key and not definition.versioned and not exempt.partial_rows:
        rules.append(history_rule(definition, names))
    return tuple(rules)


def applies_to(subject: TableSubject, rule: Rule, version: int) -> bool:
    """Whether a user's rule is checked on the rows of a version: it is about them, and they have its columns."""
    definition = subject.definitions[version]
    return follow(rule, subject.past, version, definition, frame_names(definition)) is not None


def are_columns_of(definition: TableDefinition, columns: Sequence[str]) -> bool:
    """Whether a file has the columns' names of the schema version by which it was decoded."""
    if tuple(columns[len(definition.columns) :]) != METADATA:
        return False
    # Some have more underscores in front (`tables/layout.py`).
    return all(
        published.lstrip("_") == name.lstrip("_") for name, published in published_names(definition, columns).items()
    )


def key_columns(definition: TableDefinition, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns by which a row is known, as a file of the version calls them; none without a primary key."""
    names = published_names(definition, columns)
    return tuple(names[column.name] for column in definition.columns if column.name in definition.primary_key)


def published_names(definition: TableDefinition, columns: Sequence[str]) -> dict[str, str]:
    """A staged file begins with the columns of its version, in order."""
    own = columns[: len(columns) - len(METADATA)]
    return {column.name: name for column, name in zip(definition.columns, own, strict=False)}
