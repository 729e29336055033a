"""Positions as people write them: of either family of servers, FILE:OFFSET, times."""

from __future__ import annotations

import pytest

from strata_cdc.errors import Usage
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.answers.positions import log_position_of, position_of
from strata_cdc.schema.history.stream_positions import AtBinlog, AtGtidSet, AtTime
from strata_cdc.time_text import parse_time

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


class Tracked:
    """A history that goes on for a long time."""

    committed_at, seq = parse_time("2100-01-01"), 9

    @property
    def tracked(self):
        """Itself: where it ends."""
        return self


@pytest.mark.parametrize(
    "text", [f"{UUID}:1-77", f"{UUID}:tag:1-3", "0-1-3", "0-1-100,5-2-9", " 0-1-3 ", "2026-11-20,0-1-3"]
)
def test_gtids_of_both_families_are_positions(text):
    assert position_of(Tracked(), text) == log_position_of(text) == AtGtidSet(parse_executed(text))


@pytest.mark.parametrize("text", ["2026-11-20", " 2026-11-20 ", "2026-11-20 10:00", "2026-11-20T10:00:00-05:00"])
def test_a_date_is_a_time_where_there_may_be_times(text):
    assert position_of(Tracked(), text) == AtTime(parse_time(text))


def test_a_date_may_be_a_position_where_there_are_no_times():
    assert log_position_of("2026-11-20") == AtGtidSet(parse_executed("2026-11-20"))


def test_a_file_with_an_offset_is_a_position():
    at = AtBinlog(BinlogPosition.parse("binlog.000042:1934"))
    assert position_of(Tracked(), "binlog.000042:1934") == log_position_of("binlog.000042:1934") == at


@pytest.mark.parametrize("text", ["", "0-1", "binlog.000042", "now"])
def test_other_texts_are_no_positions_of_a_log(text):
    with pytest.raises(Usage, match="is not a position"):
        log_position_of(text)
