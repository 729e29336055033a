"""What a group of the settings adds to `ingest_binlog`; without one nothing is added (test_dags.py)."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowSkipException

from strata_cdc.airflow.groups import source_at_cut

DAGS = Path(__file__).resolve().parents[2] / "dags"
SETTINGS = """
lake = "lake"
[sources.a]
connection = "a"
[sources.b]
connection = "b"
[groups.orders]
sources = ["a", "b"]
[groups.alone]
sources = []
"""
# Airflow 3.3 reads .airflowignore with a class that pathspec has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")


def loaded(tmp_path, monkeypatch, text):
    path = tmp_path / "settings.toml"
    path.write_text(text)
    monkeypatch.setenv("STRATA_SETTINGS", str(path))
    bag = DagBag(dag_folder=str(DAGS / "strata.py"))
    assert bag.import_errors == {}
    return bag.dags["ingest_binlog"]


def test_each_group_is_a_line_behind_the_mirrors_of_its_sources(tmp_path, monkeypatch):
    dag = loaded(tmp_path, monkeypatch, SETTINGS.partition("[groups.alone]")[0])
    line = dag.get_task("publish_group")
    assert line.is_mapped
    assert line.op_kwargs_expand_input.value == {"group": ["orders"]}
    # What a source failed with must not hide behind it: Airflow judges a run by what nothing follows.
    assert line.upstream_task_ids == {"ingest.mirror"}
    assert line.trigger_rule == "all_done"
    last = {task.task_id for task in dag.tasks if not task.downstream_task_ids}
    assert last == {"source_at_cut", "ingest.report_left", "ingest.read_again"}


def test_the_sources_of_a_group_are_below_its_line(tmp_path, monkeypatch):
    dag = loaded(tmp_path, monkeypatch, SETTINGS.partition("[groups.alone]")[0])
    below = dag.get_task("source_at_cut")
    assert below.is_mapped
    assert below.op_kwargs_expand_input.value == [{"group": "orders", "source": one} for one in ("a", "b")]
    assert below.upstream_task_ids == {"publish_group"}
    # A group that failed fails the run by them.
    assert below.trigger_rule == "none_failed"


def at_cut(source, **found):
    one = {"source": source, "seq": 1234, "until": "2026-01-01T00:00:00", "lacking": [], "is_behind": False}
    return {"group": "orders", "time": "2026-01-01T00:00:05", "held_by": "b", "sources": [one | found]}


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (at_cut("a"), ["a: transaction 1,234, until 2026-01-01T00:00:00; the cut is at 2026-01-01T00:00:05"]),
        (at_cut("b"), ["the group waits for this source"]),
        (at_cut("a", is_behind=True), ["more of it was committed before the cut"]),
        (at_cut("a", lacking=["shop.x", "shop.y"]), ["not complete: shop.x, shop.y"]),
        (at_cut("a", until=None), ["a: transaction 1,234, until nothing"]),
    ],
)
def test_a_source_reports_its_position_at_the_cut(caplog, cut, said):
    caplog.set_level(logging.INFO, "strata")
    [one] = cut["sources"]
    source_at_cut.function("orders", one["source"], [{"group": "others", "sources": []}, cut])
    assert all(line in caplog.text for line in said)


def test_a_source_of_a_group_without_a_cut_is_skipped():
    with pytest.raises(AirflowSkipException, match="orders has no cut"):
        source_at_cut.function("orders", "a", [])


def test_settings_that_are_wrong_do_not_take_the_dag_away(tmp_path, monkeypatch):
    dag = loaded(tmp_path, monkeypatch, SETTINGS)
    assert not dag.has_task("publish_group")
    assert not dag.has_task("source_at_cut")
