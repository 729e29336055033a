"""The id that a lake and a store have in common, on a disk and on an object store."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from strata_cdc.errors import OtherLakeError
from strata_cdc.files.storage import delete_file
from strata_cdc.lake.known_lake import known_if_stored, known_store, read_mark
from strata_cdc.store.lakes import LakeLedger


@dataclass
class Used:
    """What is asked of a source."""

    lake: str
    store_url: str
    name: str = "s"
    is_sink: bool = False


def test_each_knows_the_other(lake, tmp_path):
    used = Used(lake, f"sqlite:///{tmp_path}/s.db")
    known_if_stored(used)
    assert read_mark(used) is None, "without a store there is nothing to know"
    engine = known_store(used)
    mark = read_mark(used)
    assert mark == LakeLedger(engine).get("s").lake
    known_if_stored(used)
    known_store(used)
    assert read_mark(used) == mark
    with pytest.raises(OtherLakeError, match="has nothing of this source"):
        known_store(Used(f"{lake}-other", used.store_url))
    # Another source of the same store may have its rows elsewhere.
    known_store(Used(f"{lake}-other", used.store_url, "t"))
    known_store(Used(lake, used.store_url, "t2"))
    LakeLedger(engine).replace("s", "somebody", (), (), now=1)
    LakeLedger(engine).note_written("s", "somebody")
    with pytest.raises(OtherLakeError, match="belongs to another store"):
        known_store(used)


def test_killed_between_both(lake, tmp_path):
    used = Used(lake, f"sqlite:///{tmp_path}/s.db")
    engine = known_store(used)
    mark = read_mark(used)
    # The row stands, and the file was not written.
    delete_file(f"{lake}/landing/s/lake.json")
    LakeLedger(engine).replace("s", mark, (), (), now=1)
    known_store(used)
    assert read_mark(used) == mark
    delete_file(f"{lake}/landing/s/lake.json")
    with pytest.raises(OtherLakeError):
        known_store(used)
