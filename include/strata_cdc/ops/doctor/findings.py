"""Findings about a source: one for each thing that was checked.
Not here: looking (`check_source.py`), printing (`cli/doctor.py`)."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from strata_cdc.values import to_plain


class FindingSeverity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    """It works, at a price that is named."""
    ERROR = "error"
    """It prevents a run, or makes its result incomplete."""


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    """The server's variable, the grant, or what else it is about."""
    severity: FindingSeverity
    what: str
    remedy: str | None = field(default=None, name="mend")
    """SQL, or a command, that fixes it."""

    def to_json(self) -> dict[str, str | None]:
        """As plain values."""
        return {**to_plain(self), "severity": self.severity.value}


def ok(name: str, what: str) -> Finding:
    """Something is as it should be."""
    return Finding(name, FindingSeverity.OK, what)


def warning(name: str, what: str, remedy: str | None = None) -> Finding:
    """Something has a price."""
    return Finding(name, FindingSeverity.WARNING, what, remedy)


def error(name: str, what: str, remedy: str | None = None) -> Finding:
    """A finding that must be fixed."""
    return Finding(name, FindingSeverity.ERROR, what, remedy)
