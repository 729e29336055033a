"""The rows of a version as a Spark DataFrame, for the rules that users wrote.
Not here: running them (`suite.py`), our own rules (`pass_engine.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata_cdc.quality.checks.rules import IMAGES_AGREE, frame_column, images_agree_sql
from strata_cdc.quality.checks.subject import key_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.quality.checks.subject import TableSubject

    Read = Callable[[Sequence[str]], Any]


def frame_keys(subject: TableSubject, version: int, frame: Any) -> tuple[str, ...]:
    """The columns by which a row of a version is known, as its frame calls them."""
    return key_columns(subject.definitions[version], frame.columns)


def frame_of(read: Read, subject: TableSubject, version: int) -> Any:
    """The rows of a version, not cached: the few jobs that read them want few columns each, and reading those from
    Parquet costs less than keeping all (8 against 11 seconds of CPU for 100,000 rows on a busy machine, Spark 4.3)."""
    frame = read([file.url for file in subject.files_of(version)])
    # A dot in a name would be read as a field of a struct, by Great Expectations as by Spark.
    columns = [f"`{name.replace('`', '``')}` AS `{frame_column(name)}`" for name in frame.columns]
    return frame.selectExpr(*columns, f"{images_agree_sql()} AS {IMAGES_AGREE}")
