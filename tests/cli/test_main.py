"""The frame of the command line: help, exit codes, errors for people and for programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from strata_cdc.cli import main as command
from strata_cdc.errors import BinlogPurgedError, CorruptEventError, UnknownSourceError


def failing(error):
    """Makes a command line whose commands are one that fails with this error, and one that does nothing."""
    app = typer.Typer()

    @app.command()
    def fail(often: int = 1) -> None:
        print("row before the fault")
        raise error

    @app.command()
    def other() -> None: ...

    return lambda _: app


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CorruptEventError("bad", file="binlog.000001", offset=1934, gtid="u:1"), 1),
        (UnknownSourceError("no such source"), 2),
        (BinlogPurgedError("gone"), 3),
    ],
)
def test_an_error_is_one_line_on_stderr_and_its_exit_code(capsys, error, code):
    assert command.run(["fail"], failing(error)) == code
    printed = capsys.readouterr()
    assert printed.out == "row before the fault\n"
    assert printed.err == f"strata: {error} More: `strata docs {error.page}`.\n"


def test_with_json_the_last_line_of_stderr_is_the_error(capsys):
    build = failing(CorruptEventError("bad", file="binlog.000001", offset=1934, gtid="u:1"))
    assert command.run(["fail", "--json"], build) == 1
    assert json.loads(capsys.readouterr().err.splitlines()[-1]) == {
        "error": "CorruptEventError",
        "message": "bad",
        "file": "binlog.000001",
        "offset": 1934,
        "gtid": "u:1",
    }


@pytest.mark.parametrize("words", [["fail", "--often", "x"], ["fail", "--nothing"], ["nothing"]])
def test_wrong_words_are_usage(capsys, words):
    build = failing(CorruptEventError("not reached"))
    assert command.run(words, build) == 2
    assert command.run([*words, "--json"], build) == 2
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["error"] == "Usage"


def test_a_bug_is_not_dressed_up_as_an_error():
    with pytest.raises(ZeroDivisionError):
        command.run(["fail"], failing(ZeroDivisionError()))


def test_the_version_and_wrong_words_are_one_line(capsys):
    assert command.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("strata 0.")
    for words, said in (
        (["publish"], "strata: missing argument 'RUN'. `strata publish -h` shows what there is.\n"),
        (
            ["run", "shop"],
            "strata: got unexpected extra argument(s) (shop). If that is a source, write `strata run --source shop`; "
            "`strata run -h` shows what there is.\n",
        ),
        (
            ["schema", "history", "shop"],
            "strata: got unexpected extra argument(s) (shop). If that is a source, write `strata schema history "
            "--source shop`; `strata schema history -h` shows what there is.\n",
        ),
        (
            ["quarantine", "show", "shop.orders"],
            "strata: got unexpected extra argument(s) (shop.orders). If that is a table, write `strata quarantine show "
            "--table shop.orders`; `strata quarantine show -h` shows what there is.\n",
        ),
        (["nothing"], "strata: no such command 'nothing'. `strata -h` shows what there is.\n"),
        ([], "strata: a command is missing. `strata -h` shows what there is.\n"),
        (["schema"], "strata: a command is missing. `strata schema -h` shows what there is.\n"),
    ):
        assert command.run(words) == 2
        assert capsys.readouterr().err == said


@pytest.mark.parametrize("words", [["version"], ["--help"], ["run", "-h"], ["version", "--json"], ["--version"]])
def test_output_to_a_full_disk(words):
    program = Path(sys.executable).with_name("strata")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([program, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert "disk that is full" in done.stderr
    assert "Traceback" not in done.stderr


def test_of_any_locale_a_program_reads_utf_8():
    program = Path(sys.executable).with_name("strata")
    names = os.environ | {"PYTHONIOENCODING": "iso8859-9"}
    done = subprocess.run([program, "docs", "map"], env=names, capture_output=True, check=True)
    assert "──dump──►" in done.stdout.decode()
    done = subprocess.run([program, "run", "şİı日"], env=names, capture_output=True, check=False)
    assert (done.returncode, "--source 'şİı日'" in done.stderr.decode()) == (2, True)


def test_a_terminal_of_another_charset_gets_escapes():
    program, (shown, terminal) = Path(sys.executable).with_name("strata"), os.openpty()
    names = os.environ | {"PYTHONIOENCODING": "iso8859-9"}
    done = subprocess.run([program, "run", "şİı日"], env=names, stdout=terminal, stderr=terminal, check=False)
    os.close(terminal)
    assert done.returncode == 2
    assert r"--source 'şİı\u65e5'" in os.read(shown, 4096).decode("iso8859-9")
    os.close(shown)


@pytest.mark.parametrize(("words", "code"), [("docs map >&-", 0), ("version <&- >&- 2>&-", 0), ("nothing 2>&-", 2)])
def test_streams_that_are_closed(words, code):
    program = Path(sys.executable).with_name("strata")
    done = subprocess.run(["sh", "-c", f"{program} {words}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")


def test_options_of_a_mirror_command_come_after_it(capsys):
    assert command.run(["mirror", "--source", "shop", "list"]) == 2
    assert "--source and --table come after the command. Write `list` first" in capsys.readouterr().err
