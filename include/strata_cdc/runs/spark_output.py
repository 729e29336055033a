"""The output of a job of `spark_jobs/` while it works and at its end: which lines are its own, and its error.
Not here: the jobs, starting them (the command line, the DAGs)."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

import msgspec

from strata_cdc import errors
from strata_cdc.errors import ErrorFacts, Permanent, StrataError

_REFUSED: Final = 65
_UNAVAILABLE: Final = 75
"""Exit codes of the jobs (`EX_DATAERR`, `EX_TEMPFAIL` of sysexits.h): their report is one of Strata's errors."""
KERNELS: Final = "kernels are not linked "
"""What a job prints before the machines whose processors the linked kernels are not for."""
PAGES: Final = "Spark's pages: "
"""What a job prints before the address of Spark's own pages, if they are turned on."""
_OWN: Final = re.compile(rf"(?:decoded|checking|checked|held) [\d,]+ |{PAGES}|{KERNELS}")
_RAISED: Final = re.compile(rf"^{re.escape(errors.__name__)}\.(\w+): (.+)$", re.MULTILINE)
"""The error of a task that Spark tried again, as Spark's own report shows it."""
_SHOWN_CHARACTERS: Final = 2000


def is_progress(line: str) -> bool:
    """Whether a line is from the job itself, about its work; all others are from Spark and its libraries."""
    return _OWN.match(line) is not None


def pages_of(line: str) -> str | None:
    """The address of Spark's own pages that a line names; None if it names none."""
    address = line.removeprefix(PAGES)
    return address if address != line and address.startswith(("http://", "https://")) else None


def is_report(line: str) -> bool:
    """Whether a line is a report or an error as JSON."""
    return line.startswith("{")


def job_failure(code: int, report: str, output: str) -> StrataError:
    """The error of a job that has failed: its own error if it has reported one, else the end of Spark's output.

    Args:
        code: Its exit code; if negative, the number of a signal.
        report: Its last line that `is_report`; empty if there was none.
        output: All other lines.
    """
    if code in {_REFUSED, _UNAVAILABLE}:
        with suppress(msgspec.DecodeError):
            return error_of(msgspec.json.decode(report, type=ErrorFacts))
    raised = raised_in(output)
    if raised is not None:
        return raised
    last = "\n".join(line for line in output.splitlines() if line.strip())[-_SHOWN_CHARACTERS:]
    end = f"Spark was killed by signal {-code}" if code < 0 else f"Spark ended with exit code {code}"
    return Permanent(f"{end}; its last output:\n{last}" if last else f"{end} without any output")


def raised_in(text: str) -> StrataError | None:
    """The last of Strata's errors that Spark's report of a failed task shows; None if it shows none."""
    raised = _RAISED.findall(text)
    return error_of(ErrorFacts(raised[-1][0], raised[-1][1].rstrip("."))) if raised else None


def error_of(facts: ErrorFacts) -> StrataError:
    """The error of which these are the stored facts."""
    fields: dict[str, Any] = msgspec.structs.asdict(facts)
    name, message, crossing = (fields.pop(field) for field in ("error", "message", "crossing"))
    known = {kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type)}
    kind = known.get(name, Permanent)
    error = kind(message, **fields) if issubclass(kind, StrataError) else Permanent(message, **fields)
    return error.across(crossing)
