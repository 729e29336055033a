"""Unexpected exceptions while a step works on one table: only that table fails, and the error has the position in the
code.
Not here: the errors of Strata (`errors.py`)."""

from __future__ import annotations

import traceback
from pathlib import Path

from strata_cdc.errors import StrataError, Transient, UnforeseenError
from strata_cdc.extras import missing_extra

_HERE = Path(__file__).parent


def may_pass(error: Exception) -> bool:
    """Whether the cause of an exception is the moment or the machine, so that no table is blamed for it."""
    return isinstance(error, Transient | OSError | MemoryError) or type(error).__module__.startswith("py4j")


def as_strata_error(error: Exception, table: str | None = None) -> StrataError:
    """Any exception as an error that can be stored and shown. For an exception that is not an error of Strata, it has
    only the kind and the position in the code: the text may contain a value that must not be shown."""
    if isinstance(error, StrataError):
        return error
    missing = missing_extra(error) if isinstance(error, ImportError) else None
    return missing or UnforeseenError(
        what_happened(error),
        table=table,
        remedy="All other tables go on; the setting `exclude` does without this one.",
    )


def what_happened(error: Exception) -> str:
    """The message of an error of Strata; for another exception its kind, and the last position in Strata's code that it
    passed."""
    if isinstance(error, StrataError):
        return error.message
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(_HERE)
    ]
    where = f" at {Path(frames[-1].filename).relative_to(_HERE)}:{frames[-1].lineno}" if frames else ""
    return f"an unforeseen {type(error).__name__}{where}, a fault of Strata: please report it"
