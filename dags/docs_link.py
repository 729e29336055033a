"""Links on tasks: to the verdicts and Data Docs of a run, to what changed in it, to its source's tables, to Spark.
Not here: the pages (`plugins/data_docs.py`, `plugins/schema_history.py`), what they say (`strata.checks`,
`strata.serve`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from airflow.sdk.bases.operatorlink import BaseOperatorLink
from airflow.sdk.configuration import conf

from strata_cdc.runs.run_name import RunName

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PAGES = "/strata-docs"
"""Where the api-server has the Data Docs."""
HISTORY = "/strata"
"""Where it has the schema history."""


def data_docs_address(source: str, run: str) -> str:
    """The first page of a run's Data Docs; where nothing failed the pages are made when somebody opens it."""
    return f"{_server()}{PAGES}/{source}/{run}/index.html"


class DataDocsLink(BaseOperatorLink):
    """Made when the task ends."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The first page; empty for a task that was not given a run."""
        del ti_key  # a run of ours has one check
        planned = _planned(operator)
        return data_docs_address(planned["source"], planned["run"]) if planned else ""


class VerdictLink(BaseOperatorLink):
    """To what the checks found in the run's intervals."""

    name = "Verdict"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The list of intervals, those of the run first; empty for a task that was not given a run."""
        del ti_key  # as above
        planned = _planned(operator)
        name = RunName.parse(planned["run"]) if planned else None
        if planned is None or name is None:
            return ""
        return f"{_server()}{HISTORY}/verdicts?{urlencode({'source': planned['source'], 'before': name.end})}"


class SparkLink(BaseOperatorLink):
    """To Spark's own pages, where they are turned on: they end with the job, and so does the link."""

    name = "Spark UI"
    key = "_link_SparkLink"
    """Under which the task leaves their address as soon as the job has said it."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """None any more: this is asked when the task ends."""
        del operator, ti_key
        return ""


class ChangesLink(BaseOperatorLink):
    """To the versions and tables of this run."""

    name = "What changed"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of the DAG's run."""
        del operator
        return f"{_server()}{HISTORY}/run?{urlencode({'dag_id': ti_key.dag_id, 'run_id': ti_key.run_id})}"


class HistoryLink(BaseOperatorLink):
    """To the tables of the task's source, each with its versions and intervals."""

    name = "Schema history"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of the source; of all sources for a task that has none."""
        del ti_key
        given: Any = getattr(operator, "op_args", ())
        source = given[0] if given and isinstance(given[0], str) else None
        return f"{_server()}{HISTORY}/" + (f"tables?{urlencode({'source': source})}" if source else "")


def _planned(operator: BaseOperator) -> dict[str, Any] | None:
    """What `plan` handed to a step that Spark does, or to one of ours behind its source."""
    given = (getattr(operator, "planned", None), *getattr(operator, "op_args", ()))
    return next((one for one in given if isinstance(one, dict) and "run" in one), None)


def _server() -> str:
    return str(conf.get("api", "base_url", fallback="")).rstrip("/")
