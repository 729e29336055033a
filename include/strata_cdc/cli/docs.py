"""`strata docs`: the pages of the documentation that belong to this version, without a network.
Not here: the site (`scripts/site/`), the commands' own help and the manual page (`man.py`)."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.markdown import Markdown

from strata_cdc.cli.terminal import Terminal, say, say_exactly
from strata_cdc.errors import Permanent, Usage
from strata_cdc.extras import DISTRIBUTION

INSTALLED: Final = f"share/doc/{DISTRIBUTION}"
"""Where the wheel puts the pages, below the environment."""


def pages() -> dict[str, Path]:
    """The file of each page, by its name without `.md`.

    An editable installation has none of its own: its pages are in the repository.
    """
    installed = [
        Path(str(file.locate())).resolve()
        for file in importlib.metadata.files(DISTRIBUTION) or ()
        if file.parent.as_posix().endswith(INSTALLED)
    ]
    shown = installed or (Path(__file__).resolve().parents[3] / "docs").glob("*.md")
    return {path.stem: path for path in sorted(shown, key=lambda path: path.stem)}


def title(page: Path) -> str:
    """The first heading."""
    with page.open(encoding="utf-8") as lines:
        return next((line.removeprefix("# ").strip() for line in lines if line.startswith("# ")), page.stem)


def docs(
    page: Annotated[str | None, typer.Argument(help="Name of a page; without it: the pages there are.")] = None,
) -> None:
    """Shows a page of the documentation of this version, or which pages there are.

    To a file or a program it writes the page's Markdown.
    """
    known = pages()
    if not known:
        raise Permanent("this installation is without its pages", remedy=f"The wheel puts docs/*.md into {INSTALLED}.")
    if page is None:
        for name, shown in known.items():
            say(f"{name:<32}{title(shown)}")
        return
    path = known.get(page.removeprefix("docs/").removesuffix(".md"))
    if path is None:
        raise Usage(f"there is no page {page!r}", remedy="`strata docs` lists all of them.")
    text = path.read_text(encoding="utf-8")
    if sys.stdout.isatty():
        Terminal().print(Markdown(text))
    else:
        say_exactly(text.removesuffix("\n"))
