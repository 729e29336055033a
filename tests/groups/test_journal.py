"""What docs/groups.md shows of settings and journals is read, in these forms for ever (formats 1 and 2)."""

from __future__ import annotations

import pytest

from scripts.state import REPOSITORY
from strata_cdc.config.settings import load_settings
from strata_cdc.groups.switchovers import Switchover, check_names, read_journal
from strata_cdc.time_text import parse_time

PAGE = (REPOSITORY / "docs" / "groups.md").read_text()
SOURCES = ["shard_a", "shard_b", "shard_c", "shard_a1", "shard_a2"]


def block(language: str, at: int = 0) -> str:
    return PAGE.split(f"```{language}\n")[at + 1].split("```")[0]


@pytest.mark.parametrize("format_", [1, 2])
def test_the_journal_that_the_page_shows(tmp_path, format_):
    path = tmp_path / "hops.json"
    path.write_text(block("json").replace('"format": 2', f'"format": {format_}'))
    [switchover] = read_journal(str(path))
    assert (switchover.name, sorted(switchover.old), sorted(switchover.new)) == (
        "split",
        ["shard_a"],
        ["shard_a1", "shard_a2"],
    )
    assert switchover.copied.count() == 7700
    check_names([switchover], ["shard_a1", "shard_a2", "shard_b", "shard_c"], SOURCES, str(path))


def test_the_hop_without_positions_that_the_page_shows(tmp_path):
    path = tmp_path / "hops.json"
    path.write_text(f'{{"format": 2, "hops": [{block("json", 1)}]}}')
    [switchover] = read_journal(str(path))
    assert switchover == Switchover(
        "split", {"shard_a": None}, {"shard_a1": None, "shard_a2": None}, parse_time("2026-11-23 04:00")
    )
    assert switchover.is_by_time
    assert switchover.copied.count() == 0


def test_the_settings_that_the_page_shows(tmp_path):
    path = tmp_path / "strata.toml"
    sources = "".join(f'[sources.{name}]\nconnection = "{name}"\n' for name in SOURCES)
    path.write_text(f'lake = "lake"\n{sources}{block("toml")}')
    [group] = load_settings({"STRATA_SETTINGS": str(path)}).groups.values()
    assert group.sources == ("shard_a", "shard_b", "shard_c")
    assert all(f"\n{name} = " in block("toml") for name in group.__struct_fields__)
