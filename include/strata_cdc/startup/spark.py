"""How a short Spark job is started: spark-submit, its environment, its JVM's options.
Not here: who starts one (`cli/check.py`, the DAGs, `spark_jobs/session.py`), making the archive of classes
(`scripts/startup/share_classes.py`)."""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from strata_cdc.startup.switch import VARIABLE, QuickStart, is_on

if TYPE_CHECKING:
    from collections.abc import Mapping

SUBMIT = Path(sys.executable).with_name("spark-submit")
"""The program of this Python environment."""

JOBS = Path(__file__).resolve().parents[1] / "spark_jobs"
"""The folder of the jobs that it is started with."""

SHARED_CLASSES = Path(sys.prefix) / "share" / "strata" / "spark.jsa"
"""Where set-up leaves an archive of the classes that Spark loads, already parsed and verified (JEP 350)."""

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A job of a minute ends before the JVM's second compiler and its parallel collector have paid for themselves."""

SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""No output about an archive that does not fit: what a JVM prints would be between the lines of a report."""

FLEET_VARIABLE = "STRATA_FLEET"
"""By this variable the local fleet recognizes its processes (`scripts/processes.py`)."""

TASK_VARIABLE = "STRATA_TASK_PID"
"""Number of the process on this machine that waits for a Spark job: the job ends when this process ends."""

NEEDED = re.compile(
    # The system: where programs and files are, languages, the certificates and proxies of the network.
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|TMPDIR|LD_LIBRARY_PATH|XDG_\w+|SSL_CERT_\w+"
    r"|REQUESTS_CA_BUNDLE|(?:https?|no|all)_proxy|KRB5\w*"
    # Java, Spark and where it runs, Python and its libraries.
    r"|JAVA\w*|JDK_\w+|SPARK_\w+|PYSPARK_\w+|HADOOP_\w+|YARN_\w+|KUBERNETES_\w+|PYTHON\w*|VIRTUAL_ENV|NUMBA_\w+"
    r"|OPENBLAS_\w+|OMP_\w+|MKL_\w+|ARROW_\w+|MALLOC_\w+"
    # The lake: keys of object stores are passed in no other way.
    r"|AWS_\w+|GOOGLE_\w+|AZURE_\w+"
    rf"|{VARIABLE}|{FLEET_VARIABLE}|{TASK_VARIABLE}",
    re.IGNORECASE,
)
"""Names of the variables that a Spark job may have."""


def needed_by_spark(given: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a Spark job gets: no connections, no settings of Airflow, nothing that it does
    not use."""
    return {name: value for name, value in given.items() if NEEDED.fullmatch(name)}


def mixed_spark(packages: Path | None = None) -> str | None:
    """Whether the files of two versions of Spark lie over each other, in half a sentence; None if they do not.

    Airflow's Spark provider brings `pyspark-client`, which has the folder `pyspark/` of the package `pyspark` in it: of
    another version, Spark fails at whatever file was written last (a UnicodeDecodeError for each task, for example).

    Args:
        packages: The folder of installed packages; None: that of this environment.
    """
    if packages is None:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            return None
        packages = Path(spec.origin).parents[1]
    installed = {
        name: {path.name.removesuffix(".dist-info").rpartition("-")[2] for path in packages.glob(f"{name}-*.dist-info")}
        for name in ("pyspark", "pyspark_client")
    }
    spark, client = (" and ".join(sorted(versions)) for versions in installed.values())
    if not spark or not client or spark == client:
        return None
    return f"pyspark {spark} and pyspark-client {client} are installed over each other"


def how_to_fix(mixed: str) -> str:
    """What to do where `mixed_spark` says so."""
    version = mixed.partition(" pyspark-client ")[2].split(" ")[0]
    return f"Install both again, each in version {version}, by pip with --force-reinstall and --no-deps."


def why_no_spark() -> str | None:
    """Why Spark cannot be started in this environment, in half a sentence; None if it can."""
    if not SUBMIT.exists():
        return "pyspark is not installed"
    mixed = mixed_spark()
    if mixed is not None:
        return mixed
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        return f"JAVA_HOME names a folder without Java, which Spark needs: {home}"
    if not home and shutil.which("java") is None:
        return "there is no Java, which Spark needs: JAVA_HOME is not set, and `java` is not in PATH"
    return None


def short_job(archive: Path = SHARED_CLASSES) -> str:
    """The JVM's options for a job of seconds to minutes, as `--driver-java-options` takes them.

    With the archive, Spark starts in half the time. A JVM that did not make the archive, or has other jars, starts
    without it.
    """
    options = [QUICK] if is_on(QuickStart.JVM) else []
    return " ".join(filter(None, [*options, long_job(archive)]))


def long_job(archive: Path = SHARED_CLASSES) -> str:
    """The same for a job that may take long, for which the JVM's second compiler and its parallel collector pay."""
    is_used = archive.exists() and is_on(QuickStart.ARCHIVE)
    return archive_option("SharedArchiveFile", archive) if is_used else ""


def archive_option(name: str, archive: Path) -> str:
    """One of the JVM's options of an archive; the quotes are for Spark, which splits options at blanks."""
    return f'"-XX:{name}={archive}" {SILENT}'


def submit_environment(given: Mapping[str, str], *imported: Path, alone: bool) -> dict[str, str]:
    """The environment of spark-submit, with which a job runs with this Spark and this Python.

    Args:
        given: The environment that it would get otherwise. It may be for another Spark of the user, or for a notebook.
        imported: Folders that the job imports from, before those of PYTHONPATH.
        alone: Spark runs on this machine only. It then uses only loopback, unless the user names an address: the
            address of the host's name may be unreachable. A cluster's machines may have a Python of their own.
    """
    # Whatever the locale is, the job's report has names of any characters, and its reader takes UTF-8.
    environment = {**given, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONIOENCODING": "utf-8"}
    if alone:
        environment["PYSPARK_PYTHON"] = sys.executable
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
    pyspark = find_spec("pyspark")
    if pyspark is not None and pyspark.origin is not None:
        # `.venv/bin/spark-submit` finds this by itself, if the `python3` of PATH can import pyspark.
        environment["SPARK_HOME"] = str(Path(pyspark.origin).parent)
    folders = [*map(str, imported), *filter(None, [given.get("PYTHONPATH")])]
    if folders:
        environment["PYTHONPATH"] = os.pathsep.join(folders)
    return environment
