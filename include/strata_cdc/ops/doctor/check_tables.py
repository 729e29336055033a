"""Checks what the settings have about tables: whether patterns match any, and users' own expectations of them.
Not here: the server's settings and grants (`check_settings.py`, `check_grants.py`), running checks
(`quality/check_step/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata_cdc.binlog.protocol.connection import fetch_rows
from strata_cdc.errors import SettingsError, StrataError
from strata_cdc.fields import near_names
from strata_cdc.ops.doctor.findings import Finding, error, ok, warning
from strata_cdc.quality.checks.own import own_files, read_own_checks, refused_arguments, rules_of_file
from strata_cdc.schema.model.patterns import is_selected, unmatched
from strata_cdc.selection.wanted import NAMES_OF_TABLES, no_match

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    import pymysql

    from strata_cdc.config.settings import Source
    from strata_cdc.quality.checks.own import OwnFile
    from strata_cdc.quality.checks.rules import Rule
    from strata_cdc.schema.model.definition import TableName

_FORM = "docs/checks.md shows what such a file holds."


def check_patterns(source: Source, known: Collection[TableName], *, folded: bool) -> Finding:
    """Whether `tables` and `exclude` match what there is.

    Args:
        known: The tables that the server has, and those that the history knows.
        folded: Whether the server takes names for the same whatever their case is.
    """
    settings = source.settings
    if not known:
        return ok("tables", "there is no table yet, as far as this user sees")
    wanted = [table for table in known if is_selected(table, settings.tables, settings.exclude, folded=folded)]
    # A pattern of `exclude` that matches nothing yet is how one keeps out what may come.
    misses = "; ".join(no_match(pattern, known) for pattern in unmatched(settings.tables, known, folded=folded))
    if not wanted:
        return error(
            "tables", f"no table is wanted: {misses or 'all that they match is excluded'}", f"{NAMES_OF_TABLES}."
        )
    matched = f"{_tables(len(wanted))} of {len(known)} wanted"
    return warning("tables", f"{matched}; {misses}", f"{NAMES_OF_TABLES}.") if misses else ok("tables", matched)


def check_merges(connection: pymysql.Connection[Any]) -> Iterator[Finding]:
    """A finding on tables of the engine MERGE, if the server has any."""
    query = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE ENGINE = 'MRG_MYISAM'"
    merged = sorted(f"{database}.{table}" for database, table in fetch_rows(connection, query))
    if merged:
        yield warning(
            "merge tables",
            f"{', '.join(merged)}: what is written through these is logged under their names, and what is written to "
            "the tables that they unite under those tables' names: neither has all changes of its rows",
            "Write to the united tables only, and leave the MERGE tables out: `exclude` in the settings.",
        )


def check_own(
    folder: str, known: Collection[TableName], history: Callable[[OwnFile, list[Rule]], list[str]] | None = None
) -> Iterator[Finding]:
    """Findings on the folder of users' own expectations, one a file.

    Args:
        known: The tables that there are; empty if they are not known.
        history: Finds the contradictions between the schema history and a file; None if there is no history.
    """
    try:
        files = own_files(folder)
    except StrataError as failure:
        yield error("checks", f"{failure.message} ({failure.file})", failure.remedy)
        return
    if not files:
        yield warning("checks", f"{folder} has no file of expectations", _FORM)
    names = {str(table) for table in known}
    for file in files:
        yield _check_file(folder, file, names, history)


def check_arguments(folder: str) -> Iterator[Finding]:
    """Findings on arguments that Great Expectations refuses; it takes seconds to load."""
    for file, rules in read_own_checks(folder).items():
        for rule, why in refused_arguments(rules):
            yield error("checks", f"{file.name}: {rule.expectation}, {rule.because}: {why}", _FORM)


def _check_file(
    folder: str,
    file: OwnFile,
    names: Collection[str],
    history: Callable[[OwnFile, list[Rule]], list[str]] | None,
) -> Finding:
    try:
        rules = rules_of_file(folder, file)
        mistakes = history(file, rules) if history is not None else []
    except SettingsError as failure:
        return error("checks", f"{file.name}: {failure.message}", _FORM)
    except StrataError as failure:
        return error("checks", f"{file.name}: {failure.message}", failure.remedy)
    if mistakes:
        return error("checks", "\n".join(mistakes), _FORM)
    rules_found = f"{file.name}: 1 expectation" if len(rules) == 1 else f"{file.name}: {len(rules)} expectations"
    if names and file.table not in names:
        near = near_names(file.table, names)
        remedy = f"Name it {near[0]}{file.name.removeprefix(file.table)}." if near else NAMES_OF_TABLES + "."
        return warning("checks", f"{rules_found} of {file.table}, a table that nobody knows", remedy)
    return ok("checks", rules_found)


def _tables(count: int) -> str:
    return "1 table" if count == 1 else f"{count} tables"
