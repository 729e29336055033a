"""What the pages get from the program in which they run: Airflow's runs and Data Docs, the numbers that need the lake.
`strata serve` alone has fewer of them, and what is missing is not shown.
Not here: the routes (`app.py`), finding any of it in Airflow (`airflow/plugins/schema_history.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.serve.numbers import Numbers
    from strata_cdc.serve.run_page import PlannedByAirflow


class AirflowTask(Struct, frozen=True):
    """The task that planned a run."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    """-1: it is not mapped."""

    @property
    def path(self) -> str:
        """Of the run's page, below Airflow's address."""
        return f"dags/{quote(self.dag_id, safe='')}/runs/{quote(self.run_id, safe='')}"

    @property
    def path_of_log(self) -> str:
        """Of the log of the task that published what this one planned."""
        task = self.task_id.removesuffix("plan") + "publish"
        mapped = f"/mapped/{self.map_index}" if self.map_index >= 0 else ""
        return f"{self.path}/tasks/{quote(task, safe='')}{mapped}"


class PageHost(Struct, frozen=True):
    """None: there is no such thing here."""

    numbers: Numbers | None = None
    find_runs: Callable[[str, str, int | None], Sequence[PlannedByAirflow] | None] | None = None
    """What a DAG's run has planned, by the ids of both, and the map index of one task; None if there is no such run."""
    find_task: Callable[[str], AirflowTask | None] | None = None
    """The task that planned a run, by the run's name."""
    data_docs: str | None = None
    """Where runs' Data Docs are, as the pages address them: the part of the address before source, run and page."""
    asks_for_rows: bool = False
    """Whether rows are shown only if the settings allow it (`rows_in_airflow`): who reads the pages might have no right
    to read tables."""
