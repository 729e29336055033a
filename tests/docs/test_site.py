"""The documentation as a site: every link and anchor leads somewhere, and a browser reads it from a disk, alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.main import COMMANDS
from strata_cdc.config.groups import GroupSettings
from strata_cdc.config.settings import FileSettings, SourceSettings
from strata_cdc.errors import BadData, Permanent, Transient, Usage
from tests.browser import open_browser
from tests.docs.reader import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.browser
BROWSER_MILLISECONDS = 120_000
"""Other tests keep the machine busy."""
OLDER = "0.0.10"
_LOADED = re.compile(r"""<(?:script|img|link)\b[^>]*?\b(?:src|href)=["']?([^"'\s>]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a link or an anchor that leads nowhere, or a page that no menu has, fails the build."""
    folder = tmp_path_factory.mktemp("site")
    (folder / OLDER).mkdir()
    (folder / OLDER / "index.html").touch()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / version("strata-cdc")


def test_a_version_stays_when_another_one_is_built(site: Path) -> None:
    listed = json.loads((site.parent / "versions.json").read_text())
    assert [(one["version"], one["aliases"]) for one in listed] == [(site.name, ["latest"]), (OLDER, [])]
    assert (site.parent / OLDER / "index.html").exists()
    assert f"url={site.name}/index.html" in (site.parent / "index.html").read_text()


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loaded = _LOADED.findall(page.read_text())
        assert loaded
        assert [one for one in loaded if re.match(r"(?:https?:)?//", one)] == [], page


def test_the_reference_has_every_command(site: Path) -> None:
    text = (site / "commands.html").read_text()
    for command in COMMANDS:
        name = command.rpartition(".")[2].replace("_", "-")
        assert f"strata {name}" in text, name
    assert "&amp;lt;" not in text


def test_the_reference_has_every_setting(site: Path) -> None:
    text = (site / "settings-reference.html").read_text()
    for kind in (SourceSettings, GroupSettings, FileSettings):
        for name in kind.__struct_fields__:
            assert re.search(rf"<td><code>{name}</code></td>\s*<td>.+</td>\s*<td>.+</td>\s*<td>.+</td>", text), name


def test_the_reference_has_every_error(site: Path) -> None:
    text = (site / "errors.html").read_text()
    kinds = [BadData, Usage, Permanent, Transient]
    for kind in kinds:
        kinds += kind.__subclasses__()
    own = {kind.__name__ for kind in kinds[4:] if kind.__module__ == "strata_cdc.errors"}
    assert len(own) > 40
    assert not {name for name in own if f"<code>{name}</code>" not in text}


def test_programs_find_the_text_of_each_page(site: Path) -> None:
    listed = re.findall(r"^- \[.+\]\((.+\.md)\)$", (site / "llms.txt").read_text(), re.MULTILINE)
    assert {"index.md", "your-server.md", "commands.md", "settings-reference.md", "runbook.md"} <= set(listed)
    for name in listed:
        text = (site / name).read_text()
        assert re.search(r"^# ", text, re.MULTILINE), name
        for link in re.findall(r"\]\((?!https?:|#|mailto:)([^)\s#]+\.md)", text):
            assert (site / name).parent.joinpath(link).exists(), (name, link)


def test_every_kind_of_page_is_reached_from_the_first(site: Path) -> None:
    """The menu is on each page: a tutorial, how-to guides, concepts, a reference, a runbook."""
    text = (site / "index.html").read_text()
    for kind in ("Tutorial", "How to", "Concepts", "Reference", "Runbook"):
        assert re.search(rf"\b{kind}\b", text), kind
    for page in ("your-server", "reading", "schema-history", "commands", "settings-reference", "runbook"):
        assert f"{page}.html" in text, page


def test_a_browser_reads_it_from_a_disk(site: Path) -> None:
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(BROWSER_MILLISECONDS)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.get_by_role("link", name="Your own server in ten minutes").first.click()
        page.wait_for_url("**/your-server.html")
        page.set_viewport_size({"width": 390, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert [url for url in asked if not url.startswith("file:") and not url.startswith("data:")] == []
