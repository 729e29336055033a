"""Links on tasks: to the verdicts and Data Docs of a run, to what changed in it, to its source's tables, to Spark.
Not here: the pages (`plugins/data_docs.py`, `plugins/schema_history.py`), their content (`strata_cdc.quality`,
`strata_cdc.serve`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from airflow.sdk.bases.operatorlink import BaseOperatorLink

from strata_cdc.airflow.older import conf
from strata_cdc.runs.run_name import RunName

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PAGES = "/strata-docs"
"""Path of the Data Docs in the api-server."""
HISTORY = "/strata"
"""Path of the schema history in the api-server."""


def data_docs_address(source: str, run: str) -> str:
    """The first page of a run's Data Docs; if nothing failed, the pages are made when somebody opens it."""
    return f"{_server()}{PAGES}/{source}/{run}/index.html"


class DataDocsLink(BaseOperatorLink):
    """The link to the Data Docs, made when the task ends."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The first page; empty for a task without a run."""
        del ti_key  # a run of Strata has one check
        planned = _planned(operator)
        return data_docs_address(planned["source"], planned["run"]) if planned else ""


class VerdictLink(BaseOperatorLink):
    """The link to the results of the checks of the run's intervals."""

    name = "Verdict"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The list of intervals, those of the run first; empty for a task without a run."""
        del ti_key  # as above
        planned = _planned(operator)
        name = RunName.parse(planned["run"]) if planned else None
        if planned is None or name is None:
            return ""
        return f"{_server()}{HISTORY}/verdicts?{urlencode({'source': planned['source'], 'before': name.end})}"


class SparkLink(BaseOperatorLink):
    """The link to Spark's own pages, if they are turned on: they end with the job, and so does the link."""

    name = "Spark UI"
    key = "_link_SparkLink"
    """The key under which the task stores their address as soon as the job has printed it."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Empty: Airflow calls this when the task ends, and the pages no longer exist."""
        del operator, ti_key
        return ""


class ChangesLink(BaseOperatorLink):
    """The link to the versions and tables of this run."""

    name = "What changed"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of the DAG's run."""
        del operator
        return f"{_server()}{HISTORY}/run?{urlencode({'dag_id': ti_key.dag_id, 'run_id': ti_key.run_id})}"


class HistoryLink(BaseOperatorLink):
    """The link to the tables of the task's source, each with its versions and intervals."""

    name = "Schema history"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of the source; of all sources for a task that has none."""
        del ti_key
        given: Any = getattr(operator, "op_args", ())
        source = given[0] if given and isinstance(given[0], str) else None
        return f"{_server()}{HISTORY}/" + (f"tables?{urlencode({'source': source})}" if source else "")


def _planned(operator: BaseOperator) -> dict[str, Any] | None:
    """What `plan` returned, as the argument of a Spark step, or as an argument after the source of another step."""
    given = (getattr(operator, "planned", None), *getattr(operator, "op_args", ()))
    return next((argument for argument in given if isinstance(argument, dict) and "run" in argument), None)


def _server() -> str:
    return str(conf.get("api", "base_url", fallback="")).rstrip("/")
