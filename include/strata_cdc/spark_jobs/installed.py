"""Whether Spark can be started by this Python, as an error that says what to install.
Not here: what is looked at (`startup/spark.py`)."""

from __future__ import annotations

from strata_cdc.errors import Permanent
from strata_cdc.extras import how_to_install
from strata_cdc.startup.spark import SUBMIT, how_to_fix, mixed_spark, why_no_spark


def require_spark(instead: str) -> None:
    """Refuses to start Spark where it cannot be started.

    Args:
        instead: A sentence on what does without Spark.

    Raises:
        Permanent: pyspark or a Java is missing, or two versions of pyspark lie over each other.
    """
    missing, mixed = why_no_spark(), mixed_spark()
    if missing is None:
        return
    if not SUBMIT.exists():
        install = how_to_install("spark")
    elif mixed is not None:
        install = how_to_fix(mixed)
    else:
        install = "Install Java 17 or later, or let JAVA_HOME name it."
    raise Permanent(missing, remedy=f"{install} {instead}")
