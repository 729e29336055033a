"""The task that starts the DAG `dump_tables` for tables that must be read again, because their rows are in no log.
Not here: which tables these are (`mirrors/follow/`), dumping them (`dump_tables.py`)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

from strata_cdc.airflow.retries import deciding
from strata_cdc.airflow.steps import task_settings
from strata_cdc.airflow.task_logs import say
from strata_cdc.clock import now_micros
from strata_cdc.pipeline.steps import READ_AGAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class ReadAgain(TriggerDagRunOperator):
    """Triggers a run for the tables that wait, if there are any; is skipped if such a run waits already.

    Args:
        dump_dag: The DAG that dumps tables.
    """

    template_fields: Sequence[str] = (*TriggerDagRunOperator.template_fields, "source")

    def __init__(self, *, source: Any, dump_dag: str, **options: Any) -> None:
        super().__init__(
            trigger_dag_id=dump_dag,
            skip_when_already_exists=True,
            **READ_AGAIN.airflow,
            openlineage_inject_parent_info=False,
            map_index_template="{{ task.source }}",
            **options,
        )
        self.source = source

    @deciding
    def execute(self, context: Context) -> None:
        """Triggers the run. Its id is made from the waiting tables and their numbers of tries: another try is another
        run."""
        from strata_cdc.pipeline.read_again import tables_due

        waiting = tables_due(self.source, settings=task_settings(), now=now_micros())
        if not waiting:
            # Not skipped: Airflow learns of a success at once, but of a skip only when the task's process has ended,
            # which it may notice up to five seconds later (3.3: `_monitor_subprocess` does not wait if all pipes are
            # closed and the process has not ended yet).
            say("no table waits to be read again")
            return
        for table in waiting:
            self.log.info("%s is to be read again: %s", table.name, table.reason)
        request = "\n".join(f"{table.name} {table.noticed_at} {table.tries}" for table in waiting)
        self.trigger_run_id = f"read_again__{self.source}__{hashlib.sha256(request.encode()).hexdigest()[:16]}"
        self.conf = {"source": self.source, "waiting": True}
        super().execute(context)
