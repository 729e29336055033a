"""Numbers of any length in what people write: an error of ours, whoever reads it (Python reads 4,300 digits)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.errors import SettingsError, StrataError
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.token_text import from_text
from strata_cdc.streams.positions import parse_bound
from strata_cdc.time_text import parse_time

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
READERS = [
    GtidSet.parse,
    BinlogPosition.parse,
    from_text,
    parse_time,
    lambda text: parse_bound(text, "s"),
    ServerAddress.from_url,
]
LONG = "9" * 5000
PARTS = st.sampled_from(
    [UUID, ":", "-", ".", ",", "v1.", "v2.AAAA", "binlog.", "1", "2026-11-21", " ", LONG, "0" * 5000]
)


@pytest.mark.parametrize("read", READERS)
@given(text=st.lists(PARTS, max_size=6).map("".join))
@example(text=f"{UUID}:{LONG}")
@example(text=f"{UUID}:1-{LONG}")
@example(text=f"{UUID}:1:" + ":".join(["5"] * 600) + f":{LONG}")
@example(text=f"binlog.000001:{LONG}")
@example(text=f"binlog.{LONG}:4")
@example(text=f"v2.AAAA.{LONG}")
@example(text=f"mysql://h:{LONG}/")
@example(text=f"{LONG}-11-21")
@example(text=f"{UUID}:{LONG}x")
@example(text="x" * 5000)
@example(text=f"0-1-{LONG}")
def test_they_are_short_errors_of_ours(read, text: str) -> None:
    said = ""
    try:
        read(text)
    except (StrataError, SettingsError) as error:
        said = str(error)
    assert len(said) < 600  # what is wrong must not be lost in what was written
