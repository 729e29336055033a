"""Users' own expectations compared with the history of their tables: what would be checked, and what is wrong with
them.
Not here: reading the files (`quality/checks/own.py`), following columns (`quality/checks/own_columns.py`), running
checks
(`check_interval.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from strata_cdc.errors import SettingsError, Usage
from strata_cdc.fields import near_names
from strata_cdc.quality.checks.conditions import conditioned
from strata_cdc.quality.checks.own import FORM, OwnFile, own_rules, read_own_checks
from strata_cdc.quality.checks.own_columns import VersionsBefore, follow, names_at, why_not
from strata_cdc.quality.checks.rules import Exemptions, StreamFacts, rules_of_stream
from strata_cdc.quality.checks.subject import frame_names, planned_columns, rules_of_version
from strata_cdc.schema.history.column_lifetimes import find_column_lifetimes
from strata_cdc.schema.history.lineage import lineage
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import sqlalchemy as sa

    from strata_cdc.quality.checks.rules import Rule
    from strata_cdc.schema.model.definition import TableDefinition


_MOST_VERSIONS = 10
"""That a message lists."""


class TableHistory(Struct, frozen=True):
    """What a store knows of a table."""

    past: VersionsBefore
    definitions: Mapping[int, TableDefinition]
    """By version, in stream order."""


class CheckedRule(Struct, frozen=True):
    """A rule that would be checked, in a form for people and programs."""

    type: str
    severity: str
    because: str
    """For what follows from the schema: its reason; otherwise description, notes, owner, file and line."""
    arguments: dict[str, Any]
    owner: str | None = None
    location: str = field(default="", name="place")
    """File and line, of a user's rule."""
    where: str | None = None
    versions: tuple[int, ...] = ()
    """The schema versions whose rows it is checked on."""
    called: dict[str, dict[str, tuple[int, ...]]] = {}
    """Of a user's rule: each column that it names, and under which names versions have it."""
    mistakes: tuple[str, ...] = ()


class CheckedTable(Struct, frozen=True):
    """What would be checked of a table."""

    table: str
    newest: int
    """The schema version that has the rules which follow from the schema."""
    rules: tuple[CheckedRule, ...]


def read_history(engine: sa.Engine, source: str, table: TableName) -> TableHistory:
    """The versions of a table and its columns through them.

    Raises:
        StoreUnavailableError: The database does not answer.
        StoreFormatError: The store is damaged, or newer than this version.
    """
    store = SchemaStore(engine)
    entries = lineage(store, source, table)
    lifetimes = find_column_lifetimes(store, entries)
    prints = {entry.version_id: entry.fingerprint for entry in reversed(entries) if entry.fingerprint}
    definitions = {
        version: store.definition(prints[version]) for lifetime in lifetimes for version in lifetime.versions
    }
    return TableHistory(VersionsBefore(lifetimes), definitions)


def refuse_unknown_versions(engine: sa.Engine, source: str, folder: str | None) -> None:
    """Refuses a run with an expectation about versions that its table does not have.

    Raises:
        SettingsError: The folder is not there, a file has mistakes, or names such a version; with file and line.
        StoreUnavailableError: The database does not answer.
    """
    for file, rules in read_own_checks(folder).items():
        ranged = [rule for rule in rules if rule.versions is not None]
        if ranged:
            history = read_history(engine, source, _table_of(engine, source, file))
            mistakes = [text for rule in ranged for text in _unknown(rule, history)]
            if mistakes:
                raise SettingsError("\n  ".join(mistakes), file=f"{folder}/{file.name}", table=file.table, remedy=FORM)


def mistakes_of_file(engine: sa.Engine, source: str, file: OwnFile, rules: list[Rule]) -> list[str]:
    """The contradictions between the history and the expectations of a file, each with its line; none for a table
    without history."""
    table = _table_of(engine, source, file)
    history = read_history(engine, source, table)
    return [text for rule in rules for text in _mistakes(rule, table, history)]


