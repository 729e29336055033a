"""A table that a step cannot work on, whatever the exception: the others' rows go on, and its state names it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.pipeline.decode.decode_slice import decode_table_by_table, planned_tasks, store_outcomes
from strata_cdc.pipeline.plan import pasts
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.pipeline.publish import publication as publishing
from strata_cdc.quality.check_step import check_interval as checking
from strata_cdc.quality.check_step import run_pass
from strata_cdc.quality.check_step.check_interval import check_interval
from strata_cdc.quality.checks.names import METADATA
from strata_cdc.schema.history.historian import History
from strata_cdc.selection import sensitive
from strata_cdc.store.table_intervals import IntervalState
from strata_cdc.tables.write import ChangeWriter
from tests.interposed import interposed
from tests.pipeline.owed_world import MINUTE, World
from tests.quality.checked_run import write_run_of
from tests.tables.changes import SOURCE, definition, inserts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from strata_cdc.runs.specs import PlanReport

BAD = "b"
BREAKABLE: dict[str, tuple[Any, str]] = {
    "plan, of a schema": (History, "at"),
    "plan, of how long that lasts": (History, "lasts"),
    "plan, of sensitive columns": (sensitive, "columns_by_name"),
    "plan, of what lies before": (pasts, "lineage"),
    "decode": (ChangeWriter, "write"),
    "check, in the pass over a file": (run_pass, "pass_over"),
    "check, of a table": (checking.PassEngine, "judge"),
    "publish": (publishing, "publish"),
}
"""What is called for one table after the other, by the step that does."""


class TableWorld(World):
    """With a real decode and check."""

    def decode(self, report: PlanReport) -> None:
        store_outcomes(report.run_url, [decode_table_by_table(task) for task in planned_tasks(report.run_url)])

    def check(self, report: PlanReport) -> None:
        check_interval(self.source.lake, self.name, report.run, pytest.fail)


@pytest.mark.parametrize("step", BREAKABLE)
@pytest.mark.parametrize("kind", [KeyError, ValueError, pa.ArrowInvalid, RecursionError])
def test_an_exception_of_one_table_costs_that_table(step: str, kind: type[Exception], tmp_path: Path) -> None:
    world = TableWorld(tmp_path, sensitive=("d.*.id",))
    for table in "abc":
        world.change(table, [1, 2])
    world.now += 10 * MINUTE
    with interposed(partial(_failing, kind), BREAKABLE[step]):
        world.run(RunRequest())
    assert {table: sum(world.published(table).values()) for table in "abc"} == {"a": 2, BAD: 0, "c": 2}
    [entry] = world.open_entries()
    assert (entry.table, entry.state) == (
        BAD,
        IntervalState.BLOCKED if step.startswith("plan") else IntervalState.FAILED,
    )
    assert entry.reason is not None
    assert kind.__name__ in entry.reason.message
    assert "secret" not in entry.reason.message
    world.assert_nothing_is_lost()


@pytest.mark.parametrize("step", ["plan", "decode"])
def test_what_is_of_the_moment_is_nobodys_fault(step: str, tmp_path: Path) -> None:
    world = TableWorld(tmp_path)
    world.change(BAD, [1])
    world.now += 10 * MINUTE
    place = {"plan": (History, "at"), "decode": (ChangeWriter, "write")}[step]
    with interposed(partial(_failing, LakeUnavailableError), place), pytest.raises(LakeUnavailableError):
        for _ in world.steps(RunRequest()):
            pass


@pytest.mark.parametrize("spelled", [str, str.upper, lambda name: f"_{name}", lambda name: f"__{name.title()}"])
def test_columns_may_be_called_as_ours(spelled: Callable[[str], str], tmp_path: Path) -> None:
    names = [spelled(name) for name in METADATA]
    shape = definition({"id": "int NOT NULL", **dict.fromkeys(names, "int NOT NULL")}, key=("id", names[0]))
    fields = dict.fromkeys(("id", *names), pa.int32())
    rows = [dict.fromkeys(fields, number) for number in range(1, 4)]
    write_run_of(tmp_path, inserts(fields, rows), len(rows), shape)
    report = check_interval(str(tmp_path), SOURCE, "r1", pytest.fail)
    report.raise_if_failed()
    assert report.rows == len(rows)


def _failing(kind: type[Exception], call: Callable[..., Any], *given: Any, **more: Any) -> Any:
    if any(_is_of(BAD, one) for one in given):
        raise kind("secret")
    return call(*given, **more)


def _is_of(table: str, given: Any) -> bool:
    if isinstance(given, set):
        return any(_is_of(table, one) for one in given)
    name = getattr(given, "table", None)
    url = getattr(getattr(given, "file", None), "url", "")
    return table in (name, getattr(name, "table", None)) or f"/d/{table}/" in url
