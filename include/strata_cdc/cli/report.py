"""Prints the report of a command.
Not here: what it did (`pipeline/`), its rows (`rows_out.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from strata_cdc.cli.terminal import say
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msgspec import Struct


def print_line(value: Struct | dict[str, Any]) -> None:
    """A value as a line of JSON."""
    typer.echo(json.dumps(value if isinstance(value, dict) else to_plain(value), ensure_ascii=False))


def print_lines(values: Iterable[Struct]) -> None:
    """Each value as a line of JSON."""
    for value in values:
        print_line(value)


def print_report(report: Struct | dict[str, Any], *, as_json: bool) -> None:
    """A step's report: as JSON, or as a line for each field that is not empty, and for each value of a list."""
    if as_json:
        print_line(report)
        return
    plain = report if isinstance(report, dict) else to_plain(report)
    flat = {name: _counts(value) if isinstance(value, dict) else value for name, value in plain.items()}
    shown = {name.replace("_", " "): value for name, value in flat.items() if value not in (None, "", [], ())}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        first, *rest = value if isinstance(value, list) else [value]
        say(f" {name:<{width}}  {first}")
        for line in rest:
            say(f" {'':<{width}}  {line}")


def _counts(counts: dict[str, Any]) -> str:
    """Numbers by name in one line; empty if all are 0."""
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items() if number)
