"""One switch for everything that only makes programs start sooner: `STRATA_PLAIN_START=1` turns all parts off, names
of parts (`kernels,archive`) turn these parts off.
Not here: the parts (beside this file); what each brings is in `docs/decisions/0020-quick-starts.md`."""

from __future__ import annotations

import os
from enum import StrEnum

VARIABLE = "STRATA_PLAIN_START"


class QuickStart(StrEnum):
    """What can be turned off."""

    KERNELS = "kernels"
    """The library of linked kernels; without it, Numba compiles them, or loads what it has compiled before."""
    ARCHIVE = "archive"
    """The archive of Spark's classes."""
    JVM = "jvm"
    """The options for a JVM that runs for a short time."""
    WORKERS = "workers"
    """Spark's Python workers import PySpark from where it is installed."""
    GARBAGE = "garbage"
    """Less frequent garbage collection in commands."""
    PANDAS = "pandas"
    """Arrow does not load pandas in `strata run`."""
    TASKS = "tasks"
    """The imports of Airflow's tasks, loaded once by the scheduler that forks the tasks."""


def is_on(part: QuickStart) -> bool:
    """Whether a part is used."""
    off = os.environ.get(VARIABLE, "").split(",")
    return "1" not in off and part not in off
