"""CSV that Arrow's reader does not know, written as CSV that it knows: delimiters of several characters, backslashes.
Not here: reading it (`csv_rows.py`)."""

from __future__ import annotations

import re
from string import ascii_letters
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from strata_cdc.ticdc.records import BadRowError

if TYPE_CHECKING:
    import pyarrow as pa

    from strata_cdc.ticdc.csv_form import CsvForm

_LINES: Final = {rb"\n": b"\n", rb"\r": b"\r"}
_SEPARATORS: Final = "\x1f\x1e\x1d\x1c\x01\x02\x03\x04"
_BACKSLASH: Final = re.compile(rb"\\")


class CsvTexts:
    """How blocks of one form are written for Arrow, and how texts are written back."""

    def __init__(self, form: CsvForm, null: str) -> None:
        """Takes the form, and the text of NULL, which stays as it is."""
        self._delimiter, self._is_quoted = form.delimiter, bool(form.quote)
        # Letters that stand for what a backslash escapes: then no delimiter is in a text, and each backslash begins an
        # escape.
        codes = (f"\\{letter}".encode() for letter in ascii_letters)
        free = (code for code in codes if code not in _LINES and code not in null.encode())
        backslash = rb"\\", next(free)
        self._codes = [backslash, *((b"\\%c" % byte, next(free)) for byte in dict.fromkeys(form.delimiter))]
        # The backslash comes last: before it, each backslash of a text begins an escape.
        back = {**{code: escaped[1:] for escaped, code in self._codes[1:]}, **_LINES, backslash[1]: b"\\"}
        self._back = [(re.compile(re.escape(code)), code.decode(), text.decode()) for code, text in back.items()]

    def readable(self, content: bytes) -> tuple[bytes, str]:
        """A block with a delimiter of one character, which no text has in it; and that character.

        Raises:
            BadRowError: The block has every character that could be the delimiter.
        """
        if not self._is_quoted and b"\\" in content:
            # In this order: what follows two backslashes is not escaped.
            for escaped, code in self._codes:
                content = content.replace(escaped, code)
        if len(self._delimiter) == 1:
            return content, self._delimiter.decode()
        separator = next((mark for mark in _SEPARATORS if mark.encode() not in content), None)
        if separator is None:
            raise BadRowError(1, "its texts have all control characters that could separate fields")
        return content.replace(self._delimiter, separator.encode()), separator

    def restored(self, texts: pa.Array, separator: str) -> pa.Array:
        """Texts as they were before `readable`: a whole array of `string`, not a slice."""
        content = texts.buffers()[-1] or b""
        if len(self._delimiter) > 1 and re.search(re.escape(separator.encode()), content):
            texts = pc.replace_substring(texts, separator, self._delimiter.decode())
        # A search in all texts together is much faster than a replacement in each, and most columns need none.
        if self._is_quoted or not _BACKSLASH.search(content):
            return texts
        for pattern, code, text in self._back:
            if pattern.search(content):
                texts = pc.replace_substring(texts, code, text)
        return texts
