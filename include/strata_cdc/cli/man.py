"""`strata man`: the manual page, from the commands themselves.
Not here: the reference of the site, which has the same (`scripts/site/hooks.py`)."""

from __future__ import annotations

import importlib.metadata
import re
from typing import TYPE_CHECKING, Any, Final

import typer

from strata_cdc.cli.terminal import say_exactly
from strata_cdc.extras import DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXIT_CODES: Final = (
    ("0", "All is well."),
    ("1", "Bad data, a gap, or a failed check."),
    ("2", "Wrong usage."),
    ("3", "Something outside failed: a server, the store, the lake."),
    ("130", "Interrupted."),
)
_VARIABLES: Final = (
    ("STRATA_SETTINGS", "The settings, a TOML file."),
    ("STRATA_SETTINGS_TEXT", "The settings themselves, instead of a file."),
    ("AIRFLOW_CONN_ID", "The URL of the connection ID, as mysql://USER:PASSWORD@HOST:PORT/."),
    ("STRATA_PLAIN_START", "1: nothing that only makes commands start sooner is used."),
)


def man() -> None:
    """Prints the manual page of all commands.

    To read it: `strata man | man -l -`. To install it: `strata man > ~/.local/share/man/man1/strata.1`.
    """
    from strata_cdc.cli.main import build_app

    for line in manual(typer.main.get_command(build_app())):
        say_exactly(line)


def manual(root: Any) -> Iterator[str]:
    """The lines of the page in the macros of man(7).

    Args:
        root: The command with all of its subcommands.
    """
    version = importlib.metadata.version(DISTRIBUTION)
    yield f'.TH STRATA 1 "" "strata {version}" "User commands"'
    yield from (".SH NAME", f"strata \\- {_text(root.help.rstrip('.'))}")
    yield from (".SH SYNOPSIS", ".B strata", ".I COMMAND", "[OPTIONS] ...")
    yield from (".SH DESCRIPTION", _text(root.epilog or ""))
    yield ".SH COMMANDS"
    for name, command in _leaves(root, ()):
        yield from (f".SS strata {_text(name)}", *_paragraphs(command.help or ""))
        yield from _parameters(command)
        examples = (command.epilog or "").split("\n\n")[1:]
        if examples:
            yield from (".PP", "Examples:", ".nf", *(f"    {_text(example)}" for example in examples), ".fi")
    yield ".SH ENVIRONMENT"
    yield from _tagged(_VARIABLES)
    yield ".SH EXIT STATUS"
    yield from _tagged(_EXIT_CODES)


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield " ".join(words), command
        return
    for name, part in command.commands.items():
        yield from _leaves(part, (*words, name))


def _parameters(command: Any) -> Iterator[str]:
    for parameter in command.params:
        names = parameter.opts if parameter.param_type_name == "option" else [parameter.human_readable_name]
        if "--help" not in names:
            yield from _tagged([(", ".join((*names, *parameter.secondary_opts)), getattr(parameter, "help", "") or "")])


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield from (".PP", _text(" ".join(paragraph.split())))


def _tagged(pairs: Any) -> Iterator[str]:
    for tag, text in pairs:
        yield from (".TP", f".B {_text(tag)}", _text(" ".join(text.split())))


def _text(text: str) -> str:
    """A text that no macro reads: backslashes, hyphens that must be copied, and dots and quotes at a line's begin."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped) or "\\&"
