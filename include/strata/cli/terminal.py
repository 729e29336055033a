"""What the command prints for people: names and texts of others never steer the terminal.
Not here: errors (`strata.errors` writes them so), JSON, which has its own way."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.segment import Segment

from strata.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable


class Terminal(Console):
    """A console that writes control characters of a text out; its own colours stay."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(one if one.control else Segment(printable(one.text), one.style) for one in buffer)


def say(text: str, *, err: bool = False) -> None:
    """Prints a line."""
    typer.echo(printable(text), err=err)


def say_exactly(text: str) -> None:
    """Prints what a program may read: byte for byte, but for a terminal, which names and comments must not steer."""
    typer.echo(printable(text) if sys.stdout.isatty() else text)
