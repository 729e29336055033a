"""`strata docs`, and the page that each error names."""

from __future__ import annotations

import pytest

from strata_cdc import errors
from strata_cdc.cli.docs import pages
from strata_cdc.cli.main import run
from tests.docs.reader import REPOSITORY

ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.StrataError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_the_page_of_each_error_is_there(kind: type[errors.StrataError]) -> None:
    assert kind.page in pages()


def test_all_pages_of_the_repository_are_listed_by_their_titles(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs"]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert sorted(shown) == sorted(path.stem for path in (REPOSITORY / "docs").glob("*.md"))
    assert shown["landing"] == "Landing: the binlog in the lake"


@pytest.mark.parametrize("name", ["tokens", "tokens.md", "docs/tokens.md"])
def test_a_program_gets_the_page_as_it_is_written(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", name]) == 0
    assert capsys.readouterr().out == (REPOSITORY / "docs" / "tokens.md").read_text()


def test_a_page_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", "../README"]) == 2
    assert "there is no page '../README'. `strata docs` lists all of them." in capsys.readouterr().err


def test_an_error_names_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "compare", "x", "y"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(" More: `strata docs tokens`.")


def test_a_mistake_in_the_command_line_names_only_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "--nonsense"]) == 2
    assert "docs" not in capsys.readouterr().err
