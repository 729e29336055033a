"""Shown output against printed output: the judge of the pages is judged."""

from __future__ import annotations

import pytest

from tests.docs.pages import as_shown

PRINTED = "name   rows\nshop.orders      12\nshop.items        3\n"


@pytest.mark.parametrize(
    "shown",
    [
        "name   rows\nshop.orders      12\nshop.items        3",
        "name  rows\nshop.orders  12\nshop.items  3",
        "name  rows\n…",
        "…\nshop.items  3",
        "…\nshop.orders  …\n…",
        "name  rows\n…\nshop.orders  12\nshop.items  3",
    ],
)
def test_what_is_there(shown: str) -> None:
    assert as_shown(shown, PRINTED)


@pytest.mark.parametrize(
    "shown",
    ["name  rows", "…\nshop.orders  13\n…", "shop.orders  …\n…", "name rows\n…", "name  rows\nshop.items  3\n…", ""],
)
def test_what_is_not(shown: str) -> None:
    assert not as_shown(shown, PRINTED)
