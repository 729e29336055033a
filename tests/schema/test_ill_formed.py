"""Statements of clients whose bytes are no text in the charset that they name: the server takes most of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.schema.ddl.ill_formed import as_one_looks_at, as_the_server_reads, decode_utf8mb4, has_kept_bytes
from strata_cdc.schema.replay.catalog import Catalog
from tests.schema.differential import compare, run_and_record

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

PARTS = (
    b"a\xe2\x82b",
    b"a\xe2\x82",
    b"a\xe4b",
    b"x\xf0yzz",
    b"\xa3\xd4\xa3\xb3",
    b"\xed\xa0\x80y",
    b"a\xc0\x80d",
    b"\xf8",
)
"""ISO 8859-1, EUC-JP and what looks like UTF-8: cut, too long, surrogates."""

FORMS = (
    b"CREATE TABLE `t%s` (a INT)",
    b"CREATE TABLE t (`c%s` INT, b INT AS (1) /* %s */, KEY `k%s` (`c%s`)) COMMENT '%s'",
    b"CREATE TABLE t (a INT COMMENT '%s', b INT COMMENT 'c%sd')",
    b"CREATE TABLE t (a ENUM('%s', 'x'), b SET('x', '%s') CHARACTER SET latin1)",
    b"CREATE TABLE t (a VARCHAR(20) CHARACTER SET latin1 DEFAULT '%s', b VARCHAR(20) DEFAULT '%s')",
)


@pytest.mark.mysql
@pytest.mark.parametrize("charset", ["utf8mb4", "ascii"])
def test_names_and_comments_are_what_the_server_made_of_them(mysql_server: MysqlServer, charset: str):
    observer = mysql_server.connect()
    found, taken = [], 0
    for part in PARTS:
        for form in FORMS:
            with observer.cursor() as cursor:
                cursor.execute("DROP DATABASE IF EXISTS ill")
                cursor.execute("RESET BINARY LOGS AND GTIDS")
            connection = mysql_server.connect()
            statements = ["CREATE DATABASE ill", "USE ill", f"SET NAMES {charset}", form.replace(b"%s", part)]
            recorded = list(run_and_record(connection, observer, statements))
            connection.close()
            taken += len(recorded) - 1
            report = compare(Catalog(), mysql_server.binlog_dir / recorded[-1].file, recorded)
            # Others use the server, too.
            found += [text for _, text in report.differences if text.startswith("ill.")]
            found += [gap for gap in report.gaps.values() if "a label is not text" not in gap]
    observer.close()
    assert found == []
    assert taken >= len(PARTS) * 3


@given(st.binary())
def test_kept_bytes_are_in_no_text(raw: bytes):
    text = decode_utf8mb4(raw)
    assert not has_kept_bytes(as_the_server_reads(text))
    assert not has_kept_bytes(as_one_looks_at(text))
    text.encode()


@given(st.text().filter(lambda text: "\ufffe" not in text))
def test_text_is_as_it_was(text: str):
    assert as_the_server_reads(decode_utf8mb4(text.encode())) == text


def test_a_noncharacter_between_ill_formed_bytes_is_not_taken_for_one_of_them():
    assert decode_utf8mb4("\ufffe€".encode() + b"\xff") == "\ufffd€\ufffd"
