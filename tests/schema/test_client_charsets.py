"""Statements of clients in charsets of which Python has other characters, and labels and defaults in such charsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.changes.charset import characters_of, plain_table
from strata_cdc.schema.model.charsets import CHARSETS, decode_statement, decode_text
from strata_cdc.schema.model.charsets.characters import EXCEPTIONS
from strata_cdc.schema.replay.catalog import Catalog
from tests.schema.differential import compare, run_and_record

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

TEXTS = {
    "sjis": "ソ~表",
    "cp932": "①～髙",  # noqa: RUF001
    "ujis": "日~本",
    "eucjpms": "～－￠①",  # noqa: RUF001
    "big5": "功許蓋",
    "gbk": "縗誠",
    "gb18030": "縗ḿ😀",
    "euckr": "한글",
    "latin1": "é\x81",
    "cp866": "я²ⁿ",
    "greek": "λʽ",
    "hebrew": "א‾",
    "tis620": "กข",
    "keybcs2": "éč",
    "armscii8": "աբ",
}
"""By charset, characters that have their own code there, a backslash as a second byte, or another code in Python."""
FORMS = (
    r"CREATE TABLE `t%s` (a INT COMMENT '%s\'\\~', `c%s` ENUM('%s', 'x\\~%s', '~') DEFAULT 'x\\~%s') COMMENT '\n%s'",
    r"CREATE TABLE l (a ENUM('%s', '~', '\\', 'x%s') CHARSET {0} DEFAULT 'x%s', b SET('%s', 'c') CHARACTER SET {0})",
    r"CREATE TABLE d (a VARCHAR(30) CHARACTER SET {0} DEFAULT '%s', b CHAR(9) CHARACTER SET {0} DEFAULT '~\\%s')",
    r"ALTER TABLE l MODIFY a ENUM('x%s', '\\', '~', '%s') CHARACTER SET utf8mb4, ADD `%s` INT FIRST",
)
NOT_REVERSED = {("cp932", "\u6661")}
"""For which the server writes the code of another character."""


def _codec(charset: str) -> str:
    codec = CHARSETS[charset].codec
    assert codec is not None
    return codec


@pytest.mark.parametrize("charset", sorted(EXCEPTIONS))
def test_bytes_are_the_characters_that_cells_have(charset: str):
    table = plain_table(charset)
    for place, data in characters_of(charset):
        text = decode_text(data, charset)
        assert text == chr(table[place]) if table[place] >= 0 else len(text) > 1 or text == "\ufffd"


@pytest.mark.mysql
def test_characters_are_written_as_the_server_writes_them(mysql_server: MysqlServer):
    characters = [chr(code) for code in range(1, 0xFFFD) if not 0xD800 <= code < 0xE000]
    with mysql_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE mysql.u (c VARCHAR(1) COLLATE utf8mb4_0900_bin PRIMARY KEY)")
        cursor.execute("INSERT INTO mysql.u VALUES " + ",".join(f"(x'{one.encode().hex()}')" for one in characters))
        for charset in sorted(EXCEPTIONS):
            codec = _codec(charset)
            cursor.execute(f"SELECT c, HEX(CONVERT(c USING {charset})) FROM mysql.u")
            written = {text: bytes.fromhex(data) for text, data in cursor.fetchall()}
            assert len(written) == len(characters)
            wrong = [
                (text, data, text.encode(codec, errors="replace"))
                for text, data in written.items()
                if text.encode(codec, errors="replace").decode(codec) != data.decode(codec, errors="replace")
            ]
            assert (charset, [entry for entry in wrong if (charset, entry[0]) not in NOT_REVERSED]) == (charset, [])


@pytest.mark.mysql
@pytest.mark.parametrize("client", ["its own", "utf8mb4"])
def test_statements_are_read_as_the_server_reads_them(mysql_server: MysqlServer, client: str):
    observer, found = mysql_server.connect(), []
    for charset, text in TEXTS.items():
        with observer.cursor() as cursor:
            cursor.execute("DROP DATABASE IF EXISTS sent")
            cursor.execute("RESET BINARY LOGS AND GTIDS")
        connection = mysql_server.connect()
        sent = charset if client == "its own" else "utf8mb4"
        forms = [form.replace("%s", text).format(charset) for form in FORMS]
        raw = [b"".join(one.encode("ascii" if one.isascii() else _codec(sent)) for one in form) for form in forms]
        refused: list[str] = []
        statements = ["CREATE DATABASE sent", "USE sent", f"SET NAMES {sent}, sql_mode = ''", *raw]
        recorded = list(run_and_record(connection, observer, statements, refused.append))
        connection.close()
        report = compare(Catalog(), mysql_server.binlog_dir / recorded[-1].file, recorded)
        found += [(charset, text) for _, text in report.differences if text.startswith("sent.")]
        found += [(charset, gap) for gap in report.gaps.values()]
        found += [(charset, statement) for statement in refused]
    observer.close()
    assert found == []


@pytest.mark.parametrize(("charset", "raw"), [("sjis", b"\x81\x5f"), ("ujis", b"\xa1\xc0")])
def test_a_backslash_of_two_bytes_escapes_nothing(charset: str, raw: bytes):
    assert decode_text(raw + b"'\\", charset) == "\\'\\"
    assert decode_statement(raw + b"'\\", charset) == "\ufffd'\\"
