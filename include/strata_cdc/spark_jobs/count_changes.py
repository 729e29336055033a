"""Counts new changes by operation: `spark-submit count_changes.py SOURCE DATABASE.TABLE INTERVAL[,INTERVAL...]`.
Not here: who runs it (`dags/examples/read_changes.py`), the session (`session.py`).

An example of a Spark job that reads a change table without a Delta connector: the table's log says which files
exist now and to which interval each belongs, and Spark reads these."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from strata_cdc.config.settings import load_settings
from strata_cdc.schema.model.definition import TableName
from strata_cdc.spark_jobs.session import open_session
from strata_cdc.tables.layout import table_url
from strata_cdc.tables.outputs import OUTPUT

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    """Prints a line for each operation."""
    source, table, intervals = arguments
    wanted = {int(start) for start in intervals.split(",")}
    url = table_url(load_settings(os.environ).lake, source, TableName.parse(table))
    output = OUTPUT.open(url)
    files = [] if output is None else [f"{url}/{path}" for path, start in output.files().items() if start in wanted]
    if not files:
        return
    spark = open_session(f"count {table}")
    try:
        changes = spark.read.option("mergeSchema", "true").parquet(*files)
        for operation, count in sorted(changes.groupBy("_op").count().collect()):
            sys.stdout.write(f"{operation}: {count:,}\n")
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
