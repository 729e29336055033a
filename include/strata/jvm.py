"""How the JVM of a short Spark job is started.
Not here: who starts it (`cli/check.py`, the DAGs, `spark_jobs/`), making the archive (`scripts/share_classes.py`)."""

from __future__ import annotations

import sys
from pathlib import Path

SHARED_CLASSES = Path(sys.prefix) / "share" / "strata" / "spark.jsa"
"""Where set-up leaves an archive of the classes that Spark loads, already parsed and verified (JEP 350)."""

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A job of a minute ends before the JVM's second compiler and its parallel collector have paid for themselves."""

SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Not a word of an archive that does not fit: what a JVM prints would stand between the lines of a report."""


def short_job(archive: Path = SHARED_CLASSES) -> str:
    """The JVM's options for a job of seconds to minutes, as `--driver-java-options` takes them.

    With the archive Spark starts in half the time. A JVM that did not make it, or sees other jars, starts without it.
    """
    return f"{QUICK} -XX:SharedArchiveFile={archive} {SILENT}" if archive.exists() else QUICK
