"""What commands print of what they did."""

from __future__ import annotations

import json

import pytest

from strata_cdc.cli.report import print_report


def test_fields_stand_below_each_other_and_empty_ones_are_left_out(capsys: pytest.CaptureFixture[str]):
    print_report({"rows": 0, "run_url": "[s3]", "notes": ["one", "two"], "none": None, "empty": []}, as_json=False)
    assert capsys.readouterr().out.splitlines() == [" rows     0", " run url  [s3]", " notes    one", "          two"]


def test_a_long_value_is_not_broken(capsys: pytest.CaptureFixture[str]):
    gtid_set = ",".join(f"{number:08x}-0000-0000-0000-000000000000:1-5" for number in range(9))
    print_report({"gtid": gtid_set}, as_json=False)
    assert gtid_set in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize("report", [{}, {"rows": 1, "note": "é"}])
def test_as_json_everything_is_there(report: dict[str, object], capsys: pytest.CaptureFixture[str]):
    print_report(report, as_json=True)
    assert json.loads(capsys.readouterr().out) == report
