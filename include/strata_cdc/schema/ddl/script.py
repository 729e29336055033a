"""Splitting an SQL script into statements, as the `mysql` client does.
Not here: reading the statements (`ddl/`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

# Text that cannot contain a delimiter, and positions where one may begin. An executable comment is normal text.
_TOKEN = re.compile(
    r"""
      '(?:[^'\\]|\\.|'')*'
    | "(?:[^"\\]|\\.|"")*"
    | `(?:[^`]|``)*`
    | (?:--(?=\s|$)|\#)[^\n]*
    | /\*.*?\*/
    | ^[ \t]*DELIMITER[ \t]+(?P<delimiter>\S+)[^\n]*
    | ;
    | [^'"`\-\#/;\n]+
    | .
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_USE = re.compile(r"\s*USE\s+(`(?:[^`]|``)+`|[^\s;]+)\s*\Z", re.IGNORECASE)


class ScriptStatement(NamedTuple):
    """One statement of a script."""

    offset: int
    """Characters from the start of the script."""
    text: str
    used_database: str | None = None
    """The new default database, if the statement is USE."""


def split_script(text: str) -> Iterator[ScriptStatement]:
    """The statements of a script, without their delimiters and without comments that are not code."""
    delimiter = ";"
    parts: list[str] = []
    begin = 0
    at = 0
    while token := _TOKEN.match(text, at):  # anything matches but the end
        if delimiter != ";" and text.startswith(delimiter, at):
            yield from _statement(begin, parts)
            parts, at = [], at + len(delimiter)
            begin = at
            continue
        written = token[0]
        if token["delimiter"]:
            delimiter, parts, begin = token["delimiter"], [], token.end()
        elif written == ";" and delimiter == ";":
            yield from _statement(begin, parts)
            parts, begin = [], token.end()
        elif delimiter != ";" and delimiter in written and written[0] not in "'\"`#/-":
            # Plain text is read only up to the delimiter.
            cut = written.index(delimiter)
            parts.append(written[:cut])
            at += cut
            continue
        elif not _is_comment(written):
            parts.append(written)
        at = token.end()
    yield from _statement(begin, parts)


def _is_comment(text: str) -> bool:
    if text.startswith("/*"):
        return not text.startswith(("/*!", "/*+"))
    return text.startswith("#") or (text.startswith("--") and len(text) > 1)


def _statement(begin: int, parts: list[str]) -> Iterator[ScriptStatement]:
    text = "".join(parts).strip()
    if text:
        use = _USE.match(text)
        yield ScriptStatement(begin, text, _unquoted(use[1]) if use else None)


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
