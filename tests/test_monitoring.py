"""The dashboard and the alert rules name what is sent, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from msgspec.structs import fields

from strata_cdc.ops.metrics import SourceMetrics

ROOT = Path(__file__).resolve().parent.parent
SENT = {field.name for field in fields(SourceMetrics)}
NAMED = re.compile(r"\bairflow_strata_(\w+)")


def test_the_dashboard_shows_every_number():
    text = (ROOT / "monitoring" / "grafana.json").read_text()
    dashboard = json.loads(text)
    shown = {name for panel in dashboard["panels"] for one in panel["targets"] for name in NAMED.findall(one["expr"])}
    assert shown == SENT
    assert set(NAMED.findall(text)) <= SENT
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_each_alert_names_a_number_and_says_what_to_do():
    [group] = yaml.safe_load((ROOT / "monitoring" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]:
        named = NAMED.findall(rule["expr"])
        assert named, rule["alert"]
        assert set(named) <= SENT, rule["alert"]
        assert rule["annotations"]["action"], rule["alert"]


def test_the_page_of_the_metrics_explains_every_number():
    table = (ROOT / "docs" / "metrics.md").read_text().partition("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", table)) >= SENT
