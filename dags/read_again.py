"""The task that has the DAG `dump_tables` read tables again whose rows no log tells.
Not here: which tables these are (`mirrors/follow/`), dumping them (`dags/dump_tables.py`)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

from dags.steps import task_settings
from dags.task_logs import say
from strata_cdc.clock import now_micros
from strata_cdc.pipeline.steps import READ_AGAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

DAG = "dump_tables"


class ReadAgain(TriggerDagRunOperator):
    """Triggers a run for the tables that wait, if there are any; skips itself where such a run waits already.

    Args:
        source: The source's name.
    """

    template_fields: Sequence[str] = (*TriggerDagRunOperator.template_fields, "source")

    def __init__(self, *, source: Any, **options: Any) -> None:
        super().__init__(
            trigger_dag_id=DAG,
            skip_when_already_exists=True,
            **READ_AGAIN.airflow,
            openlineage_inject_parent_info=False,
            map_index_template="{{ task.source }}",
            **options,
        )
        self.source = source

    def execute(self, context: Context) -> None:
        """Triggers the run, whose id says what it is for: one that was tried is another."""
        from strata_cdc.pipeline.read_again import tables_due

        waiting = tables_due(self.source, settings=task_settings(), now=now_micros())
        if not waiting:
            # Not skipped: Airflow is told of a success at once, and of a skip when the task's process is gone, which it
            # may notice up to five seconds later (3.3, `_monitor_subprocess` waits for nothing where all pipes are
            # closed and the process is not gone yet).
            say("no table waits to be read again")
            return
        for one in waiting:
            self.log.info("%s is to be read again: %s", one.name, one.reason)
        asked = "\n".join(f"{one.name} {one.noticed_at} {one.tries}" for one in waiting)
        self.trigger_run_id = f"read_again__{self.source}__{hashlib.sha256(asked.encode()).hexdigest()[:16]}"
        self.conf = {"source": self.source, "waiting": True}
        super().execute(context)
