"""The pictures of the documentation, of a real Airflow, as Chromium shows it; and what is to be read on them, in short.
Not here: whose data they show (`test_demo.py`)."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Final

from scripts import services
from tests.browser import open_browser

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Frame, Page

_SIZE: Final = {"width": 1280, "height": 800}
_TABLE: Final = "shop.orders"
_SHOWN_MILLISECONDS: Final = 120_000
_AS_WEBP: Final = """async (url) => {
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", 0.8);
}"""
"""A third of what the same is as PNG; Chromium makes it, so that nothing else is needed."""
_WORDS: Final = """() => [...document.querySelectorAll("h1, h2, h3, th, dt, label, button, summary")]
  .map(found => [...found.childNodes].filter(one => one.nodeType === 3).map(one => one.textContent).join(" ").trim())"""
"""What the page itself says, wherever it is shown: no name, number or time."""


def take_pictures(address: str, password: str, folder: Path) -> dict[str, list[str]]:
    """Signs in as a person would, and keeps what is shown as `NAME.webp`; returns what is to be read on each."""
    outlines: dict[str, list[str]] = {}
    with open_browser() as browser:
        for theme in ("light", "dark"):
            page = _signed_in(browser, address, theme, password)
            page.goto(f"{address}/plugin/schema-history")
            frame = page.frame_locator("iframe")
            frame.get_by_text("numbers read").first.wait_for()
            if theme == "light":
                outlines["overview"] = _keep(page, folder / "overview.webp")
            frame.locator("a[href^='tables?source=shop']").first.click()
            frame.get_by_role("link", name=_TABLE, exact=True).click()
            frame.get_by_role("heading", name=_TABLE).wait_for()
            name = "schema-history" if theme == "light" else f"schema-history-{theme}"
            outlines[name] = _keep(page, folder / f"{name}.webp")
        browser.close()
    return outlines


def _signed_in(browser: Browser, address: str, theme: str, password: str) -> Page:
    context = browser.new_context(viewport=_SIZE, color_scheme="dark" if theme == "dark" else "light")
    context.set_default_timeout(_SHOWN_MILLISECONDS)
    context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
    page = context.new_page()
    page.goto(address)
    page.fill("input[name=username]", services.ADMIN)
    page.fill("input[name=password]", password)
    page.press("input[name=password]", "Enter")
    page.get_by_text("Schema history").first.wait_for()
    return page


def _keep(page: Page, path: Path) -> list[str]:
    shot = b64encode(page.screenshot()).decode()
    blank = page.context.new_page()
    found: str = blank.evaluate(_AS_WEBP, f"data:image/png;base64,{shot}")
    blank.close()
    path.write_bytes(b64decode(found.partition(",")[2]))
    return _outline(page.frames[-1])


def _outline(frame: Frame) -> list[str]:
    words = (re.sub(r"\s+", " ", one) for one in frame.evaluate(_WORDS))
    return sorted({one for one in words if one and not re.search(r"\d", one)})
