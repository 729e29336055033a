"""One file after the other read into the same memory."""

from __future__ import annotations

import pytest

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.storage import FileBuffer, write_file


def test_each_file_is_what_it_is(lake: str) -> None:
    buffer = FileBuffer()
    for at, content in enumerate((b"long" * 1000, b"", b"short", b"longer" * 1000)):
        write_file(f"{lake}/{at}", content)
        assert buffer.read_file(f"{lake}/{at}") == content
    assert buffer.read_file(f"{lake}/none") is None


def test_storage_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(LakeUnavailableError):
        FileBuffer().read_file("nothing://there/is")
