"""Options and arguments that several commands have: the same name, the same meaning, the same help.
Not here: what they are for (the commands beside this file)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from strata_cdc.config.engines import Engine
from strata_cdc.config.settings import load_settings
from strata_cdc.time_text import parse_time

if TYPE_CHECKING:
    from strata_cdc.config.settings import Source

LOCAL = "local[*]"
"""Spark in a process of this machine, on all of its processors."""

SourceName = Annotated[
    str | None, typer.Option("--source", help="A source of the settings; not needed where they have only one.")
]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run, as `strata plan` names it.")]
Master = Annotated[
    str | None,
    typer.Option(
        help="Where Spark runs: its master, as in local[4] or spark://HOST:7077. Given, Spark decodes.",
        show_default=False,
    ),
]
EngineName = Annotated[
    Engine | None,
    typer.Option(
        "--engine",
        help="What decodes: threads of this process (local), Spark, or either by the run's size (auto). By default as "
        "the settings have it.",
        show_default=False,
    ),
]
Tables = Annotated[
    list[str] | None, typer.Option("--table", help="Patterns of database.table, as in 'shop.*'; may be repeated.")
]


def source_of(name: str | None) -> Source:
    """The source that a command names, or the only one of the settings. Raises the errors of `Settings.source`."""
    return load_settings(os.environ).source(name)


def optional_time(text: str | None) -> int | None:
    """A time of the command line in microseconds UTC; None if none is given.

    Raises:
        Usage: It is no time.
    """
    return None if text is None else parse_time(text)
