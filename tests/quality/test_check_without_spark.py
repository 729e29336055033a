"""The check of a run where no Spark is needed: any lake works, bad input is refused, and it says how far it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from strata_cdc.airflow.plugins.data_docs import page_of
from strata_cdc.errors import ChecksFailedError, DamagedFileError, StoreFormatError, Usage
from strata_cdc.files.storage import delete_file
from strata_cdc.pipeline.decode.decode_slice import store_decoded
from strata_cdc.pipeline.publish.stored_verdicts import stored_verdicts
from strata_cdc.quality.check_step import data_docs
from strata_cdc.quality.check_step.check_interval import CheckReport, check_interval
from strata_cdc.quality.check_step.data_docs import complete_docs
from strata_cdc.quality.check_step.progress import CheckProgress
from strata_cdc.runs.run_folder import DecodedRun, read_decoded, read_plan, read_verdicts, write_decoded, write_plan
from strata_cdc.runs.run_past import EarlierTable, RunPast, write_past
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.verdicts import VerdictOutcome
from tests.interposed import interposed
from tests.published import published_tables
from tests.publishing import publication_of, publish_staged
from tests.quality.checked_run import FIELDS, RUN, write_run
from tests.tables.changes import INTERVAL, SOURCE, inserts, stage
from tests.tables.quarantined import quarantined

if TYPE_CHECKING:
    from pathlib import Path


def checked(lake: Path | str, progress: CheckProgress | None = None) -> CheckReport:
    return check_interval(str(lake), SOURCE, RUN, pytest.fail, None, progress)


def test_any_lake_is_judged(lake: str) -> None:
    folder = write_run(lake, [{"id": 1, "status": "new"}, {"id": 2, "status": "lost"}])
    assert checked(lake).errors == 1
    assert folder.folder("docs").exists("index.html")
    assert len(quarantined(lake, SOURCE)) == 1
    folder = write_run(lake, [{"id": 1, "status": "new"}])
    checked(lake).raise_if_failed()
    assert read_verdicts(folder)[INTERVAL].passed
    assert not folder.folder("docs").exists("index.html"), "those of the check before are no longer true"


def test_without_great_expectations_there_is_a_verdict_and_no_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [{"id": 1, "status": "new"}, {"id": 2, "status": "lost"}])
    with interposed(lambda *_: False, (data_docs, "is_installed")):
        report = checked(tmp_path)
    assert (report.errors, report.docs) == (1, "")
    assert read_verdicts(folder)[INTERVAL].errors
    assert not folder.folder("docs").exists("index.html")


def test_tables_whose_names_read_alike_are_told_apart(tmp_path: Path) -> None:
    """`c`.`a.b` and `c.a`.`b`: a dot does not say where the database ends."""
    folder = write_run(tmp_path, [{"id": 1, "status": "new"}])
    good, bad = TableName("c", "a.b"), TableName("c.a", "b")
    batches = [inserts(FIELDS, [{"id": 1, "status": one}], table=name) for one, name in (("new", good), ("lost", bad))]
    files = stage(folder.join("staged"), *batches)
    plan, past = read_plan(folder), RunPast(tuple(EarlierTable(name.database, name.table) for name in (good, bad)))
    tables = tuple(replace(plan.tables[0], database=one.database, table=one.table) for one in (good, bad))
    versions = tuple(replace(plan.versions[0], database=one.database, table=one.table) for one in (good, bad))
    write_plan(folder, replace(plan, tables=tables, versions=versions))
    write_past(folder, past)
    write_decoded(folder, DecodedRun(files))
    assert checked(tmp_path).messages[0].startswith("`c.a`.b: status: status is enum('new','sent')")
    publication = publication_of(str(tmp_path), SOURCE, RUN)
    judged = {one.table: one.outcome for one in stored_verdicts(publication, judged_at=1)}
    assert (judged["c.a.b"], judged["`c.a`.b"]) == (VerdictOutcome.PASSED, VerdictOutcome.FAILED)
    assert [[table.verdict for table in one.published] for one in publication.commit_tables()] == [["passed"], []]
    assert published_tables(str(tmp_path), SOURCE) == [good]


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [{"id": 1, "status": "new"}])
    delete_file(read_decoded(folder).files[0].url)
    assert checked(tmp_path).errors == 1
    (failure,) = read_verdicts(folder)[INTERVAL].errors
    assert failure.message.startswith("a staged file is gone: decode the run again")


def test_a_plan_that_was_edited_after_decoding_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [{"id": 1, "status": "new"}])
    store_decoded(folder.url, read_decoded(folder).files)
    checked(tmp_path).raise_if_failed()
    plan = read_plan(folder)
    write_plan(folder, replace(plan, intervals=(replace(plan.intervals[0], last_seq=8),)))
    for step in (lambda: checked(tmp_path),
                 lambda: publish_staged(str(tmp_path), SOURCE, RUN)):  # fmt: skip
        with pytest.raises(DamagedFileError, match="the plan is not the plan that was decoded"):
            step()
    assert published_tables(str(tmp_path), SOURCE) == []


def test_the_verdict_of_another_run_is_refused(tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", [{"id": 2, "status": "new"}])
    checked(tmp_path / "other")
    folder = write_run(tmp_path, [{"id": 1, "status": "new"}])
    folder.write("verdict.json", other.read_file("verdict.json"))
    with pytest.raises(ChecksFailedError, match="the verdict is on other files"):
        publish_staged(str(tmp_path), SOURCE, RUN)


def test_pages_of_a_run_without_failures_are_made_when_they_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "strata.toml"
    settings.write_text(f'lake = "{tmp_path}"\n[sources.{SOURCE}]\nconnection = "x"\n')
    monkeypatch.setenv("STRATA_SETTINGS", str(settings))
    folder = write_run(tmp_path, [{"id": 1, "status": "new"}])
    with pytest.raises(Usage, match="a run has Data Docs if rows of it were checked"):
        page_of(SOURCE, RUN, "index.html")
    checked(tmp_path)
    publish_staged(str(tmp_path), SOURCE, RUN)
    assert not folder.folder("docs").exists("index.html"), "nobody waits for them"
    assert "shop.orders 20261121T033000.000000Z, version 1" in page_of(SOURCE, RUN, "index.html").decode()
    assert folder.folder("docs").exists("index.html")


def test_what_a_newer_version_kept_for_the_pages_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [{"id": 1, "status": "new"}])
    checked(tmp_path)
    folder.write("judged.json", folder.read_file("judged.json").replace(b'"format":1}', b'"format":2}'))
    with pytest.raises(StoreFormatError, match="format 2"):
        complete_docs(folder)


def test_it_says_how_far_it_is(tmp_path: Path) -> None:
    write_run(tmp_path, [{"id": 1, "status": "new"}, {"id": 2, "status": "lost"}])
    lines: list[str] = []
    checked(tmp_path, CheckProgress(lines.append))
    assert re.fullmatch(r"checking 2 rows of 1 table in 1 file against 1\d rules", lines[0])
    assert re.fullmatch(r"checked 2 rows in 1 file in \d+\.\d s: \d+ checks, 1 error, 0 warnings", lines[-1])
    heard: list[tuple[int, ...]] = []

    class Hearing(CheckProgress):
        def show(self, *numbers: int) -> None:
            heard.append(numbers)

    for line in ("checked 3 of 17 files, 1,200 of 419,900 rows\n", "something else"):
        Hearing().hear(line)
    assert heard == [(3, 1200, 17, 419900)]
