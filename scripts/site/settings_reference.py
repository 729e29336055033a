"""The reference of the settings, from the code: every key with its values, its default, and what it does.
Not here: the commands (`hooks.py`); the settings by task (`docs/settings.md`)."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

import msgspec
from msgspec import Meta

from strata_cdc.config.groups import GroupSettings
from strata_cdc.config.settings import FileSettings, SourceSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARTS: Final = (
    ("At the top of the file", FileSettings),
    ("`[sources.NAME]`", SourceSettings),
    ("`[groups.NAME]`", GroupSettings),
)


def settings_reference() -> str:
    """The page."""
    lines = [
        "# Settings, one by one",
        "",
        "What the keys are for, and how they go together: [Settings](settings.md).",
        "",
    ]
    for title, kind in _PARTS:
        lines += [f"## {title}", "", "| key | takes | default | what it does |", "|---|---|---|---|", *_rows(kind), ""]
    return "\n".join(lines)


def _rows(kind: type[msgspec.Struct]) -> Iterator[str]:
    docstrings, hints = _docstrings(kind), get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        chosen_work = next(_descriptions(hints[field.name]), None)
        if chosen_work is not None:
            yield f"| `{field.encode_name}` | {chosen_work} | {_default(field)} | {docstrings.get(field.name, '')} |"


def _docstrings(kind: type) -> dict[str, str]:
    """The docstring below each field of a class."""
    [made] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = made.body if isinstance(made, ast.ClassDef) else []
    found = {}
    for one, below in pairwise(body):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and isinstance(below, ast.Expr):
            found[one.target.id] = " ".join(str(ast.literal_eval(below.value)).split()).replace("|", "\\|")
    return found


def _descriptions(hint: Any) -> Iterator[str]:
    """The outermost first: a list before what is in it."""
    parts = get_args(hint)
    yield from (part.description.replace("|", "\\|") for part in parts if isinstance(part, Meta) and part.description)
    for part in parts:
        yield from _descriptions(part)


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "must be given"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return "not set" if value in (None, ()) else f"`{json.dumps(value, default=str)}`"
