"""The pages in a real browser: both widths, both themes, keyboard alone, no error, and no other host."""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import expect

from tests.serve.conftest import PAGE_SECONDS, app_of, served, settings_of
from tests.serve.test_pages import HOSTILE, START, make_history

pytestmark = pytest.mark.browser

expect.set_options(timeout=PAGE_SECONDS * 1000)

PAGES = (
    ".",
    "tables?source=s",
    "table?source=s&database=d&table=clients",
    "search?source=s&text=mail",
    "verdicts?source=s",
    f"verdict?source=s&start={START}",
)


@pytest.fixture(scope="module")
def address(store):
    make_history(store)
    with served(app_of(lambda: settings_of(store))) as address:
        yield address


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_without_an_error_or_another_host(open_page, address, width, theme):
    page = open_page(width, theme)
    for path in PAGES:
        page.goto(f"{address}/{path}")
        keep(page, f"{path.partition('?')[0].strip('.') or 'first'}-{width}-{theme}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        back, front = page.evaluate("(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))")
        assert (brightness(back) > brightness(front)) == (theme == "light")
    assert page.troubles == []


def keep(page, name):
    """For who wants to look at them: in the folder that the environment names."""
    folder = os.environ.get("STRATA_SCREENSHOTS")
    if folder:
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def brightness(colour):
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


def test_the_theme_that_airflow_keeps_is_taken_before_the_systems(open_page, address):
    page = open_page(theme="light")
    page.evaluate("localStorage.setItem('theme', 'dark')")
    page.goto(address)
    assert brightness(page.evaluate("getComputedStyle(document.body).backgroundColor")) < 200


def test_the_keyboard_is_enough(open_page, address):
    page = open_page()
    page.goto(f"{address}/tables?source=s")
    page.keyboard.press("/")
    page.keyboard.type("rename column")
    page.keyboard.press("Enter")
    expect(page.get_by_text("RENAME COLUMN email TO mail")).to_be_visible()
    page.goto(f"{address}/tables?source=s")
    tab_to(page, "d.clients")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="d.clients")).to_be_visible()
    # The bands of the timeline are links, too: the first leads to what the table was then.
    tab_to(page, "2023-11-14 22:13:22")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="As it was")).to_be_visible()
    assert page.troubles == []


def tab_to(page, beginning):
    """Presses the tab key until something that begins so has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate("document.activeElement.textContent.trim()")
        if focused.startswith(beginning):
            return
    raise AssertionError(beginning)


def test_two_versions_are_compared_and_the_moment_stands_in_the_address(open_page, address):
    page = open_page()
    page.goto(f"{address}/{PAGES[2]}")
    page.locator("input[name=before]").last.check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="What differs")).to_be_visible()
    expect(page.locator("tr.added")).to_contain_text("email")
    page.get_by_label("At", exact=True).fill("2023-11-14 22:13:24.5")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", name="As it was")).to_be_visible()
    assert "at=2023-11-14" in page.url


def test_hostile_names_are_text(open_page, address):
    page = open_page()
    page.goto(f"{address}/tables?source=s")
    page.get_by_text(f"d.{HOSTILE}").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"d.{HOSTILE}")
    assert page.troubles == []
