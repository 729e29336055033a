"""What is in quarantine comes back as it was put there, from every form of the reason so far."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from strata_cdc.errors import DamagedFileError, StoreFormatError
from strata_cdc.runs.verdict import Failure, IntervalVerdict, Severity, TableVerdict
from strata_cdc.tables.pinned import read_pinned
from strata_cdc.tables.quarantine import REASON, Reason, put_in_quarantine
from tests.tables.changes import INTERVAL, SOURCE
from tests.tables.quarantined import quarantined
from tests.tables.test_pinned import staged_in

NULL = Failure("shop.orders", "expect_column_values_to_not_be_null", "id", Severity.ERROR, "id is NULL", 2)
VERDICT = IntervalVerdict(SOURCE, INTERVAL, "d", (TableVerdict("shop.orders", 2, (1, 2), 20, (NULL,)),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(put_in_quarantine(str(tmp_path), SOURCE, "r", INTERVAL, staged_in(tmp_path), VERDICT))


def test_what_was_put_there_comes_back(folder: Path, tmp_path: Path) -> None:
    ((where, reason),) = quarantined(tmp_path, SOURCE).items()
    assert where == str(folder)
    staged = staged_in(tmp_path)
    assert reason == Reason(SOURCE, "r", VERDICT, reason.files)
    assert [replace(file, url="") for file in reason.files] == [replace(file, url="") for file in staged]
    assert [read_pinned(file) for file in reason.files] == [read_pinned(file) for file in staged]


def test_a_reason_of_the_first_form_opens_and_a_file_without_its_digest_is_not_trusted(
    folder: Path, tmp_path: Path
) -> None:
    stored = json.loads((folder / REASON).read_text())
    for listed, file in zip(stored["files"], next(iter(quarantined(tmp_path, SOURCE).values())).files, strict=True):
        listed["stats"] = file.statistics
    del stored["format"], stored["files"][0]["digest"]
    (folder / REASON).write_text(json.dumps(stored))
    (reason,) = quarantined(tmp_path, SOURCE).values()
    assert reason.verdict == VERDICT
    assert read_pinned(reason.files[1])
    with pytest.raises(DamagedFileError, match="has other bytes"):
        read_pinned(reason.files[0])


@pytest.mark.parametrize(
    ("content", "error"),
    [('{"source": 1}', DamagedFileError), ("{", DamagedFileError), ('{"format": 99}', StoreFormatError)],
)
def test_another_file_is_refused(content: str, error: type[Exception], folder: Path, tmp_path: Path) -> None:
    (folder / REASON).write_text(content)
    with pytest.raises(error, match=REASON):
        quarantined(tmp_path, SOURCE)
