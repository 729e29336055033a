"""Users' own expectations: one JSON file a table, in Great Expectations' own form.
Not here: rules that follow from the schema (`rules.py`), running any (`suite.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from strata.checks.rules import Rule
from strata.checks.verdict import Severity
from strata.errors import SettingsError
from strata.wire.storage import Folder

if TYPE_CHECKING:
    from strata.schema.model.definition import TableName

_SEVERITIES = {
    "critical": Severity.ERROR,
    "error": Severity.ERROR,
    "warning": Severity.WARNING,
    "info": Severity.WARNING,
}
_COLUMN_ARGUMENTS = ("column", "column_A", "column_B")
_COLUMN_LISTS = ("column_list", "column_set")


def own_rules(folder: str | None, table: TableName) -> list[Rule]:
    """What `<folder>/<database>.<table>.json` expects of a table; nothing if there is no folder or no such file.

    The file is a suite as Great Expectations writes it, or as little of it as
    `{"expectations": [{"type": "expect_column_max_to_be_between", "kwargs": {"column": "price", "max_value": 100}}]}`.
    `severity` is critical (the default), warning or info.

    Raises:
        SettingsError: The file is no such suite; the message lists all that is wrong with it.
        LakeUnavailableError: The file cannot be read.
    """
    name = f"{table}.json"
    if folder is None:
        return []
    place = Folder.open(folder)
    if not place.exists(name):
        return []
    try:
        given = json.loads(place.read(name))
    except ValueError as error:
        raise SettingsError(f"the expectations are no JSON: {error}", file=place.join(name), table=str(table)) from None
    mistakes: list[str] = []
    found = [
        _rule(entry, f"expectation {number}", mistakes) for number, entry in enumerate(_entries(given, mistakes), 1)
    ]
    if mistakes:
        raise SettingsError("; ".join(mistakes), file=place.join(name), table=str(table))
    return [rule for rule in found if rule is not None]


def _entries(given: object, mistakes: list[str]) -> list[Any]:
    entries = given.get("expectations") if isinstance(given, dict) else None
    if isinstance(entries, list):
        return entries
    mistakes.append('there is no list "expectations"')
    return []


def columns_of(rule: Rule) -> set[str]:
    """The columns that an expectation names in its arguments."""
    named = {rule.kwargs[key] for key in _COLUMN_ARGUMENTS if key in rule.kwargs}
    return named.union(*(rule.kwargs[key] for key in _COLUMN_LISTS if key in rule.kwargs))


def _rule(entry: Any, where: str, mistakes: list[str]) -> Rule | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
        mistakes.append(f'{where} has no "type"')
        return None
    kwargs = entry.get("kwargs", {})
    if not isinstance(kwargs, dict):
        mistakes.append(f'{where}: "kwargs" is no object')
        return None
    severity = entry.get("severity", "critical")
    if severity not in _SEVERITIES:
        mistakes.append(f"{where}: severity is one of {', '.join(_SEVERITIES)}, not {severity!r}")
        return None
    notes = entry.get("notes") or "the users' own"
    because = " ".join(notes) if isinstance(notes, list) else str(notes)
    return Rule(entry["type"], _SEVERITIES[severity], because, kwargs)
