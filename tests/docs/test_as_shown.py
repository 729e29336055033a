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


@pytest.mark.parametrize(
    "progress",
    [
        "decode    4 of 8 slices",
        "land      4 of 4 transactions, 0.0 MB, committed until 2026-11-21 03:30:00 UTC",
        "land      1,200 of 3,000 transactions, 5.0 MB, committed until 2026-11-21 03:30:00 UTC, 7.2 s behind",
    ],
)
def test_lines_of_progress_may_come_in_between(progress: str) -> None:
    assert as_shown(
        "name  rows\nshop.orders  12\nshop.items  3", PRINTED.replace("shop.items", f"{progress}\nshop.items")
    )


@pytest.mark.parametrize("line", ["land  1 transaction, 0.0 MB in 1 segment", "publish  1 row of 1 table"])
def test_results_are_no_progress(line: str) -> None:
    assert not as_shown("name  rows\nshop.orders  12\nshop.items  3", f"{PRINTED}{line}\n")