def what_is_checked(engine: sa.Engine, source: str, table: TableName, folder: str | None) -> CheckedTable:
    """All rules about a table: those of its newest version and of the stream, and users' own.

    Raises:
        Usage: The history knows no version of it.
        SettingsError: The folder is not there, or the file has mistakes.
        StoreUnavailableError: The database does not answer.
    """
    history = read_history(engine, source, table)
    if not history.definitions:
        near = near_names(str(table), map(str, SchemaStore(engine).tables(source)), most=3)
        raise Usage(
            f"no version of {table} is known" + (f": do you mean {' or '.join(near)}?" if near else ""),
            source=source,
            remedy=f"`strata schema show --source {source}` lists tables.",
        )
    newest = [*history.definitions][-1]
    definition = history.definitions[newest]
    facts = StreamFacts(0, 0, 0, (newest,))
    of_schema = rules_of_version(definition, newest, Exemptions(0, 0), planned_columns(definition))
    return CheckedTable(
        str(table),
        newest,
        (
            *(_own(rule, table, history) for rule in own_rules(folder, table)),
            # Their numbers are those of an interval.
            *(_ours(rule, newest, {"column": rule.column} if rule.column else {}) for rule in rules_of_stream(facts)),
            *(_ours(rule, newest, {} if rule.chain else rule.kwargs) for rule in of_schema),
        ),
    )


def _ours(rule: Rule, version: int, arguments: dict[str, Any]) -> CheckedRule:
    return CheckedRule(rule.expectation, rule.severity, rule.because, arguments, versions=(version,))


def _own(rule: Rule, table: TableName, history: TableHistory) -> CheckedRule:
    called: dict[str, dict[str, tuple[int, ...]]] = {}
    for version in history.definitions:
        if history.past.holds(rule, version):
            for name, there in names_at(rule, history.past, version).items():
                if there is not None:
                    versions = called.setdefault(name, {})
                    versions[there] = (*versions.get(there, ()), version)
    return CheckedRule(
        rule.expectation,
        rule.severity,
        rule.because,
        rule.kwargs,
        rule.owner,
        rule.location,
        rule.where,
        tuple(version for version in history.definitions if _applies_to(rule, table, version, history)),
        called,
        tuple(_mistakes(rule, table, history)),
    )


def _applies_to(rule: Rule, table: TableName, version: int, history: TableHistory) -> bool:
    try:
        return _at(rule, table, version, history) is not None
    except Usage:
        return False


def _at(rule: Rule, table: TableName, version: int, history: TableHistory) -> Rule | None:
    """A rule as it is checked on the rows of a version.

    Raises:
        ConditionError: Its condition cannot be read there.
    """
    definition = history.definitions[version]
    names = frame_names(definition)
    followed = follow(rule, history.past, version, definition, names)
    return None if followed is None else conditioned(followed, table, (), names, Exemptions(0, 0))


def _mistakes(rule: Rule, table: TableName, history: TableHistory) -> Iterator[str]:
    """The contradictions between the history and a rule; none for a table that it does not know."""
    if not history.definitions:
        return
    unknown = list(_unknown(rule, history))
    yield from unknown
    held = [version for version in history.definitions if history.past.holds(rule, version)]
    if unknown or not held:
        return
    failures = []
    for version in held:
        try:
            if _at(rule, table, version, history) is not None:
                return
        except Usage as error:
            failures.append(error.message)
    where = f": {failures[-1]}" if failures else ""
    yield f"{rule.location}: no version of {table} has its columns{where or f': {why_not(rule, history.past, held)}'}"


def _unknown(rule: Rule, history: TableHistory) -> Iterator[str]:
    known = ", ".join(map(str, [*history.definitions][-_MOST_VERSIONS:])) or "none"
    for version in history.past.unknown_versions(rule):
        yield f"{rule.location}: the table has no schema version {version} (there are: {known})"


def _table_of(engine: sa.Engine, source: str, file: OwnFile) -> TableName:
    """The table of a file, which is called like it: where its name has several dots, the one that the history knows."""
    database, dot, table = file.table.partition(".")
    known = SchemaStore(engine).tables(source) if "." in table else ()
    first = TableName(database, table) if dot else TableName("", database)
    return next((name for name in known if str(name) == file.table), first)
