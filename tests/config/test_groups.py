"""Groups in the settings: every mistake at once, each with its line."""

from __future__ import annotations

import pytest

from strata_cdc.config.settings import load_settings
from strata_cdc.errors import SettingsError, UnknownSourceError
from strata_cdc.groups.switchovers import Switchover, check_names

SHARDS = """
lake = "lake"
store = "sqlite:///store.db"
[sources.shard_a]
connection = "a"
[sources.shard_b]
connection = "b"
[sources.shard_c]
connection = "c"
"""
CONNECTIONS = {f"AIRFLOW_CONN_{name}": f"mysql://u:secret@{name.lower()}.example/" for name in "ABC"}


def load(tmp_path, text):
    path = tmp_path / "strata.toml"
    path.write_text(SHARDS + text)
    return load_settings({"STRATA_SETTINGS": str(path), **CONNECTIONS})


def test_a_group_has_its_sources_in_the_order_of_their_names(tmp_path):
    group = load(tmp_path, '[groups.orders]\nsources = ["shard_b", "shard_a"]\n').group("orders")
    assert [source.name for source in group.sources] == ["shard_a", "shard_b"]
    assert (group.max_skew, group.clock_bound, group.global_keys) == (2_000_000, 1_000_000, ())
    assert "secret" not in repr(group)


def test_what_a_group_may_say(tmp_path):
    group = load(
        tmp_path,
        '[groups.orders]\nsources = ["shard_b"]\nmax_skew = "500ms"\nclock_bound = "1m"\nglobal_keys = ["d.*"]\n'
        'journal = "hops.json"\n',
    ).group("orders")
    assert (group.max_skew, group.clock_bound, group.global_keys) == (500_000, 60_000_000, ("d.*",))
    assert group.journal == str(tmp_path / "hops.json")
    assert [source.name for source in group.former] == ["shard_a", "shard_c"]


MISTAKES = """
[groups.one]
sources = ["shard_a", "shard_d", "shard_a"]
max_skew = "two"
[groups.two]
sources = ["shard_a", "shard_b"]
max_skews = "2s"
clock_bound = "0s"
[groups.three]
sources = []
[groups.four]
global_keys = ["orders"]
[groups.shard_c]
sources = ["shard_c"]
[groups."f/ve"]
sources = "shard_c"
"""
SAID = [
    "line 12: groups.one.sources: there is no source 'shard_d': do you mean shard_",
    "line 12: groups.one.sources: shard_a is in it twice",
    'line 13: groups.one.max_skew is not a time, as in "500ms", "2s" or "5m"',
    "line 15: groups.two.sources: shard_a is in the group one already",
    "line 16: groups.two.max_skews is not a setting: do you mean max_skew?",
    "line 17: groups.two.clock_bound is 0",
    'line 19: groups.three.sources is not a list of one source or more, as in ["shard_a", "shard_b"]',
    "line 20: groups.four.sources is missing: a list of one source or more",
    'line 21: groups.four.global_keys: "orders" matches no table',
    "line 22: groups.shard_c: a source is called shard_c, too",
    "line 24: groups.f/ve: a name has letters",
    "line 25: groups.f/ve.sources is not a list",
]


def test_all_mistakes_are_told_at_once(tmp_path):
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, MISTAKES)
    reported = caught.value.message.split("\n  ")
    assert reported[0] == f"the settings have {len(SAID)} mistakes:"
    for found, begin in zip(reported[1:], SAID, strict=True):
        assert found.startswith(begin)


SINK = '[sources.tidb]\nkind = "ticdc"\nurl = "feed"\n'


def test_the_folder_of_a_sink_is_in_no_group(tmp_path):
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, f'{SINK}store = "sqlite:///t.db"\n[groups.orders]\nsources = ["shard_b", "tidb"]\n')
    assert "line 15: groups.orders.sources: tidb is the folder of a TiCDC sink, and has no server" in str(caught.value)


def test_no_switchover_leads_from_the_folder_of_a_sink(tmp_path):
    """A group with a journal may have been other servers; a sink beside them is none of its business."""
    text = f'{SINK}store = "sqlite:///t.db"\n[groups.orders]\nsources = ["shard_b"]\n'
    with_journal = load(tmp_path, f'{text}journal = "hops.json"\n').group("orders")
    assert [source.name for source in with_journal.former] == ["shard_a", "shard_c"]
    settings = load(tmp_path, text)
    assert [source.name for source in settings.group("orders", former=["tidb", "shard_a"]).former] == ["shard_a"]
    switchover = Switchover("h", {"tidb": None}, {"shard_b": None})
    with pytest.raises(SettingsError, match="names tidb, which the settings do not have as a server"):
        check_names([switchover], ["shard_b"], ["shard_a", "shard_b"], None)


def test_a_group_that_there_is_not(tmp_path):
    with pytest.raises(UnknownSourceError, match="no group 'x'; the settings have: orders"):
        load(tmp_path, '[groups.orders]\nsources = ["shard_b"]\n').group("x")
