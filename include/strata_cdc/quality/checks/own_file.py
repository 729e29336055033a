"""The form of a file of users' own expectations, JSON or YAML, and its mistakes, each with its line.
Not here: text to values (`own_text.py`), finding the files (`own.py`), running expectations (`suite.py`)."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from strata_cdc.errors import MissingExtraError, Usage
from strata_cdc.extras import how_to_install
from strata_cdc.fields import Mistakes, nearest, path_text, read_fields
from strata_cdc.quality.checks.own_text import UnreadableFileError, compose, lines_of, read_json, yaml_values

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA_URL: Final = "https://json-schema.org/draft/2020-12/schema"
YAML_SUFFIXES: Final = (".yaml", ".yml")
SUFFIXES: Final = (".json", *YAML_SUFFIXES)

_Object = Annotated[dict[str, Any], Meta(description='an object, as in {"column": "price", "max_value": 100}')]
_Notes = Annotated[str | list[str] | None, Meta(description="a text, or a list of texts")]
_Condition = Annotated[
    str | None, Meta(description="a condition in MySQL's SQL on the rows that it is about, as in status = 'paid'")
]
_RuleOwner = Annotated[str, Meta(min_length=1, description="the person to ask when the rule fails, a text")] | None
_Described = Annotated[str | None, Meta(description="a text")]
_VersionNumber = (
    Annotated[int, Meta(ge=1, description="the number of a schema version, as `_schema_version` has it")] | None
)
_Unused = Annotated[Any, Meta(description="anything: Great Expectations writes it, and nothing reads it here")]


class OwnVersions(Struct, frozen=True, forbid_unknown_fields=True):
    """A range of schema versions, both ends inclusive; if an end is omitted, the range is open there."""

    first: _VersionNumber = field(default=None, name="from")
    last: _VersionNumber = field(default=None, name="to")


_Versions = Annotated[OwnVersions, Meta(description='a range of schema versions, as in {"from": 12, "to": 17}')] | None


class OwnExpectation(Struct, frozen=True, forbid_unknown_fields=True):
    """One expectation, as Great Expectations writes it."""

    type: Annotated[
        str, Meta(min_length=1, description="an expectation's name, as in expect_column_values_to_be_unique")
    ]
    kwargs: _Object = field(default_factory=dict)
    severity: Annotated[
        Literal["critical", "error", "warning", "info"],
        Meta(description="one of critical (or error), which withholds the table, warning and info"),
    ] = "critical"
    where: _Condition = None
    versions: _Versions = None
    """The versions in which it must hold; in the first of them, columns have the names that the expectation uses."""
    owner: _RuleOwner = None
    description: _Described = None
    notes: _Notes = None
    """Why it must hold; shown wherever it does not."""
    meta: _Unused = None
    id: _Unused = None
    rendered_content: _Unused = None
    expectation_context: _Unused = None
    success_on_last_run: _Unused = None


class OwnSuite(Struct, frozen=True, forbid_unknown_fields=True):
    """A file: what must hold of one table."""

    expectations: Annotated[list[Any], Meta(description="a list of expectations")]
    name: _Unused = None
    meta: _Unused = None
    notes: _Unused = None
    id: _Unused = None
    suite_parameters: _Unused = None
    schema: Annotated[Any, Meta(description="the address of the schema of this form, for editors")] = field(
        default=None, name="$schema"
    )


class PlacedExpectation(Struct, frozen=True):
    """An expectation of a file, and the line at which it begins."""

    line: int
    expectation: OwnExpectation


def read_own_file(name: str, text: str) -> list[PlacedExpectation]:
    """The expectations of a file.

    Args:
        name: Of the file; its suffix decides between JSON and YAML.
        text: What it holds.

    Raises:
        UnreadableFileError: It has mistakes.
    """
    values = yaml_values(compose(text)) if name.endswith(YAML_SUFFIXES) else read_json(text)
    mistakes = Mistakes("the file has", lambda: lines_of(text))
    expectations = list(_read(values, mistakes))
    if mistakes:
        raise UnreadableFileError(str(mistakes))
    lines = lines_of(text)
    return [
        PlacedExpectation(lines.get(("expectations", at), 0), expectation)
        for at, expectation in enumerate(expectations)
    ]


def _read(values: Any, mistakes: Mistakes) -> Iterator[OwnExpectation]:
    if not isinstance(values, dict):
        mistakes.add((), 'the file is not an object with a list "expectations"')
        return
    for at, entry in enumerate(read_fields(OwnSuite, values, (), mistakes).get("expectations", ())):
        path = ("expectations", at)
        if not isinstance(entry, dict):
            mistakes.add(path, f"{path_text(path)} is not an object with a type and kwargs")
            continue
        good = read_fields(OwnExpectation, entry, path, mistakes)
        _check_versions(good.get("versions"), (*path, "versions"), mistakes)
        if "type" in good and good["type"] not in known_types():
            mistakes.add((*path, "type"), f"{path_text(path)}.type: {_no_such(good['type'])}")
        elif "type" in good:
            _check_where(good, path, mistakes)
            yield OwnExpectation(**good)


def _check_versions(versions: OwnVersions | None, path: tuple[str | int, ...], mistakes: Mistakes) -> None:
    if versions is None:
        return
    if versions.first is None and versions.last is None:
        mistakes.add(path, f"{path_text(path)} has neither from nor to: leave it out for all versions")
    elif versions.first and versions.last and versions.first > versions.last:
        mistakes.add(path, f"{path_text(path)} is empty: it goes from {versions.first} to {versions.last}")


def _check_where(good: dict[str, Any], path: tuple[str | int, ...], mistakes: Mistakes) -> None:
    """What is known to be wrong with a condition before a version is there to read it."""
    if good.get("where") is None:
        return
    # Imported here: few have conditions, and sqlglot takes a third of a second.
    from strata_cdc.dialects.conditions.condition import check_condition

    if "row_condition" in good.get("kwargs", {}):
        mistakes.add((*path, "where"), f"{path_text(path)} has a row_condition, too: one of them is enough")
    try:
        check_condition(good["where"])
    except Usage as error:
        mistakes.add((*path, "where"), f"{path_text(path)}.where: {error.message}".replace("\n", "\n  "))


def _no_such(name: str) -> str:
    suggestion = nearest(name, known_types()).partition(" (there are")[0]
    return f'Great Expectations has no expectation "{name}"{suggestion}'


@cache
def known_types() -> tuple[str, ...]:
    """Names of the expectations that Great Expectations has, without loading it, which takes seconds.

    Raises:
        MissingExtraError: It is not installed.
    """
    package = find_spec("great_expectations")
    if package is None or package.origin is None:
        raise MissingExtraError("great_expectations is not installed", remedy=how_to_install("checks"))
    imports = Path(package.origin).parent / "expectations" / "core" / "__init__.py"
    return tuple(
        sorted(set(re.findall(r"from (?:[\w.]*\.)(\w*expect\w+) import", imports.read_text(encoding="utf-8"))))
    )


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a file, for editors: `docs/checks.schema.json`."""
    (suite, expectation), parts = msgspec.json.schema_components(
        (OwnSuite, OwnExpectation), ref_template="#/$defs/{name}"
    )
    parts["OwnSuite"]["properties"]["expectations"]["items"] = expectation
    parts["OwnExpectation"]["properties"]["type"]["enum"] = list(known_types())
    return {"$schema": SCHEMA_URL, "title": "Strata: users' own expectations of a table", **suite, "$defs": parts}
