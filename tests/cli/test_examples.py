"""The examples that `--help` shows: each command has some, and each is a line that the command takes. And what else is
made of the commands: what shells complete, and the manual page."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from strata_cdc.cli.examples import EXAMPLES
from strata_cdc.cli.main import build_app

PROGRAM = Path(sys.executable).with_name("strata")


def leaves(command: Any, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """Each command by its words."""
    if not hasattr(command, "commands"):
        return {" ".join(words): command}
    found: dict[str, Any] = {}
    for name, part in command.commands.items():
        found |= leaves(part, (*words, name))
    return found


COMMANDS = leaves(typer.main.get_command(build_app()))


def test_each_command_has_examples() -> None:
    assert list(EXAMPLES) == list(dict.fromkeys(EXAMPLES))
    assert set(EXAMPLES) == set(COMMANDS)
    assert all(COMMANDS[name].epilog.split("\n\n")[1:] == list(lines) for name, lines in EXAMPLES.items())


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in EXAMPLES.items() for line in lines])
def test_the_command_takes_it(name: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Every command takes --json; `run` takes it off first.
    program, *words = (word for word in shlex.split(line) if word != "--json")
    own = name.split()
    assert (program, words[: len(own)]) == ("strata", own)
    # It raises for what the command does not know.
    assert COMMANDS[name].make_context(name, words[len(own) :]).command is COMMANDS[name]


def completed(line: str) -> list[str]:
    """What bash offers for the last word of a line."""
    words = len(line.split()) + line.endswith(" ")
    environment = {"_STRATA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(words - 1)}
    done = subprocess.run([PROGRAM], env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("strata rec", ["reconcile"]),
        ("strata mirror ver", ["verify"]),
        ("strata run --fo", ["--follow"]),
        ("strata run --engine ", ["auto", "local", "spark"]),
    ],
)
def test_a_shell_completes(line: str, words: list[str]) -> None:
    assert completed(line) == words


def test_the_manual_page() -> None:
    """Every command, option and example is in it, and no formatter has anything to complain about."""
    page = subprocess.run([PROGRAM, "man"], capture_output=True, text=True, check=True).stdout
    plain = page.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")
    for name, command in COMMANDS.items():
        assert f".SS strata {name}\n" in plain
        for line in EXAMPLES[name]:
            assert f"    {line}\n" in plain
        for parameter in command.params:
            assert parameter.opts[0] in plain or parameter.human_readable_name in plain
    lines = page.splitlines()
    assert lines[0].startswith(".TH STRATA 1 ")
    macros = {line.split()[0] for line in lines if line.startswith(".")}
    assert macros == {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".I", ".nf", ".fi"}
    assert not [line for line in lines if line.startswith("'")]
    if shutil.which("groff"):
        made = subprocess.run(["groff", "-man", "-ww", "-z"], input=page, capture_output=True, text=True, check=True)
        assert made.stderr == ""
