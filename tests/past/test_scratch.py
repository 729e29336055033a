"""What a query of the past copies goes with it, also where it is refused before it begins."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from strata_cdc.past.table_at import PastTables
from strata_cdc.store.database import open_store

if TYPE_CHECKING:
    from pathlib import Path


def test_nothing_is_left_after_the_with_block(tmp_path: Path) -> None:
    with PastTables(str(tmp_path), "shop", open_store("sqlite://")) as tables:
        folder = tables._folder
        (folder / "copy").mkdir()
    assert not folder.exists()


def test_nothing_is_left_of_a_script_that_is_refused_while_it_is_made(tmp_path: Path) -> None:
    tables = PastTables(str(tmp_path), "shop", open_store("sqlite://"))
    folder = tables._folder
    (folder / "copy").mkdir()
    del tables
    gc.collect()
    assert not folder.exists()
