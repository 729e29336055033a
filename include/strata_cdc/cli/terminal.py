"""What the command prints for people: names and texts from outside never control the terminal.
Not here: errors (`errors.py` writes them so), JSON, which has its own way."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.console import Console
from rich.segment import Segment

from strata_cdc.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable


_WIDE: Final = 10_000
"""Columns where nobody looks: what is piped to a program or a file keeps its names whole."""


class Terminal(Console):
    """A console that writes control characters of a text out; its own colours stay. Only a terminal's width, or the
    one that the environment sets, cuts or wraps what it prints."""

    def __init__(self, **options: Any) -> None:
        """Takes rich's own options. A text in brackets is a text, if `markup` is not set; one between colons, as a
        GTID's tag, always is."""
        super().__init__(**{"markup": False, "emoji": False, **options})
        if not self.is_terminal and "COLUMNS" not in os.environ:
            self.width = _WIDE

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else Segment(printable(segment.text), segment.style) for segment in buffer
        )


def say(text: str, *, err: bool = False) -> None:
    """Prints a line."""
    typer.echo(printable(text), err=err)


def say_exactly(text: str) -> None:
    """Prints what a program may read: byte for byte, but for a terminal, which names and comments must not steer."""
    typer.echo(printable(text) if sys.stdout.isatty() else text)
