"""Texts of CSV without quotes and with delimiters of several characters: each comes back as it was, beside NULL."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import Usage
from strata_cdc.ticdc.csv_form import CsvSettings
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn
from tests.ticdc.reading import read

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = (SinkColumn("id", pk=True, nullable=False), SinkColumn("text", "VARCHAR", precision="40"))
FORMS = {
    "one": FeedForm(quote="", delimiter="|"),
    "comma": FeedForm(quote="", delimiter=","),
    "several": FeedForm(quote="", delimiter="|,|"),
    "quoted, several": FeedForm(delimiter="||"),
    "NULL like a letter's escape": FeedForm(quote="", delimiter="|", null="\\a"),
    "NULL like a backslash": FeedForm(quote="", delimiter="|", null="\\b"),
    "NULL with letters": FeedForm(quote="", delimiter="|", null="\\a\\b\\c"),
    "NULL is empty, texts are quoted": FeedForm(null=""),
}
LETTERS = "\\abcnrN|,\n\x1f"


def texts_of(tmp_path: Path, form: FeedForm, texts: list[str | None], block_bytes: int = 1 << 20) -> list[str | None]:
    feed = Feed(tmp_path, form)
    table = feed.table("t", COLUMNS)
    feed.write(table, [Row(START + at, {"id": at, "text": text}) for at, text in enumerate(texts, 1)])
    feed.checkpoint(START + len(texts) + 1)
    got = read(tmp_path, CsvSettings(null=form.null))
    assert got.error is None, got.error
    return [row[4]["text"] for row in got.rows]


@pytest.mark.parametrize("form", FORMS)
def test_each_text_comes_back(tmp_path: Path, form: str) -> None:
    texts = ["".join(letters) for count in range(4) for letters in product(LETTERS, repeat=count)]
    given = [None, *texts, None]
    assert texts_of(tmp_path, FORMS[form], given) == given


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ["plain", "\\", "a|b", "a\nb", "\x1f", "\r"])
def test_a_block_with_few_escapes(tmp_path: Path, form: str, text: str) -> None:
    """What no text of a block has is not looked for in it."""
    given = ["plain", text, None, "plain"]
    assert texts_of(tmp_path, FORMS[form], given) == given


@pytest.mark.parametrize("null", ["NULL", "", "\\n", "\\r", "a\\nb"])
def test_null_that_could_be_a_text_is_refused(tmp_path: Path, null: str) -> None:
    feed = Feed(tmp_path, FeedForm(quote="", delimiter="|", null=null))
    feed.write(feed.table("t", COLUMNS), [Row(START + 1, {"id": 1, "text": None})])
    feed.checkpoint(START + 9)
    got = read(tmp_path, CsvSettings(null=null))
    assert isinstance(got.error, Usage)
    assert "could be a text" in got.error.message
    assert not got.rows


@pytest.mark.parametrize("null", ["\\", "\\N\\", "\\|N", "\\,", "|,|", "\\\\N"])
def test_null_that_could_be_a_part_of_the_record_is_refused(tmp_path: Path, null: str) -> None:
    feed = Feed(tmp_path, FeedForm(quote="", delimiter="|,|"))
    feed.write(feed.table("t", COLUMNS), [Row(START + 1, {"id": 1, "text": "x"})])
    feed.checkpoint(START + 9)
    assert "cannot be written as" in str(read(tmp_path, CsvSettings(null=null)).error)
