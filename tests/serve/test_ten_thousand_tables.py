"""The pages of a source with ten thousand tables, in a real browser: none of them holds all."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from strata_cdc.schema.tracker.track import Tracker
from tests.schema.streams import Stream
from tests.serve.conftest import app_of, served, settings_of

pytestmark = pytest.mark.browser

TABLES = 10_000
MOST_ELEMENTS = 5000
"""Of a page."""


@pytest.fixture(scope="module")
def address(store):
    tracker, stream = Tracker(store, "s"), Stream()
    tracker.begin_file(stream.start())
    tracker.track(stream.transaction("CREATE DATABASE d"))
    for table in range(TABLES):
        tracker.track(stream.transaction(f"CREATE TABLE t{table:05} (id INT PRIMARY KEY, mail VARCHAR(20))"))
    tracker.track(stream.transaction("ALTER TABLE t07777 RENAME COLUMN mail TO email"))
    tracker.end_file(stream.position)
    tracker.finish()
    with served(app_of(lambda: settings_of(store))) as address:
        yield address


@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_is_small_and_every_table_is_found(open_page, address, width):
    page = open_page(width)

    def look():
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS

    page.goto(f"{address}/")
    look()
    page.goto(f"{address}/tables?source=s")
    look()
    first = page.locator("table.list tbody tr").first.inner_text()
    page.get_by_role("link", name="More tables").click()
    expect(page.locator("table.list tbody tr").first).not_to_have_text(first)
    look()
    page.get_by_label("Name contains").fill("t0777")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("table.list tbody tr")).to_have_count(10)
    look()
    page.get_by_role("link", name="t07777").click()
    expect(page.locator("h1")).to_contain_text("t07777")
    look()
    page.goto(f"{address}/search?source=s&text=email")
    expect(page.get_by_text("RENAME COLUMN mail TO email").first).to_be_visible()
    look()
    page.goto(f"{address}/search?source=s&text=mail")
    look()
    assert page.troubles == []
