"""What is said of the watermark before there is one, and after the last change: a time never.
Not here: real servers (`test_both_families.py`)."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from strata_cdc.groups.merge import Merge
from strata_cdc.groups.rendering import GroupHeartbeat, heartbeat_line
from strata_cdc.groups.status import GroupStatus, MemberStatus
from strata_cdc.groups.watch import Watch

if TYPE_CHECKING:
    import pytest

NOW = 1_795_970_668
"""Seconds."""


def merge_of(**proved: int) -> Merge[str]:
    """A merge of sources of which nothing has arrived; some have proved a time by their position (microseconds)."""
    made = Merge[str](2_000_000)
    for name, until in proved.items():
        made.add(name)
        if until:
            made.prove(name, until)
    return made


def test_no_watermark_is_no_time(caplog: pytest.LogCaptureFixture):
    merge, watch = merge_of(a=NOW * 1_000_000, b=0), Watch("g", 2_000_000)
    assert (merge.watermark, merge.holder, merge.skew) == (0, "b", 0)
    with caplog.at_level(logging.WARNING):
        for later in range(12):
            watch.look(merge, NOW + later)
    [said] = caplog.messages
    assert said == "group g: no watermark yet since 2026-11-29T16:44:28.000000Z, held by b; skew 0.0 s"


def test_after_the_end_nothing_is_said(caplog: pytest.LogCaptureFixture):
    merge, watch = merge_of(a=0), Watch("g", 2_000_000)
    merge.finish("a")
    with caplog.at_level(logging.WARNING):
        for later in range(12):
            watch.look(merge, NOW + later)
    assert not caplog.messages


def test_a_heartbeat_without_a_watermark():
    line = json.loads(heartbeat_line(GroupHeartbeat("t", None, 0, "b", NOW * 1_000_000)))
    assert (line["watermark"], line["skew_seconds"]) == (None, 0.0)


def test_what_a_source_without_an_interval_waits_for():
    """Not for a transaction: for a run."""
    member = MemberStatus("m", 0, NOW * 1_000_000, 0, 0.0, 0.0, proves_idleness=False)
    assert GroupStatus("g", 0, None, 0.0, "m", (member,)).line() == "group g: no watermark yet: m has no interval"
    waits = GroupStatus("g", 1, 1.0, 0.0, "m", (member,), 1).line()
    assert "held by m (MariaDB proves nothing by being idle" in waits
