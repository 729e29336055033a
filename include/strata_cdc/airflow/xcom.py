"""What tasks hand to each other: typed values in the tasks, plain JSON in Airflow; only this file converts them.
Not here: the tasks (`steps.py`), the reports (each job has its own)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata_cdc.config.engines import Engine, EngineSettings
from strata_cdc.files.stored import take_stored
from strata_cdc.runs.specs import PlanReport
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from msgspec import Struct

Xcom = dict[str, Any]
"""JSON, as Airflow stores it."""
BRIEF_CHARACTERS = 120
BRIEF_ITEMS = 3
"""How much of a text and a list the XCom of a report has; the store and the run folder have everything."""
PLANNED_FORMAT = 1


class PlannedRun(PlanReport, frozen=True, kw_only=True):
    """What the steps after `plan` read. A run may begin with one version of Strata and end with the next."""

    checks: str = ""
    """Folder or URL of the users' own checks: the Spark job that runs them has no settings."""
    compare_keys: str = "100"
    """For how many keys images are compared with those of earlier intervals, likewise."""
    engine: str = Engine.SPARK
    """What decodes, as the form or the settings have it; older versions knew only Spark."""
    local_mb: int = EngineSettings().local_mb
    """As in the settings."""
    local_memory_mb: int = EngineSettings().local_memory_mb
    """As in the settings."""
    format: int = PLANNED_FORMAT

    @property
    def engine_settings(self) -> EngineSettings:
        """What its engine depends on, beside its size."""
        return EngineSettings(Engine(self.engine), self.local_mb, self.local_memory_mb)


def brief(report: Struct) -> Xcom:
    """A report that people read: long texts (GTID sets, statements) are cut; the end of a cut list says how many more
    items there are."""
    return {name: _shorten(value) for name, value in to_plain(report).items()}


def _shorten(value: Any) -> Any:
    if isinstance(value, str) and len(value) > BRIEF_CHARACTERS:
        return f"{value[:BRIEF_CHARACTERS]}..."
    if isinstance(value, dict):
        return {name: _shorten(item) for name, item in value.items()}
    if isinstance(value, list):
        shown = [_shorten(item) for item in value[:BRIEF_ITEMS]]
        return [*shown, f"and {len(value) - BRIEF_ITEMS} more"] if len(value) > BRIEF_ITEMS else shown
    return value


def read_planned(xcom: Xcom) -> PlannedRun:
    """What the task `plan` returned.

    Raises:
        DamagedFileError: It is no plan; the message has the path of the wrong value.
        StoreFormatError: A newer version of Strata planned the run.
    """
    remedy = "Clear the task `plan`, and those after it."
    return take_stored(xcom, PlannedRun, newest=PLANNED_FORMAT, file="XCom of plan", remedy=remedy)
