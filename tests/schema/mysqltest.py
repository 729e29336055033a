"""The SQL of files of the servers' test suites, which are written for the program mysqltest.
Not here: running it (`server_suites.py`). Conditions and loops are not evaluated: their SQL is taken as it comes, each
statement with the values that variables have at that place. Other commands stay: a server refuses them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SQL = frozenset({"eval", "evalp", "query", "query_vertical", "query_horizontal", "send", "send_eval"})
"""Commands that run the SQL after them."""
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_LET = re.compile(r"\s*\$(\w+)\s*=\s*(.*)\Z", re.DOTALL)


def statements_of_test(root: Path, path: Path) -> list[str]:
    """The SQL statements of a file, and of the files that it includes; `root` is the suite's folder. Statements with
    variables that have no known value are left out. Bytes that are no UTF-8 are surrogates."""
    return list(_Reader(root).statements(path, ()))


class _Reader:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.delimiter = ";"
        self.values: dict[str, str] = {}

    def statements(self, path: Path, within: tuple[Path, ...]) -> Iterator[str]:
        within = (*within, path)
        text = path.read_text(encoding="utf8", errors="surrogateescape")
        at = 0
        while at < len(text):
            command, at = self._next(text, at)
            word = re.match(r"\w*", command)[0].lower()
            rest = command[len(word) :].strip()
            if word == "delimiter":
                self.delimiter = rest.removesuffix(self.delimiter).strip() or self.delimiter
            elif word == "let":
                self._let(rest)
            elif word == "source":
                included = self._included(path, rest)
                # Without its conditions a file that includes itself would have no end.
                if included is not None and included not in within:
                    yield from self.statements(included, within)
            elif word in {"perl", "write_file", "append_file"}:
                # Lines of a file follow, up to a line that is EOF or what the command names.
                end = rest.split()[-1] if rest and word != "perl" else rest or "EOF"
                found = re.compile(rf"^(?:{re.escape(end)}|EOF)\s*$", re.MULTILINE).search(text, at)
                at = found.end() if found else at
            elif word in _SQL:
                resolved = self._resolved(rest)
                if resolved:
                    yield resolved
            elif command:
                yield command

    def _let(self, rest: str) -> None:
        found = _LET.match(rest)
        if found is None:
            return
        value = self._resolved(found[2])
        if value is None or value.startswith("`"):
            self.values.pop(found[1], None)
        else:
            self.values[found[1]] = value

    def _resolved(self, text: str) -> str | None:
        """With the values of variables; None if one has none."""
        names = {name or other for name, other in _VARIABLE.findall(text)}
        if not names <= self.values.keys():
            return None
        return _VARIABLE.sub(lambda one: self.values[one[1] or one[2]], text)

    def _included(self, path: Path, name: str) -> Path | None:
        resolved = self._resolved(name)
        if resolved is None:
            return None
        places = (self.root / resolved, path.parent / resolved)
        return next((position for position in places if position.is_file()), None)

    def _next(self, text: str, at: int) -> tuple[str, int]:
        """The command or statement that begins at `at`, and where what follows it begins."""
        at = re.compile(r"[\s}]*").match(text, at).end()
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        if text.startswith("#", at):
            return "", line_end
        if text.startswith("--", at):
            return text[at + 2 : line_end].strip().removesuffix(self.delimiter), line_end
        block = re.compile(r"(?:if|while)\s*\(.*\)\s*\{?", re.IGNORECASE).match(text, at)
        if block:
            return "", block.end()
        end = at
        while end < len(text) and not text.startswith(self.delimiter, end):
            end = _after(text, end)
        # Lines that begin with # are remarks in a statement, too.
        statement = re.sub(r"^[ \t]*#.*\n?", "", text[at:end], flags=re.MULTILINE)
        return statement.strip(), end + len(self.delimiter)


def _after(text: str, at: int) -> int:
    """Where the quoted text, the comment or the character at `at` ends."""
    quote = text[at]
    if quote == "#" and text[at - 1 : at] in {"", "\n"}:
        return _or_end(text, text.find("\n", at))
    if text.startswith("/*", at):
        return _or_end(text, text.find("*/", at) + 2 if "*/" in text[at:] else -1)
    if text.startswith("-- ", at):
        return _or_end(text, text.find("\n", at))
    if quote not in "'\"`":
        return at + 1
    at += 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" and quote != "`" else 1
    return at + 1


def _or_end(text: str, at: int) -> int:
    return len(text) if at < 0 else at
