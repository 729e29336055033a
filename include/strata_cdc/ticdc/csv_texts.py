"""CSV that Arrow's reader does not know, written as CSV that it knows: delimiters of several characters, backslashes.
Not here: reading it (`csv_rows.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from strata_cdc.ticdc.records import BadRowError

if TYPE_CHECKING:
    import pyarrow as pa

    from strata_cdc.ticdc.csv_form import CsvForm

_CODES: Final = b"acdefghijklmopqstuvwxyz"
"""Letters that stand for the bytes of a delimiter after a backslash."""
_BACKSLASH: Final = b"\\b"
"""Stands for a backslash, so that each other backslash begins an escape."""
_SEPARATORS: Final = "\x1f\x1e\x1d\x1c\x01\x02\x03\x04"


class CsvTexts:
    """How blocks of one form are written for Arrow, and how texts are written back."""

    def __init__(self, form: CsvForm) -> None:
        """Takes the form."""
        self._delimiter, self._is_quoted = form.delimiter, bool(form.quote)
        bytes_of_delimiter = dict.fromkeys(form.delimiter)
        codes = (code for code in _CODES if code not in bytes_of_delimiter)
        self._escapes = [
            (b"\\%c" % byte, b"\\%c" % code) for byte, code in zip(bytes_of_delimiter, codes, strict=False)
        ]

    def readable(self, content: bytes) -> tuple[bytes, str]:
        """A block with a delimiter of one character, which no text has in it; and that character.

        Raises:
            BadRowError: The block has every character that could be the delimiter.
        """
        if not self._is_quoted:
            # In this order: what follows two backslashes is not escaped.
            content = content.replace(rb"\\", _BACKSLASH)
            for escaped, code in self._escapes:
                content = content.replace(escaped, code)
        if len(self._delimiter) == 1:
            return content, self._delimiter.decode()
        separator = next((mark for mark in _SEPARATORS if mark.encode() not in content), None)
        if separator is None:
            raise BadRowError(1, "its texts have all control characters that could separate fields")
        return content.replace(self._delimiter, separator.encode()), separator

    def restored(self, texts: pa.Array, separator: str) -> pa.Array:
        """Texts as they were before `readable`."""
        if len(self._delimiter) > 1:
            texts = pc.replace_substring(texts, separator, self._delimiter.decode())
        if self._is_quoted:
            return texts
        escapes = [(code, escaped[1:]) for escaped, code in self._escapes]
        for code, text in (*escapes, (rb"\n", b"\n"), (rb"\r", b"\r"), (_BACKSLASH, b"\\")):
            texts = pc.replace_substring(texts, code.decode(), text.decode())
        return texts
