"""What a group of the settings adds to `ingest_binlog`; without one nothing is added (test_dags.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

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
    bag = DagBag(dag_folder=str(DAGS / "ingest_binlog.py"))
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
    assert last == {"publish_group", "ingest.report_left", "ingest.read_again"}


def test_settings_that_are_wrong_do_not_take_the_dag_away(tmp_path, monkeypatch):
    dag = loaded(tmp_path, monkeypatch, SETTINGS)
    assert not dag.has_task("publish_group")
