"""The check of a run, whole: plan and staged files in, verdict, Data Docs, quarantine and report out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from strata_cdc.errors import ChecksFailedError
from strata_cdc.quality.check_step.check_interval import Checking, _missing_transactions, check_interval, spark_url
from strata_cdc.quality.check_step.data_docs import complete_docs
from strata_cdc.runs.run_folder import (
    DecodedRun,
    read_decoded,
    read_plan,
    read_verdicts,
    write_decoded,
)
from strata_cdc.runs.verdict import Severity
from strata_cdc.tables.layout import table_url
from strata_cdc.values import to_plain
from tests.published import published_tables
from tests.publishing import publish_staged
from tests.quality.checked_run import FIELDS, RUN, write_run
from tests.spark_session import spark
from tests.tables.changes import INTERVAL, ORDERS, SOURCE, changes, inserts, stage
from tests.tables.quarantined import quarantined

pytestmark = [pytest.mark.spark, pytest.mark.slow]
__all__ = ["spark"]

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_right_rows_pass_and_every_reader_reads_them(spark: Any, tmp_path: Path) -> None:
    folder = write_run(tmp_path, [{"id": 1, "status": "new"}, {"id": 2, "status": "sent"}])
    report = check_interval(str(tmp_path), SOURCE, RUN, lambda: spark)
    report.raise_if_failed()
    assert (report.tables, report.rows, report.errors, report.warnings) == (1, 2, 0, 0)
    assert len(json.dumps(to_plain(report))) < 1000
    index = tmp_path / "runs" / SOURCE / RUN / "docs" / "index.html"
    assert not index.exists(), "nobody waits for them"
    assert complete_docs(folder) == str(index)
    assert "shop.orders 20261121T033000.000000Z, version 1" in index.read_text()
    assert read_verdicts(folder)[INTERVAL].passed
    assert quarantined(tmp_path, SOURCE) == {}
    publish_staged(str(tmp_path), SOURCE, RUN)
    # A column comes in a later interval; readers that merge schemas see both.
    later = {**FIELDS, "city": pa.string()}
    staged = stage(tmp_path / "x", inserts(later, [{"id": 3, "city": "c"}], version_id=2), interval=INTERVAL + 1)
    from strata_cdc.tables.commit import publish  # noqa: PLC0415

    publish(str(tmp_path), SOURCE, ORDERS, INTERVAL + 1, staged)
    uris = DeltaTable(table_url(str(tmp_path), SOURCE, ORDERS)).file_uris()
    frame = spark.read.option("mergeSchema", "true").parquet(*map(spark_url, uris))
    found = sorted(tuple(row) for row in frame.select("id", "city", "_gtid", "_interval").collect())
    assert [row[:2] for row in found] == [(1, None), (2, None), (3, "c")]
    assert {row[3].timestamp() * 1e6 for row in found} == {INTERVAL, INTERVAL + 1}
    assert [row[2].rpartition(":")[2] for row in found] == ["1", "2", "1"]


def test_a_failing_check_blocks_publication_and_keeps_the_rows(spark: Any, tmp_path: Path) -> None:
    folder = write_run(tmp_path, [{"id": 1, "status": "lost"}, {"id": 2, "status": "sent"}])
    report = check_interval(str(tmp_path), SOURCE, RUN, lambda: spark)
    assert (tmp_path / "runs" / SOURCE / RUN / "docs" / "index.html").exists()
    assert (report.errors, report.messages) == (
        1, ("shop.orders: status: status is enum('new','sent'); 1 row does not comply",),
    )  # fmt: skip
    with pytest.raises(ChecksFailedError, match=r"1 of \d+ checks failed"):
        report.raise_if_failed()
    with pytest.raises(ChecksFailedError):
        publish_staged(str(tmp_path), SOURCE, RUN).raise_if_withheld()
    assert published_tables(str(tmp_path), SOURCE) == []
    ((where, reason),) = quarantined(tmp_path, SOURCE).items()
    assert (reason.run, reason.verdict) == (RUN, read_verdicts(folder)[INTERVAL])
    (kept,) = reason.files
    assert kept.url.startswith(where)
    assert pa.parquet.read_table(kept.url).num_rows == 2
    # What was wrong is mended and the run done again: the new verdict replaces the old one.
    write_run(tmp_path, [{"id": 1, "status": "new"}])
    check_interval(str(tmp_path), SOURCE, RUN, lambda: spark).raise_if_failed()
    assert read_verdicts(folder)[INTERVAL].passed
    assert publish_staged(str(tmp_path), SOURCE, RUN).rows == 1


@pytest.mark.parametrize("content", [b"", b"PAR1", None], ids=["emptied", "cut", "exchanged"])
def test_a_file_that_is_not_what_was_decoded_fails(content: bytes | None, spark: Any, tmp_path: Path) -> None:
    folder = write_run(tmp_path, [{"id": 1, "status": "new"}])
    (staged,) = read_decoded(folder).files
    if content is None:
        (other,) = stage(tmp_path / "x", inserts(FIELDS, [{"id": 2, "status": "new"}]))
        content = Path(other.url).read_bytes()
    Path(staged.url).write_bytes(content)
    report = check_interval(str(tmp_path), SOURCE, RUN, lambda: spark)
    (failure,) = read_verdicts(folder)[INTERVAL].errors
    assert (report.errors, failure.check, failure.table) == (1, "files_are_those_that_were_decoded", "shop.orders")
    assert "decode the run again" in failure.message
    assert staged.url in failure.message
    # It is nobody's row, so there is nothing to keep of it.
    assert quarantined(tmp_path, SOURCE) == {}


def test_rows_that_a_truncate_removed_are_a_warning(spark: Any, tmp_path: Path) -> None:
    folder = write_run(tmp_path, [{"id": 1, "status": "new"}], truncated=True)
    report = check_interval(str(tmp_path), SOURCE, RUN, lambda: spark)
    assert (report.errors, report.warnings) == (0, 1)
    said = f"`TRUNCATE orders` at {SERVER}:4: rows that it removed are gone without delete rows"
    assert [failure.message for failure in read_verdicts(folder)[INTERVAL].failures] == [said]
    published = publish_staged(str(tmp_path), SOURCE, RUN)
    assert (published.rows, published.warnings) == (1, 1)


def test_transactions_that_never_landed_are_an_error(spark: Any, tmp_path: Path) -> None:
    folder = write_run(tmp_path, [{"id": 1, "status": "new"}], gtids=12)
    own = tmp_path / "own"
    own.mkdir()
    expectation = {"type": "expect_column_max_to_be_between", "kwargs": {"column": "id", "max_value": 0}}
    (own / "shop.orders.json").write_text(json.dumps({"expectations": [{**expectation, "severity": "warning"}]}))
    quarantined_rows = changes(FIELDS, [{"op": "insert", "seq": 4, "after": {"id": 4}}], table=ORDERS)
    other = stage(folder.join("staged"), quarantined_rows, slice_key="other")
    reason = json.dumps({"error": "UndecodableTextError", "message": "column c: no text"})
    write_decoded(folder, DecodedRun((*read_decoded(folder).files, replace(other[0], reason=reason))))
    report = check_interval(str(tmp_path), SOURCE, RUN, lambda: spark, Checking(str(own)))
    found = {failure.check: failure for failure in read_verdicts(folder)[INTERVAL].failures}
    assert found["no_transaction_is_missing"].severity is Severity.ERROR
    assert "differ by 12 GTIDs, but only 9" in found["no_transaction_is_missing"].message
    assert found["expect_column_max_to_be_between"].message.endswith("found 1")
    assert "column c: no text" in found["rows_can_be_decoded"].message
    # The plan counted one row, two were staged, one of them in quarantine.
    assert found["expect_table_row_count_to_equal"].message.endswith("found 1")
    assert (report.errors, report.warnings) == (2, 2)


@pytest.mark.parametrize("gtids", [f"{SERVER}:1-9", ""])
def test_a_binlog_that_does_not_go_on_is_an_error(tmp_path: Path, gtids: str) -> None:
    plan = read_plan(write_run(tmp_path, [{"id": 1, "status": "new"}]))
    plan = replace(plan, intervals=(replace(plan.intervals[0], gtid_executed=gtids),))
    assert _missing_transactions(plan, plan.intervals[0]) == []
    [failure] = _missing_transactions(replace(plan, breaks={str(INTERVAL): "binlog.000002:300"}), plan.intervals[0])
    assert (failure.check, failure.severity) == ("no_transaction_is_missing", Severity.ERROR)
    assert "binlog.000002:300" in failure.message
