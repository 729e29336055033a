"""Which extra of the distribution brings which package: an installation may be without all of them.
Not here: the packages themselves (`pyproject.toml`)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from strata_cdc.errors import MissingExtraError

DISTRIBUTION: Final = "strata-cdc"

_EXTRAS: Final = {
    "airflow": "airflow",
    "duckdb": "sql",
    "great_expectations": "checks",
    "llvmlite": "compile",
    "numba": "compile",
    "openlineage": "lineage",
    "pyspark": "spark",
    "redis": "cache",
    "sqlglot": "sql",
    "yaml": "checks",
}
"""Names of extras by that of a module."""


def missing_extra(error: ImportError) -> MissingExtraError | None:
    """What to install where an import failed; None if it is a module that no extra brings."""
    module = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(module)
    if extra is None:
        return None
    why = ", and this installation has no kernels for this processor" if extra == "compile" else ""
    return MissingExtraError(f"{module} is not installed{why}", remedy=how_to_install(extra))


def how_to_install(extra: str) -> str:
    """The remedy. It names no index: the wheel may be from anywhere."""
    return f"Install Strata's wheel with its extra `{extra}`, as {DISTRIBUTION}[{extra}]."


def is_installed(module: str) -> bool:
    """Whether a module could be imported; nothing is imported."""
    return find_spec(module) is not None
