"""The `strata` command: its subcommands, its exit codes, how errors are printed.
Not here: the commands (one file each beside this one)."""

from __future__ import annotations

import errno
import gc
import importlib
import json
import os
import re
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strata_cdc.cli.examples import add_examples
from strata_cdc.cli.standard_streams import prepare_streams
from strata_cdc.environment import LIBRARIES
from strata_cdc.errors import OutputFullError, StrataError, Usage
from strata_cdc.extras import DISTRIBUTION, missing_extra
from strata_cdc.startup.switch import QuickStart, is_on
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMANDS = (
    "demo",
    "init",
    "run",
    "land",
    "snapshot",
    "track",
    "schema",
    "plan",
    "decode",
    "check",
    "publish",
    "intervals",
    "quarantine",
    "status",
    "position",
    "cut",
    "stream",
    "cache",
    "token",
    "retain",
    "housekeep",
    "lake",
    "views",
    "dump",
    "serve",
    "mirror",
    "sql",
    "row",
    "undo",
    "redo",
    "reconcile",
    "doctor",
    "upgrade",
    "docs",
    "version",
    "man",
)
"""In the order of the data's way. Each is a module of this package: it has a function of the same name, or a `GROUP` of
commands."""

ARROW_COMMANDS = frozenset({
    "run", "check", "decode", "dump", "housekeep", "mirror", "publish", "quarantine", "reconcile", "redo", "row", "sql",
    "stream", "undo", "views",
})  # fmt: skip
"""Those that convert values by Arrow, and have none of pandas."""
JSON_FLAG = "--json"
VERSION_FLAG = "--version"
_EXTRA_WORD = re.compile(r"unexpected extra argument\(s\) \((\S+)\)")
_NEGATIVE = re.compile(r"no such option: -\d", re.IGNORECASE)
BROKEN_PIPE = 141
INTERRUPTED = 130


