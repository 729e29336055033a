"""Hooks of MkDocs: pages from outside of `docs/`, the reference of the commands, and files that pages link to.

The pages are written to be read in the repository directly, with links from file to file. Here they get their
location on the site. Source: MkDocs' user guide, "Hooks".
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import typer
from mkdocs.structure.files import File
from typer.cli import get_docs_for_click

from scripts.site.settings_reference import settings_reference
from strata_cdc.cli.main import build_app
from strata_cdc.errors import BadData, Permanent, StrataError, Transient, Usage
from strata_cdc.extras import DISTRIBUTION

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "bench/RESULTS.md": "results.md"}
"""Pages outside of `docs/`, and their location on the site."""
COPIED: Final = ("docker-compose.yaml", "monitoring/alerts.yaml", "monitoring/grafana.json")
"""Files that pages link to; on the site below `files/`."""
COMMANDS: Final = "commands.md"
_LINK: Final = re.compile(r"(?<=\]\()(?!https?://|#|mailto:)([^)\s#]+)(#[^)\s]*)?(?=\))")

_WRITTEN: Final[dict[str, str]] = {}
"""The Markdown of each page of this build, by its path on the site."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Each version of Strata has a folder of its own; those of earlier builds stay."""
    config.site_dir = str(Path(config.site_dir) / importlib.metadata.version(DISTRIBUTION))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds pages from elsewhere, and pages that are made here."""
    for path, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / path).read_text()))
    for path in COPIED:
        files.append(File.generated(config, _copied(path), content=(ROOT / path).read_bytes()))
    files.append(File.generated(config, "decisions/index.md", content=decisions()))
    files.append(File.generated(config, COMMANDS, content=commands()))
    files.append(File.generated(config, "settings-reference.md", content=settings_reference()))
    files.append(File.generated(config, "errors.md", content=errors()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links between files of the repository into links between pages of the site."""
    del config, files
    here = PurePosixPath(_in_repository(page.file.src_uri))

    def moved(link: re.Match[str]) -> str:
        target = _resolved(here.parent, link[1])
        return _relative(_on_site(target), PurePosixPath(page.file.src_uri).parent) + (link[2] or "")

    written = _LINK.sub(moved, markdown)
    _WRITTEN[page.file.src_uri] = written
    return written


def on_post_build(config: MkDocsConfig) -> None:
    """Puts beside each page its Markdown, with the links of the site, and beside the first one a list of all of them
    (llmstxt.org), for programs that read text and no HTML."""
    site = Path(config.site_dir)
    for name, markdown in _WRITTEN.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(markdown)
    (site / "llms.txt").write_text(llms_text(config))
    _list_versions(site.parent)


def _list_versions(folder: Path) -> None:
    """What the menu of versions reads (in the form of mike), and a first page that leads to the newest one."""
    built = [path.parent.name for path in folder.glob("*/index.html")]
    newest, *older = sorted(built, key=_numbers, reverse=True)
    listed = [{"version": newest, "title": newest, "aliases": ["latest"]}]
    listed += [{"version": name, "title": name, "aliases": []} for name in older]
    (folder / "versions.json").write_text(json.dumps(listed))
    (folder / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={newest}/index.html">\n')


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def llms_text(config: MkDocsConfig) -> str:
    """The list of pages, by the parts of the menu: each with its title and the Markdown file that it is made from."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for entry in config.nav or ():
        for part, pages in entry.items():
            listed = [{part: pages}] if isinstance(pages, str) else pages
            lines += [f"## {part}", ""]
            lines += [f"- [{title}]({page})" for found in listed for title, page in found.items()]
            lines += [""]
    return "\n".join(lines)


def commands() -> str:
    """The reference of `strata`, from the code: every command with its arguments, options and defaults."""
    app = typer.main.get_command(build_app())
    text = get_docs_for_click(obj=app, ctx=typer.Context(app), name="strata", title="Commands")
    # Outside of code, MkDocs reads text in angle brackets as HTML.
    return re.sub(r"(`[^`]*`)|<(?=[A-Za-z])", lambda found: found[1] or "&lt;", text)


def errors() -> str:
    """All errors, from the code: by exit code, each with what it means."""
    lines = [
        "# Errors",
        "",
        "With `--json`, an error is one JSON object on stderr: `error` is a name of this page; `message` and `remedy` "
        "are what a terminal shows; `source`, `table`, `gtid`, `file` and `offset` say where it is, as far as that is "
        "known. Airflow's logs have the name in parentheses. [The runbook](runbook.md) has what to do in larger cases.",
    ]
    for kind, title in ((BadData, "Bad data"), (Usage, "Usage"), (Permanent, "Set up wrongly"), (Transient, "Not now")):
        lines += [
            "",
            f"## {title}: exit code {kind.exit_code}",
            "",
            _meaning(kind),
            "",
            "| error | meaning | more |",
            "|---|---|---|",
        ]
        lines += [
            f"| `{error.__name__}` | {_meaning(error)} | [{error.page}]({error.page}.md) |"
            for error in sorted(_below(kind), key=str)
        ]
    return "\n".join(lines) + "\n"


def _below(kind: type[StrataError]) -> set[type[StrataError]]:
    return {found for child in kind.__subclasses__() for found in (child, *_below(child))}


def _meaning(kind: type[StrataError]) -> str:
    return " ".join((kind.__doc__ or "").split())


def decisions() -> str:
    """All decisions, by number, each with its title."""
    found = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    lines = (f"- [{path.read_text().partition(chr(10))[0].removeprefix('# ')}]({path.name})" for path in found)
    return "# Decisions\n\nWhy it is as it is: one page each, with what was measured.\n\n" + "\n".join(lines) + "\n"


def _in_repository(page: str) -> str:
    return next((path for path, name in PAGES.items() if name == page), f"docs/{page}")


def _resolved(folder: PurePosixPath, link: str) -> str:
    parts: list[str] = []
    for part in (folder / link).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _copied(path: str) -> str:
    return f"files/{PurePosixPath(path).name}"


def _on_site(path: str) -> str:
    if path in PAGES:
        return PAGES[path]
    if path in COPIED:
        return _copied(path)
    return "decisions/index.md" if path == "docs/decisions" else path.removeprefix("docs/")


def _relative(target: str, folder: PurePosixPath) -> str:
    return "../" * len(folder.parts) + target
