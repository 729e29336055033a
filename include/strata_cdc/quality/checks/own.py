"""Users' own expectations: a folder with one file a table, `<database>.<table>.json` or `.yaml`.
Not here: what a file may contain (`own_file.py`), rules that follow from the schema (`rules.py`), running any
(`suite.py`).
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.errors import SettingsError
from strata_cdc.files.storage import Folder, lake_errors
from strata_cdc.quality.checks.own_file import SUFFIXES, read_own_file
from strata_cdc.quality.checks.own_text import UnreadableFileError
from strata_cdc.quality.checks.rules import Rule
from strata_cdc.runs.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.quality.checks.own_file import PlacedExpectation
    from strata_cdc.schema.model.definition import TableName

_SEVERITIES = {
    "critical": Severity.ERROR,
    "error": Severity.ERROR,
    "warning": Severity.WARNING,
    "info": Severity.WARNING,
}
COLUMN_ARGUMENTS = ("column", "column_A", "column_B")
COLUMN_LISTS = ("column_list", "column_set")
_LONGEST_NAME = 255
"""Bytes of a file's name (NAME_MAX of Linux); a table's name with that of its database may have more."""
FORM = "docs/checks.md shows what such a file holds; `strata check --dry-run` reads all of them."


class OwnFile(Struct, frozen=True):
    """A file of users' own expectations."""

    name: str
    table: str
    """`database.table`, as the file's name has it."""


def own_files(folder: str) -> list[OwnFile]:
    """The files of a folder, by name; files with other endings are ignored.

    Raises:
        SettingsError: There is no such folder, two files of one table, or an entry that nobody would read.
        LakeUnavailableError: The folder cannot be read.
    """
    opened = _open(folder)
    if opened.is_local:
        with lake_errors(folder):
            entries = sorted(Path(opened.path).iterdir())
        _refuse_unusable(entry for entry in entries if entry.name.lower().endswith(SUFFIXES))
    named = [(name, suffix) for name in opened.names() for suffix in SUFFIXES if name.endswith(suffix)]
    files = [OwnFile(name, name.removesuffix(suffix)) for name, suffix in named]
    for file in files:
        _only([other.name for other in files if other.table == file.table], opened, file.table)
    return files


def own_rules(folder: str | None, table: TableName) -> list[Rule]:
    """What the users expect of a table; nothing if there is no file of it, or no folder is named.

    Raises:
        SettingsError: There is no such folder, or the file has mistakes; the message lists all of them.
        LakeUnavailableError: The file cannot be read.
    """
    if folder is None:
        return []
    opened = _open(folder)
    possible = [f"{table}{suffix}" for suffix in SUFFIXES]
    if opened.is_local:
        possible = [name for name in possible if len(name.encode()) <= _LONGEST_NAME]
        # Runs ask for table after table: the whole folder is looked at by `own_files`.
        _refuse_unusable(Path(opened.path, name) for name in possible)
        _refuse_unusable(Path(opened.path, str(table) + Path(name).suffix.upper()) for name in possible)
    names = [name for name in possible if opened.exists(name)]
    return rules_of_file(folder, OwnFile(names[0], str(table))) if _only(names, opened, str(table)) else []


def read_own_checks(folder: str | None) -> dict[OwnFile, list[Rule]]:
    """All files of a folder; none if no folder is named.

    Raises:
        SettingsError: There is no such folder, or a file has mistakes.
        LakeUnavailableError: Something cannot be read.
    """
    return {} if folder is None else {file: rules_of_file(folder, file) for file in own_files(folder)}


def rules_of_file(folder: str, file: OwnFile) -> list[Rule]:
    """What one file of a folder expects.

    Raises:
        SettingsError: It has mistakes; the message lists all of them, each with its line.
        LakeUnavailableError: It cannot be read.
    """
    opened = Folder.open(folder)
    try:
        text = opened.read_file(file.name).decode()
        return [_rule(expectation, file.name) for expectation in read_own_file(file.name, text)]
    except UnicodeDecodeError:
        raise SettingsError(
            "the file is no UTF-8", file=opened.join(file.name), table=file.table, remedy=FORM
        ) from None
    except UnreadableFileError as error:
        raise SettingsError(str(error), file=opened.join(file.name), table=file.table, remedy=FORM) from None


def refused_arguments(rules: Iterable[Rule]) -> Iterator[tuple[Rule, str]]:
    """The rules whose arguments Great Expectations does not take, and why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Takes seconds: a run finds out when it checks.
        import great_expectations.expectations.core  # noqa: F401  see above
        from great_expectations.expectations.registry import get_expectation_impl

        for rule in rules:
            try:
                get_expectation_impl(rule.expectation)(**rule.kwargs)
            except (ValueError, TypeError) as error:
                yield rule, "; ".join(_messages(error))


def _messages(error: Exception) -> Iterator[str]:
    """The message of pydantic for each argument; other errors as they are."""
    errors = getattr(error, "errors", None)
    if errors is None:
        yield str(error)
    else:
        yield from (f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in errors())


def columns_of(rule: Rule) -> set[str]:
    """The columns that an expectation names in its arguments."""
    named = {str(rule.kwargs[key]) for key in COLUMN_ARGUMENTS if key in rule.kwargs}
    lists = [rule.kwargs[key] for key in COLUMN_LISTS if isinstance(rule.kwargs.get(key), list)]
    return named.union(*(map(str, names) for names in lists))


def _open(folder: str) -> Folder:
    opened = Folder.open(folder)
    if not opened.is_there():
        raise SettingsError(
            "the folder of `checks` is not there",
            file=folder,
            remedy="Make it, or correct `checks` in the settings: a relative one is beside the settings file.",
        )
    return opened


def _refuse_unusable(entries: Iterable[Path]) -> None:
    """Refuses what would be passed over although somebody means it as a file of checks: its table would go unchecked.

    Raises:
        SettingsError: There is such an entry.
        LakeUnavailableError: An entry cannot be looked at.
    """
    for entry in entries:
        with lake_errors(str(entry)):
            why, remedy = _unusable(entry)
        if why:
            raise SettingsError(f"{entry.name} {why}: nobody would read it", file=str(entry), remedy=remedy)


def _unusable(entry: Path) -> tuple[str, str]:
    if not entry.name.endswith(SUFFIXES):
        return ("has an ending in capitals", "Rename it: .json, .yaml or .yml.") if entry.exists() else ("", "")
    if entry.is_file():
        return "", ""
    if entry.exists():
        return "is no file", "Remove it, or give it another ending."
    if entry.is_symlink():
        return f"is a link to {entry.readlink()}, which is not there", "Remove the link, or make its file."
    return "", ""


def _only(names: list[str], opened: Folder, table: str) -> bool:
    if len(names) > 1:
        raise SettingsError(
            f"{' and '.join(names)} are of one table", file=opened.url, table=table, remedy="Keep one of them."
        )
    return bool(names)


def _rule(placed: PlacedExpectation, file: str) -> Rule:
    expectation = placed.expectation
    notes = " ".join(expectation.notes) if isinstance(expectation.notes, list) else expectation.notes
    because = "; ".join(text for text in (expectation.description, notes) if text) or "the users' own"
    where = f"{file}, line {placed.line}" if placed.line else file
    owner = f"owner: {expectation.owner}; " if expectation.owner else ""
    return Rule(
        expectation.type,
        _SEVERITIES[expectation.severity],
        f"{because} ({owner}{where})",
        expectation.kwargs,
        where=expectation.where,
        versions=None if expectation.versions is None else (expectation.versions.first, expectation.versions.last),
        owner=expectation.owner,
        location=where,
    )
