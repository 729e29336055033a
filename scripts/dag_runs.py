"""Starts a DAG run, shows its steps as they end, and shows why it failed if it did.
Not here: the REST calls (`airflow_api.py`), what the runs are for (`demo.py`)."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from scripts.processes import FleetError, deadline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import Console

    from scripts.airflow_api import AirflowApi

PARSE_SECONDS = 60
POLL_SECONDS = 0.5
"""Between two queries of a run: each is also work for the server that starts the run's tasks."""
LOG_LINES = 25
MARKS = {"success": "[green]✓[/green]", "skipped": "[dim]-[/dim]", "failed": "[red]✗[/red]"}
"""Marks of steps that ended by themselves; steps after a failed step are not shown."""


@contextmanager
def started(api: AirflowApi, dag: str, conf: dict[str, Any], console: Console, logs: Path) -> Iterator[StartedRun]:
    """Triggers a run by hand; the DAG is not paused within the block.

    Args:
        api: A signed-in client.
        dag: Id of the DAG.
        conf: The values of the form.
        console: Shows each step when it has ended.
        logs: Airflow's folder of task logs.

    Raises:
        FleetError: There is no such DAG.
    """
    if not any(api.has_dag(dag) for _ in deadline(PARSE_SECONDS)):
        raise FleetError(f"Airflow has not found the DAG {dag}; its page lists import errors: {api.url}")
    run = api.trigger(dag, conf)
    api.set_paused(dag, "no")
    try:
        yield StartedRun(api, dag, run, console, logs)
    finally:
        api.set_paused(dag, "yes")


@dataclass(slots=True)
class StartedRun:
    """A run, and waiting for it."""

    api: AirflowApi
    dag: str
    run: str
    console: Console
    logs: Path
    shown: set[tuple[str, int]] = field(default_factory=set)
    """Steps that have ended and have been shown, with their map index."""

    def follow(self, seconds: float, until: str | None = None) -> None:
        """Shows its steps as they end, until one of them has succeeded, or the run has.

        Args:
            seconds: When to give up.
            until: Name of a step; None for the end of the run.

        Raises:
            FleetError: The run failed or took too long; the message has the tail of the failed step's log.
        """
        with self.console.status(f"{self.dag}: waiting for the scheduler") as spinner:
            for _ in deadline(seconds, pause=POLL_SECONDS):
                state, steps = self._look()
                running = [_name(step) for step in steps if step["state"] == "running"]
                spinner.update(f"{self.dag}: {', '.join(running) or state}")
                if state == "success" or until in {_name(step) for step in steps if step["state"] == "success"}:
                    return
                if state == "failed":
                    raise FleetError(_reason(self.dag, self.run, steps, self.logs))
        where = f"{self.api.url}/dags/{self.dag}/runs/{self.run}"
        raise FleetError(f"{self.dag} had not ended after {seconds:.0f} s; see {where}")

    def _look(self) -> tuple[str, list[dict[str, Any]]]:
        state = str(self.api.get(f"/dags/{self.dag}/dagRuns/{self.run}")["state"])
        steps = self.api.get(f"/dags/{self.dag}/dagRuns/{self.run}/taskInstances?limit=200")["task_instances"]
        for line in _newly_over(steps, self.shown):
            self.console.print(line)
        return state, steps


def _newly_over(steps: list[dict[str, Any]], shown: set[tuple[str, int]]) -> Iterator[str]:
    for step in sorted(steps, key=lambda step: step["end_date"] or ""):
        key = (step["task_id"], step["map_index"])
        if step["state"] in MARKS and key not in shown:
            shown.add(key)
            yield f"  {MARKS[step['state']]} {_name(step):12} [dim]{_seconds(step)}[/dim]"


def _seconds(step: dict[str, Any]) -> str:
    if not step["start_date"] or not step["end_date"]:
        return ""
    took = datetime.fromisoformat(step["end_date"]) - datetime.fromisoformat(step["start_date"])
    return f"{took.total_seconds():.1f} s"


def _name(step: dict[str, Any]) -> str:
    return str(step["task_id"]).rpartition(".")[2]


def _reason(dag: str, run: str, steps: list[dict[str, Any]], logs: Path) -> str:
    failed = next((step for step in steps if step["state"] == "failed"), None)
    if failed is None:
        return f"{dag} failed before any of its steps"
    folder = logs / f"dag_id={dag}" / f"run_id={run}" / f"task_id={failed['task_id']}"
    if failed["map_index"] >= 0:
        folder /= f"map_index={failed['map_index']}"
    attempts = sorted(folder.glob("attempt=*.log"), key=lambda path: path.stat().st_mtime)
    tail = [f"  | {line}" for line in _log_lines(attempts[-1])[-LOG_LINES:]] if attempts else []
    where = attempts[-1] if attempts else folder
    return "\n".join([f"step {_name(failed)} of {dag} failed", *tail, f"  the whole log: {where}"])


def _log_lines(path: Path) -> list[str]:
    """The messages of a task's log, which Airflow keeps as JSON lines, with the errors that were raised."""
    lines = []
    for line in path.read_text(errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            lines.append(line)
            continue
        event = str(entry.get("event", ""))
        lines += [] if event.startswith("::") else [event]
        lines += [f"{raised['exc_type']}: {raised['exc_value']}" for raised in entry.get("error_detail", ())]
    return lines
