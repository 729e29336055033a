"""The line of steps is one value: what the map, the DAG and `strata run` say of it is what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strata_cdc.pipeline.run_source import SourceRequest, _RunningCall
from strata_cdc.pipeline.steps import STEPS, DoneBy, LocalStep, Scope, StepOnSpark, edges, following, steps_of
from strata_cdc.startup.spark import JOBS

REPOSITORY = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


def names(who: DoneBy) -> list[str]:
    return [step.name for step in steps_of(who)]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_each_step_is_there(step):
    if isinstance(step, LocalStep):
        assert step.load().__module__.startswith("strata_cdc.pipeline.")
    else:
        assert isinstance(step, StepOnSpark)
        assert (JOBS / step.program).is_file()


def test_the_map_says_the_same_in_the_same_order():
    text = (REPOSITORY / "docs" / "map.md").read_text().partition("## A run, step by step")[2]
    rows = [
        [LINK.sub(r"\1", cell.strip()) for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line
    ]
    in_line = {step.name for step in STEPS}
    said = [(name, reads, leaves) for name, _, reads, leaves, *_ in rows if name in in_line]
    assert said == [(step.name, step.reads, step.leaves) for step in STEPS]


def test_strata_run_asks_for_each_step_that_a_command_does():
    whole = _RunningCall(SourceRequest("shop"), None, Watcher(), None)
    assert list(whole._calls) == names(DoneBy.COMMAND)


class Watcher:
    """Watches nothing."""

    def landed(self, progress) -> None:
        del progress


def test_only_the_steps_of_a_run_are_repeated():
    repeated = [step.name for step in steps_of(DoneBy.COMMAND) if step.scope is Scope.RUN]
    assert repeated == ["plan", "decode", "check", "publish"]


def test_each_task_follows_one_before_it():
    order = names(DoneBy.TASK)
    assert [after for _, after in edges()] == order[1:]
    assert all(order.index(before) < order.index(after) for before, after in edges())
    assert {step.name: following(step) for step in STEPS}["publish"] == "mirror, report_left"
