"""Writes `schema/model/charsets/characters.py`: where a real server reads characters otherwise than Python's codecs do.

Run it: `python -m tests.changes.record_charsets HOST PORT` against a server whose root has no password.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

from strata_cdc.changes.charset import characters_of, codec_table
from strata_cdc.schema.model.charsets import CHARSETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

TARGET = Path(__file__).parents[2] / "include" / "strata_cdc" / "schema" / "model" / "charsets" / "characters.py"
_UNICODE = {"utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32", "binary", "filename"}
_HEAD = '''"""Characters that MySQL 9.7 reads differently from Python's codecs, or for which Python has no codec.
Not here: codecs (`exact.py`), tables for kernels (`changes/charset.py`). Rewritten by
`python -m tests.changes.record_charsets`.

Entries are `PLACE-CODE*COUNT`; all but the count are hexadecimal. Consecutive positions have consecutive code points;
`x` means that they have none.
"""

from __future__ import annotations

EXCEPTIONS = {
'''


def server_table(cursor: pymysql.cursors.Cursor, charset: str) -> dict[int, int]:
    """The code point of each character that the server has, by its place in our tables."""
    found: dict[int, int] = {}
    characters = list(characters_of(charset))
    for begin in range(0, len(characters), 5000):
        some = characters[begin : begin + 5000]
        cursor.execute("TRUNCATE p")
        cursor.execute("INSERT INTO p VALUES " + ",".join(f"({place}, x'{data.hex()}')" for place, data in some))
        cursor.execute(
            f"SELECT place, HEX(CONVERT(CONVERT(data USING {charset}) USING utf32)) FROM p "
            f"WHERE HEX(CONVERT(data USING {charset})) = HEX(data)"
        )
        for place, text in cursor.fetchall():
            # What the server cannot express in Unicode it shows as a question mark.
            if text is not None and len(text) == 8 and (text != "0000003F" or place == 0x3F):
                found[place] = int(text, 16)
    return found


def runs(ours: np.ndarray, theirs: dict[int, int]) -> Iterator[str]:
    """The differences."""
    begin = code = count = 0
    for place in range(len(ours)):
        wanted = theirs.get(place, -1)
        if wanted == ours[place]:
            continue
        if count and place == begin + count and wanted == (code + count if code >= 0 else -1):
            count += 1
            continue
        if count:
            yield f"{begin:x}-{'x' if code < 0 else f'{code:x}'}*{count}"
        begin, code, count = place, wanted, 1
    if count:
        yield f"{begin:x}-{'x' if code < 0 else f'{code:x}'}*{count}"


def main() -> None:
    """Asks the server and writes the file."""
    connection = pymysql.connect(host=sys.argv[1], port=int(sys.argv[2]), user="root", charset="utf8mb4")
    lines = []
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS record_charsets")
        cursor.execute("CREATE TEMPORARY TABLE record_charsets.p (place INT PRIMARY KEY, data VARBINARY(4))")
        cursor.execute("USE record_charsets")
        for charset in sorted(set(CHARSETS) - _UNICODE):
            text = " ".join(runs(codec_table(charset), server_table(cursor, charset)))
            if text:
                lines.append(f'    "{charset}": """\n')
                line = "       "
                for word in text.split(" "):
                    if len(line) + 1 + len(word) > 118:
                        lines.append(line + "\n")
                        line = "       "
                    line += " " + word
                lines.append(line + '\n    """,\n')
        cursor.execute("DROP DATABASE record_charsets")
    TARGET.write_text(_HEAD + "".join(lines) + "}\n")


if __name__ == "__main__":
    main()
