"""What tasks hand to each other is plain JSON on Airflow's wire, small, and typed again behind it."""

from __future__ import annotations

import json

import pytest

from strata_cdc.airflow.xcom import BRIEF_CHARACTERS, PlannedRun, brief, read_planned
from strata_cdc.errors import DamagedFileError, StoreFormatError
from strata_cdc.pipeline.ingest import LandStepReport
from strata_cdc.pipeline.publish.report import PublishedTable, PublishReport
from strata_cdc.runs.specs import RunRemainder
from strata_cdc.values import to_plain

PLANNED = PlannedRun("s", "r", "file:///lake/" + "x" * 500, 1, 2, 3, 0, None, RunRemainder(0, 0, 0, 0), checks="checks")
OF_FORMER_VERSIONS = {name: value for name, value in to_plain(PLANNED).items() if name != "format"}


def test_a_plan_comes_out_as_it_went_in_also_one_of_former_versions():
    xcom = to_plain(PLANNED)
    assert json.loads(json.dumps(xcom)) == xcom
    assert read_planned(xcom) == read_planned(OF_FORMER_VERSIONS) == PLANNED
    assert xcom["run_url"] == PLANNED.run_url, "what is read again is not cut"


@pytest.mark.parametrize(
    ("xcom", "error", "words"),
    [
        ({**OF_FORMER_VERSIONS, "slices": "two"}, DamagedFileError, r"\$\.slices"),
        (None, DamagedFileError, "expected `object`|Expected `object`"),
        ({**OF_FORMER_VERSIONS, "format": 99}, StoreFormatError, "format 99"),
    ],
)
def test_what_is_no_plan_is_refused_and_says_where(xcom, error, words):
    with pytest.raises(error, match=words):
        read_planned(xcom)


def test_a_report_that_people_read_is_cut():
    report = LandStepReport("s", "g" * 500, None, tuple(f"segment{n}" for n in range(10)))
    reported = brief(report)
    assert json.loads(json.dumps(reported)) == reported
    assert reported["gtid_executed"] == "g" * BRIEF_CHARACTERS + "..."
    assert reported["deleted"] == ["segment0", "segment1", "segment2", "and 7 more"]


def test_of_a_publication_the_sums_are_told():
    table = PublishedTable("d.t", 0, 1, 5, (1, 2), "g", 1)
    assert to_plain(PublishReport("s", "r", 1, 5, 0, (table,), ()).sums()) == {
        "source": "s",
        "run": "r",
        "intervals": 1,
        "rows": 5,
        "warnings": 0,
        "withheld": 0,
        "cleared": False,
    }
