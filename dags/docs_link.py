"""The link on the task `check` to the Data Docs of its run.
Not here: the pages (`plugins/data_docs.py`), what they say (`strata.checks`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.operatorlink import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PAGES = "/strata-docs"
"""Where the api-server has them."""


class DataDocsLink(BaseOperatorLink):
    """Made when the task ends; the pages of a run without failures are made by its last step."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The first page; empty for a task that was not given a run."""
        del ti_key  # a run of ours has one check
        given: list[Any] = getattr(operator, "application_args", None) or []
        if "--run-url" not in given[:-1]:
            return ""
        _, source, run = str(given[given.index("--run-url") + 1]).rstrip("/").rsplit("/", 2)
        return f"{conf.get('api', 'base_url', fallback='').rstrip('/')}{PAGES}/{source}/{run}/index.html"
