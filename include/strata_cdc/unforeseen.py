"""Exceptions that nobody foresaw, met while a step worked on one table: they cost that table, and say where they were.
Not here: the errors of Strata (`errors.py`)."""

from __future__ import annotations

import traceback
from pathlib import Path

from strata_cdc.errors import StrataError, Transient, UnforeseenError

_HERE = Path(__file__).parent


def may_pass(error: Exception) -> bool:
    """Whether an exception says something of the moment or the machine, so that no table is to be blamed for it."""
    return isinstance(error, Transient | OSError | MemoryError) or type(error).__module__.startswith("py4j")


def as_told(error: Exception, table: str | None = None) -> StrataError:
    """An exception as an error that can be stored and shown. Of one that is not Strata's own only its kind and its
    place in the code are told: its text may have a value that must not be shown."""
    if isinstance(error, StrataError):
        return error
    return UnforeseenError(
        what_happened(error),
        table=table,
        remedy="All other tables go on; the setting `exclude` does without this one.",
    )


def what_happened(error: Exception) -> str:
    """What an error of Strata says; of another exception its kind, and the last place of Strata's code that it came
    through."""
    if isinstance(error, StrataError):
        return error.message
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(_HERE)
    ]
    where = f" at {Path(frames[-1].filename).relative_to(_HERE)}:{frames[-1].lineno}" if frames else ""
    return f"an unforeseen {type(error).__name__}{where}, a fault of Strata: please report it"
