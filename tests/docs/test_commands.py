"""Each command that a document names in passing is one of the program, with options that it has."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest
import typer

from strata_cdc.cli.main import JSON_FLAG, build_app
from tests.docs.reader import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
STRATA = typer.main.get_command(build_app())


def named_commands() -> Iterator[tuple[str, str]]:
    """Document and command, of all that stand between backquotes."""
    for document in DOCUMENTS:
        for span in re.findall(r"`(strata [^`\n]+)`", document.read_text()):
            yield document.name, span


def parse(text: str) -> None:
    """Goes down from the program to the command, and asks it for the options.

    Raises:
        AssertionError: There is no such command, or it has no such option.
    """
    command: Any = STRATA
    words = shlex.split(text.replace("...", ""))[1:]
    while (below := getattr(command, "commands", None)) and words and not words[0].startswith("-"):
        assert words[0] in below, f"{text}: {command.name} has no command {words[0]}"
        command, words = below[words[0]], words[1:]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert options <= known | {"--help", JSON_FLAG}, f"{text}: no {', '.join(sorted(options - known))}"


def test_the_commands_are_there() -> None:
    commands = set(named_commands())
    assert len(commands) > 20
    for document, text in sorted(commands):
        try:
            parse(text)
        except AssertionError as error:
            raise AssertionError(f"{document}: {error}") from error


@pytest.mark.parametrize("text", ["strata dekode x", "strata schema shew", "strata status --bogus"])
def test_what_is_not_there_is_found(text: str) -> None:
    with pytest.raises(AssertionError):
        parse(text)
