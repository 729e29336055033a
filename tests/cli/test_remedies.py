"""Every command that a message of ours suggests is one, as it stands there: found in the source, parsed by the command
line itself."""

from __future__ import annotations

import ast
import re
import shlex
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from hypothesis import example, given
from hypothesis import strategies as st

from strata_cdc.cli.main import build_app
from strata_cdc.cli.table_name import table_name
from strata_cdc.schema.history.shell_words import pattern_word, row_words, table_word, word
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.patterns import matches
from strata_cdc.serve.rendering import make_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
ROOMS = ("include", "dags")
SUGGESTED = re.compile(r"`strata ([^`]*)`")
VALUE = "20261121T033000Z-20261121T033500Z-shop-rows-0f1e2d3c4b"
"""In the place of what a message fills in."""
BY_NAME = re.compile(r"\b(?:FILES|FILE|NAME|TOKEN|URL|FOLDER|RUN|TIME|SET)(?:\.\.\.|\.sql)?(?![\w-])")


CHOSEN = re.compile(r"(--(?:table|key|where|columns|gtid-set|files|at|interval)|strata track) '?$")
"""Before what a user or a server has named: it may have any character."""


COMMAND = typer.main.get_command(build_app())


def texts(module: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of a module with their lines; what is filled in is some value. No docstrings: nobody is shown them."""
    documents = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(module) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(module):
        if id(node) in documents:
            continue
        if isinstance(node, ast.JoinedStr):
            found = (part.value if isinstance(part, ast.Constant) else VALUE for part in node.values)
            yield node.lineno, "".join(map(str, found))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def suggestions() -> list[tuple[str, str]]:
    """Where a command is suggested, and its words behind `strata`."""
    found = []
    for room in ROOMS:
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            source = path.read_text()
            if "strata " in source:
                for line, text in texts(ast.parse(source)):
                    where = f"{path.relative_to(REPOSITORY)}:{line}"
                    found += [(where, words) for words in SUGGESTED.findall(text)]
    return found


def parse(words: list[str]) -> None:
    """Reads a command line to its end without running it.

    Raises:
        typer.TyperException: It is none.
    """
    command, context, name = COMMAND, None, "strata"
    while True:
        context = command.make_context(name, list(words), parent=context)
        if not hasattr(command, "resolve_command"):
            return
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])


def fault_of(words: str) -> str | None:
    """Why a command line is none; None if it is one."""
    given = [word for word in shlex.split(BY_NAME.sub(VALUE, words)) if word not in {"-h", "--json"}]
    try:
        parse(given)
    except typer.TyperException as error:
        return error.format_message()
    return None


def test_what_a_message_suggests_is_a_command() -> None:
    # All in one test: to find them takes seconds, which each process that collects tests would need.
    found = suggestions()
    assert len(found) > 30
    assert [(where, words, fault) for where, words in found if (fault := fault_of(words)) is not None] == []


def test_a_wrong_suggestion_is_found():
    for wrong in (
        ["snapshot", "--sauce", "shop"],
        ["snapshot", "late"],
        ["schema", "history", "--tabel", "a.b"],
        ["sho"],
    ):
        with pytest.raises(typer.TyperException):
            parse(wrong)


NAMES = st.text(st.sampled_from("ab.`'\"$;|&<>()*?[]!~#-\\ \t\né"), min_size=1, max_size=6)
TABLES = st.builds(TableName, NAMES, NAMES)
OF_ONE_TABLE = ("schema show", "schema history", "undo --gtid x")
OF_PATTERNS = ("dump", "run --failed", "reconcile", "mirror verify", "quarantine discard --because x")


@pytest.mark.parametrize("command", OF_ONE_TABLE)
@given(table=TABLES)
@example(table=TableName("a`b", "c; rm -rf $HOME"))
@example(table=TableName("a.b", "it's"))
def test_one_table_of_any_name_can_be_typed(command: str, table: TableName) -> None:
    words = shlex.split(f"{command} --table {table_word(table)}")
    parse(words)
    assert (len(words), table_name(words[-1])) == (len(command.split()) + 2, table)


@pytest.mark.parametrize("command", OF_PATTERNS)
@given(table=TABLES, other=TABLES)
@example(table=TableName("a", "[b]*"), other=TableName("a", "b"))
@example(table=TableName("a", "b?"), other=TableName("a", "bb"))
def test_a_pattern_of_any_name_is_of_that_table(command: str, table: TableName, other: TableName) -> None:
    words = shlex.split(f"{command} --table {pattern_word(table)}")
    parse(words)
    assert len(words) == len(command.split()) + 2
    assert matches(table, words[-1:], folded=False)
    assert matches(other, words[-1:], folded=False) == (str(other) == str(table))


@given(table=TABLES, key=st.lists(NAMES, min_size=1, max_size=2))
@example(table=TableName("-x", "t"), key=["-2"])
def test_a_row_of_any_key_can_be_typed(table: TableName, key: list[str]) -> None:
    words = shlex.split(f"row history {row_words(table, key)}")
    parse(words)
    assert words[-len(key) - 1 :] == [shlex.split(table_word(table))[0], *key]


@given(table=TABLES)
@example(table=TableName("d", "a`b' `c"))
def test_a_page_shows_a_command_whole(table: TableName) -> None:
    command = f"strata mirror verify --table {pattern_word(table)}"
    commands = make_environment().filters["commands"]
    shown = commands(f"`{command}` compares it; `strata run` goes on")
    found = re.findall(r'<code class="command">(.*?)</code>', str(shown), re.DOTALL)
    assert list(map(unescape, found)) == [command, "strata run"]


@pytest.mark.parametrize("page", sorted((REPOSITORY / "include/strata_cdc/serve/templates").glob("*.html")))
def test_commands_of_pages_are_quoted(page: Path) -> None:
    """A source's name needs no quotes; a whole command comes from the source, above."""
    for command in re.findall(r'<code class="command">(.*?)</code>', page.read_text()):
        given = re.findall(r"\{\{ (.*?) \}\}", command)
        assert all(re.search(r"\| (\w+_)?word$|\| iso$|^row_words\(|^source$|^one.command$", text) for text in given)


def filled_in() -> list[tuple[str, str, ast.expr]]:
    """Where a command has an option or an argument of which a user chose the text, and what fills it in."""
    found = []
    for room in ROOMS:
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            source = path.read_text()
            if "--" not in source and "strata " not in source:
                continue
            for node in ast.walk(ast.parse(source)):
                parts = node.values if isinstance(node, ast.JoinedStr) else []
                for before, part in pairwise(parts):
                    option = CHOSEN.search(before.value) if isinstance(before, ast.Constant) else None
                    if option and isinstance(part, ast.FormattedValue) and part.format_spec is None:
                        found.append((f"{path.relative_to(REPOSITORY)}:{part.lineno}", option[1], part.value))
    return found


def test_whatever_a_user_has_named_is_quoted() -> None:
    quoting = {one.__name__ for one in (word, table_word, pattern_word)}
    wrong = [
        f"{where}: {option} {ast.unparse(value)}"
        for where, option, value in filled_in()
        if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in quoting)
    ]
    assert not wrong
