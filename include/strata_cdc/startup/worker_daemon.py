"""Spark's daemon of Python workers, with PySpark from where it is installed.

Spark puts its own `python/lib/pyspark.zip` before everything else (core/.../python/PythonUtils.scala,
`sparkPythonPath`). From an archive, Python reads no compiled modules, so each application would spend half a second
to compile PySpark again. Not here: what the workers run (the jobs beside this file).
"""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path


def without_archives(path: list[str]) -> list[str]:
    """A module search path without the archives of a PySpark that is installed on it: they are copies of its parts."""
    archives = [entry for entry in path if entry.endswith(".zip")]
    rest = [entry for entry in path if entry not in archives]
    spec = importlib.machinery.PathFinder.find_spec("pyspark", rest)
    if spec is None or spec.origin is None:
        return path
    installed = Path(spec.origin).parent
    return [entry for entry in path if not (entry in archives and Path(entry).is_relative_to(installed))]


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)
    from pyspark.daemon import manager

    manager()
