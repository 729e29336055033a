"""What a page of the documentation tells its reader to type, and what it says that comes of it.
Not here: typing it (`reader.py`), the server that the pages speak of (`test_pages.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PROMPT = "$ "
_PROGRESS = re.compile(r"[a-z]+ +[\d,]+ of [\d,]+ [a-z]+(, .*)?")
"""How often a step reports its progress depends on the machine; a landing also reports its bytes and its lag."""


class Block(Struct, frozen=True):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    """`sh`, `python`, `sql`, `toml`, ...; empty if the page names none."""
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


class Step(Struct, frozen=True):
    """A command, and what the page shows of its output."""

    command: str
    shown: str | None
    """None: the page shows nothing, and the command has to succeed."""


def read_blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a Markdown page, from its top."""
    inside: list[str] | None = None
    language, begin = "", 0
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            if inside is None:
                inside, language, begin = [], line[3:].strip(), number
            else:
                yield Block(page.name, begin, language, "\n".join(inside))
                inside = None
        elif inside is not None:
            inside.append(line)


def steps(block: Block) -> list[Step]:
    """The commands of a `sh` block: one script, or commands behind a prompt with their output below each."""
    if not block.text.startswith(_PROMPT):
        return [Step(block.text, None)]
    parts = re.split(rf"^{re.escape(_PROMPT)}", block.text, flags=re.MULTILINE)[1:]
    return [Step(*part.rstrip("\n").partition("\n")[::2]) for part in parts]


def as_shown(shown: str, printed: str) -> bool:
    """Whether output is what a page shows: `…` stands for any text within a line, and alone for any lines."""
    pattern = "".join(_line_pattern(line.rstrip()) for line in shown.strip("\n").splitlines())
    lines = (line.rstrip() for line in printed.strip("\n").splitlines())
    found = "".join(f"{line}\n" for line in lines if not _PROGRESS.fullmatch(line))
    return re.fullmatch(pattern, found) is not None


def _line_pattern(line: str) -> str:
    if line == "…":
        return r"(?:[^\n]*\n)*"
    # What a terminal pads depends on the texts that differ.
    parts = (re.escape(part).replace("…", r"[^\n]*") for part in re.split(" {2,}", line))
    return " +".join(parts) + "\n"
