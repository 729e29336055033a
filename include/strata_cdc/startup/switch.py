"""The one switch for what only makes things start sooner: `STRATA_PLAIN_START=1` turns all of it off, names of parts
(`kernels,archive`) turn those off.
Not here: the parts (beside this file); what each brings is in `docs/decisions/0020-quick-starts.md`."""

from __future__ import annotations

import os
from enum import StrEnum

VARIABLE = "STRATA_PLAIN_START"


class QuickStart(StrEnum):
    """What can be turned off."""

    KERNELS = "kernels"
    """The library of linked kernels; Numba compiles them, or loads what it has compiled before."""
    ARCHIVE = "archive"
    """The archive of Spark's classes."""
    JVM = "jvm"
    """The options for a JVM that does not live long."""
    WORKERS = "workers"
    """Spark's Python workers with PySpark from where it is installed."""
    GARBAGE = "garbage"
    """A command's rarer search for garbage."""
    TASKS = "tasks"
    """What Airflow's tasks import, loaded once by the scheduler that forks them."""


def is_on(part: QuickStart) -> bool:
    """Whether a part is used."""
    off = os.environ.get(VARIABLE, "").split(",")
    return "1" not in off and part not in off
