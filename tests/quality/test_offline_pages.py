"""Data Docs in a browser that knows no other host: nothing is asked for elsewhere, what failed is to be seen, and links
lead on, in a sandbox, too."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.quality.check_step.check_interval import check_interval
from strata_cdc.quality.check_step.data_docs import write_docs
from strata_cdc.quality.checks.data_docs import without_other_hosts
from tests.browser import open_browser
from tests.quality.checked_run import RUN, write_run
from tests.tables.changes import SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator

MILLISECONDS = 120_000


class _AsAirflowServes(SimpleHTTPRequestHandler):
    """With the sandbox of `airflow/plugins/data_docs.py`."""

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", "sandbox allow-scripts allow-popups")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of the Data Docs of a run of which a row failed."""
    lake = tmp_path_factory.mktemp("lake")
    folder = write_run(lake, [{"id": 1, "status": "new"}, {"id": 2, "status": "lost"}])
    check_interval(str(lake), SOURCE, RUN, pytest.fail, None)
    pages = str(Path(write_docs(folder)).parent)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_AsAirflowServes, directory=pages))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.browser
def test_a_browser_asks_nobody_else_and_shows_what_failed(address: str) -> None:
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(MILLISECONDS)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{address}/index.html")
        assert page.get_by_role("cell", name=RUN).first.is_visible()
        assert not page.get_by_text("__none__").count()
        page.get_by_role("link", name="Failed").first.click()
        page.get_by_text("1 unexpected values found. 50% of 2 total rows.").wait_for()
        page.get_by_text("Failed Only").click()
        page.get_by_text("values must never be null").first.wait_for(state="hidden")
        assert page.get_by_text("values must belong to this set").last.is_visible()
        assert page.get_by_text("Data asset: shop.orders").is_visible()
        page.get_by_text("Show All").click()
        page.get_by_text("values must never be null").first.wait_for()
        page.get_by_text("Show more info").click()
        page.get_by_text("Great Expectations Version").wait_for()
        assert page.evaluate("getComputedStyle(document.querySelector('.fa-times')).color") != "rgb(0, 0, 0)"
        assert [one for one in asked if not one.startswith((address, "data:"))] == []
        assert faults == []


def test_links_stay_and_what_is_loaded_goes() -> None:
    page = """<head><link rel=stylesheet href="https://a.example/x.css"><SCRIPT type="x"
      src='//b.example/x.js'></SCRIPT><link rel="icon" href="static/favicon.ico"><script>let a = "https://c"</script>
      </head><body><img class="x" src=http://d.example/logo.png><a href="https://e.example">e</a></body>"""
    found = without_other_hosts(page)
    assert not [host for host in ("a.example", "b.example", "d.example") if host in found]
    for kept in ('href="static/favicon.ico"', 'let a = "https://c"', '<a href="https://e.example">e</a>', "<style>"):
        assert kept in found