def build_app(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command with some of its subcommands; of the others nothing is imported."""
    app = typer.Typer(
        name="strata",
        help="MySQL binlogs, decoded with the schema that was true at each GTID.",
        epilog=f"{JSON_FLAG}, anywhere in the line: reports on stdout and errors on stderr as JSON. Exit codes: 0 all "
        "well; 1 bad data, a gap or a failed check; 2 wrong usage; 3 something outside failed.",
        no_args_is_help=True,
        # A traceback with local variables would print passwords.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # With one subcommand and without a callback, typer would take its arguments for the command's own.
    app.callback()(_options)
    for command in commands:
        module = importlib.import_module(f"strata_cdc.cli.{command}")
        if hasattr(module, "GROUP"):
            app.add_typer(module.GROUP, name=command)
        else:
            app.command(command)(getattr(module, command))
    add_examples(app)
    return app


def _show_version(wanted: bool) -> None:  # noqa: FBT001  typer calls it so
    if wanted:
        # Imported here: it brings archives and e-mail along, a twentieth of a short command.
        import importlib.metadata

        typer.echo(f"strata {importlib.metadata.version(DISTRIBUTION)}")
        raise typer.Exit


def _options(
    version: Annotated[  # noqa: FBT002  a switch of the command line; typer hands it to its callback
        bool, typer.Option(VERSION_FLAG, help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options of `strata` itself."""


def run(arguments: Sequence[str], build: Callable[[Sequence[str]], typer.Typer] = build_app) -> int:
    """Runs one command line and returns its exit code; errors are printed, never raised.

    Args:
        arguments: The words after `strata`.
        build: Makes the command with the named subcommands.
    """
    as_json = JSON_FLAG in arguments
    words = [word for word in arguments if word != JSON_FLAG]
    named = [word for word in words[:1] or _completed() if word in COMMANDS]
    command = typer.main.get_command(build(() if words == [VERSION_FLAG] else named or COMMANDS))
    try:
        # The flag is known to all commands through the context's object.
        outcome = command.main(words, prog_name="strata", standalone_mode=False, obj={"json": as_json})
        # Here, and not at the end of Python, where nobody would report it.
        sys.stdout.flush()
    except (StrataError, ImportError) as error:
        return _refuse(_refusal_of(error), as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("stopped", err=True)
        return INTERRUPTED
    except OSError as error:
        return _end_without_output(error, as_json=as_json)
    except SystemExit as ended:
        # Typer makes an exit of it (typer/core.py, `_main`).
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        return _end_without_output(ended.__context__, as_json=as_json)
    except _refusal_of_typer() as error:
        # Typer has shown the help, and says nothing more, where only a command is missing.
        message = error.format_message().removesuffix(".") or "a command is missing"
        wrong = Usage(message[:1].lower() + message[1:], remedy=_remedy_of(error, " ".join(["strata", *named])))
        return _refuse(wrong, as_json=as_json)
    return outcome if isinstance(outcome, int) else 0


def _remedy_of(error: Any, command: str) -> str:
    """What to write instead of a word that typer refuses: sources and tables are named by options."""
    command = error.ctx.command_path if error.ctx else command
    extra = _EXTRA_WORD.search(error.format_message())
    options = {name for option in error.ctx.command.params for name in option.opts} if error.ctx else set()
    if _NEGATIVE.search(error.format_message()):
        return f"A value that begins with a minus comes after `--`: `{command} ... -- -5`."
    kind = "table" if extra and "." in extra[1] and "--table" in options else "source"
    if extra and f"--{kind}" in options:
        own = f"{command} --{kind} {shlex.quote(extra[1])}"
        return f"If that is a {kind}, write `{own}`; `{command} -h` shows what there is."
    return f"`{command} -h` shows what there is."


def _end_without_output(error: OSError, *, as_json: bool) -> int:
    """The exit code if the standard output takes no more: its reader went away (`strata decode ... | head`), or its
    disk is full. Any other error is raised."""
    is_full = error.errno == errno.ENOSPC and error.filename is None
    if not is_full and not isinstance(error, BrokenPipeError):
        raise error
    # Python writes what is left at its end, and would complain once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not is_full:
        return BROKEN_PIPE
    full = OutputFullError(
        "the standard output goes to a disk that is full", remedy="Free space there, then run the same again."
    )
    return _refuse(full, as_json=as_json)


def _completed() -> list[str]:
    """The subcommand whose words a shell wants to have completed; none if it is the subcommand itself."""
    return os.environ.get("COMP_WORDS", "").split()[1:2] if "_STRATA_COMPLETE" in os.environ else []


def _refusal_of(error: StrataError | ImportError) -> StrataError:
    if isinstance(error, StrataError):
        return error
    missing = missing_extra(error)
    if missing is None:
        raise error
    return missing


def _refusal_of_typer() -> Any:
    """What typer raises for a word of the command line that it refuses: click's exception before version 0.28."""
    own = getattr(typer, "TyperException", None)
    return importlib.import_module("click").ClickException if own is None else own


def _refuse(error: StrataError, *, as_json: bool) -> int:
    text = str(error)
    if as_json:
        typer.echo(json.dumps(to_plain(error.facts()), ensure_ascii=not text.isprintable()), err=True)
    else:
        # Of a mistake in the command line, its own help tells more, and the remedy names that.
        is_complete = type(error) is Usage or "docs/" in text
        typer.echo(f"strata: {text}" + ("" if is_complete else f" More: `strata docs {error.page}`."), err=True)
    return error.exit_code


def main() -> None:
    """Entry point of the console script."""
    # Starting makes a hundred thousand objects that stay; looking for garbage among them takes a tenth of the time.
    if is_on(QuickStart.GARBAGE):
        gc.set_threshold(50_000)
    for name, value in LIBRARIES.items():
        os.environ.setdefault(name, value)
    prepare_streams()
    if ARROW_COMMANDS.intersection(sys.argv[1:2]):
        from strata_cdc.startup.arrow import keep_pandas_out

        keep_pandas_out()
    code = run(sys.argv[1:])
    # The process's end frees all there is; Python would look for garbage in it first, for a tenth of a second.
    if is_on(QuickStart.GARBAGE):
        gc.freeze()
    sys.exit(code)
