"""Without a rule the model finds what goes wrong: drawn steps come to it, and the page shows the shortest history."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.anomalies import anomalies
from tests.model.faults import Fault
from tests.model.machine import AnomalyError, Machine
from tests.model.shortest import SCENARIOS, history_table, reachable, shortest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "which-schema-fits-which-data.md"
BOUND = settings(
    derandomize=True,
    database=None,
    max_examples=400,
    stateful_step_count=40,
    # The shortest history comes from the search through all states.
    phases=(Phase.generate,),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
FIRST = {scenario.fault: scenario for scenario in reversed(SCENARIOS)}


def test_each_rule_has_a_scenario():
    assert FIRST.keys() == set(Fault)


@pytest.mark.parametrize("fault", Fault)
def test_drawn_steps_find_what_a_missing_rule_leads_to(fault):
    scenario = FIRST[fault]
    attributes = {
        "elements": scenario.elements,
        "kinds": (scenario.kind,),
        "faults": frozenset([fault]),
        "finished": [],
    }
    with pytest.raises(AnomalyError):
        run_state_machine_as_test(type("Without", (Machine,), attributes), settings=BOUND)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.title)
def test_a_missing_rule_has_a_shortest_history(scenario):
    cluster, _ = shortest(scenario)
    assert any(anomaly.kind is scenario.wanted for anomaly in anomalies(cluster))
    # Shorter histories are among the states before, and none of these has the anomaly.
    for earlier in reachable(scenario):
        if earlier.history.events == cluster.history.events:
            break
        assert not any(anomaly.kind is scenario.wanted for anomaly in anomalies(earlier))


def test_the_page_shows_what_the_model_finds():
    page = PAGE.read_text()
    shown = [scenario for scenario in SCENARIOS if f"**{scenario.title}**" in page]
    assert len(shown) >= 5
    for scenario in shown:
        assert history_table(scenario) in page, history_table(scenario)
