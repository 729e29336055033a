"""A whole Airflow at work, as `make up` starts it: its components, its API, the runs in it.
Not here: what is tested (`test_live.py`, `test_recovery.py`), one DAG in one process (`pipeline.py`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from scripts import services
from scripts.airflow_api import AirflowApi
from scripts.services import ADMIN, WATCHER
from scripts.state import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.airflow.pipeline import Pipeline

PASSWORDS, API_PASSWORD = "passwords.json", "battery-staple-correct-horse"
"""Where Airflow's own login keeps passwords; that of every account here."""
SECONDS = 240
ENDED = ("success", "failed")


def kill(process: subprocess.Popen[bytes]) -> None:
    """At once, with all that it started; that it is gone already is no error."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass
class Live:
    """An Airflow whose components run."""

    pipeline: Pipeline
    api: AirflowApi
    components: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    given: dict[str, dict[str, str]] = field(default_factory=dict)
    """Variables that one component has for itself."""

    def start(self, name: str) -> None:
        """A component, as `make up` starts it."""
        program = services.airflow(name, self.pipeline.state)
        with self._log_of(name).open("ab") as log:
            self.components[name] = subprocess.Popen(
                program.command,
                env=self.pipeline.environment | self.given.get(name, {}),
                cwd=REPOSITORY,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Every component, with all that it started."""
        self.api.close()
        for process in self.components.values():
            kill(process)

    def _log_of(self, name: str) -> Path:
        return self.pipeline.folder / f"{name}.log"

    @property
    def address(self) -> str:
        """Of its pages."""
        return self.api.url

    def trigger(self, dag: str, **conf: Any) -> str:
        """Starts a run by REST; returns its id."""
        return self.api.trigger(dag, conf)

    def refusal(self, dag: str, **conf: Any) -> str:
        """What REST says to a run that it must not start."""
        with pytest.raises(httpx.HTTPStatusError) as caught:
            self.api.trigger(dag, conf)
        assert caught.value.response.status_code in {400, 422}
        return caught.value.response.text

    def runs(self, dag: str, kind: str | None = None) -> list[dict[str, Any]]:
        """Its runs, the oldest first."""
        found = self.api.get(f"/dags/{dag}/dagRuns?order_by=run_after&limit=100")["dag_runs"]
        return [run for run in found if kind in {None, run["run_type"]}]

    def wait_for(self, what: Callable[[], Any], seconds: float = SECONDS) -> Any:
        """Until something is there; returns it. A server that is busy or just gone has not answered yet."""
        deadline = time.monotonic() + seconds
        while True:
            with suppress(httpx.HTTPError):
                if found := what():
                    return found
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.3)

    def wait_for_run(self, dag: str, run: str) -> str:
        """Until a run has ended; returns its state."""

        def state() -> str | None:
            found = self.api.get(f"/dags/{dag}/dagRuns/{run}")["state"]
            return found if found in ENDED else None

        return str(self.wait_for(state))

    def tasks(self, dag: str, run: str) -> dict[str, str]:
        """State of each task of a run; of mapped ones that of the first."""
        found = self.api.get(f"/dags/{dag}/dagRuns/{run}/taskInstances?limit=100")["task_instances"]
        return {one["task_id"]: one["state"] for one in reversed(found)}

    def log(self, dag: str, task: str, run: str | None = None) -> str:
        """All logs of a task, of one run or of all."""
        folder = self.pipeline.state.airflow_home / "logs" / f"dag_id={dag}"
        found = sorted(folder.glob(f"run_id={run or '*'}/task_id={task}/**/*.log"))
        return "\n".join(path.read_text() for path in found)

    def everything_logged(self) -> str:
        """By tasks, callbacks and components."""
        logs = [*(self.pipeline.state.airflow_home / "logs").rglob("*.log"), *map(self._log_of, self.components)]
        return "\n".join(path.read_text(errors="replace") for path in logs)

    def said(self) -> str:
        """The ends of the components' logs."""
        ends = {name: self._log_of(name).read_text()[-3000:] for name in self.components}
        return "\n".join(f"=== {name}\n{text}" for name, text in ends.items())


@contextmanager
def running(pipeline: Pipeline, name: str) -> Iterator[None]:
    """One of Airflow's components alone."""
    found = Live(pipeline, AirflowApi(pipeline.environment["AIRFLOW__API__BASE_URL"], WATCHER, API_PASSWORD))
    try:
        found.start(name)
        yield
    finally:
        found.stop()


@contextmanager
def live(pipeline: Pipeline, *dags: str, **given: dict[str, str]) -> Iterator[Live]:
    """All components, up and with these DAGs parsed.

    Args:
        pipeline: What they work on.
        dags: Ids.
        given: Variables that one component has for itself, by its name with `_`.
    """
    home = pipeline.state.airflow_home
    (home / PASSWORDS).write_text(json.dumps({WATCHER: API_PASSWORD, ADMIN: API_PASSWORD}))
    api = AirflowApi(pipeline.environment["AIRFLOW__API__BASE_URL"], ADMIN, API_PASSWORD)
    found = Live(pipeline, api, given={name.replace("_", "-"): own for name, own in given.items()})
    try:
        for name in services.AIRFLOW:
            found.start(name)
        found.wait_for(api.health)
        # What tasks talk to is made when it is asked for the first time.
        api.warm()
        found.wait_for(lambda: all(map(api.has_dag, dags)))
        yield found
    finally:
        found.stop()
