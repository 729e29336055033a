"""Every charset: each of its characters is the one that the server makes of it."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
import pytest

from strata_cdc.changes.charset import UTF8, characters_of, characters_of_many_forms, charset_table, plain_table
from strata_cdc.changes.port import ChangeBatch, QuarantinedRows, Watermark
from strata_cdc.errors import UndecodableTextError
from strata_cdc.schema.model.charsets import CHARSETS, MANY_TO_ONE
from strata_cdc.schema.model.definition import TableName
from tests.changes.live import Live, changes, steps

pytestmark = pytest.mark.mysql

WIDE = {"ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}
UNICODE = [chr(code) for code in range(1, 0xD800, 37)] + [chr(code) for code in range(0xE000, 0xFFFE, 101)]
BEYOND = [chr(code) for code in range(0x10000, 0x110000, 4099)]
NAMES = sorted(set(CHARSETS) - {"binary", "filename"})


def _characters(name: str) -> list[bytes]:
    if name in WIDE:
        return [text.encode(WIDE[name]) for text in UNICODE + (BEYOND if name != "ucs2" else [])]
    if name in UTF8:
        return [text.encode() for text in UNICODE + (BEYOND if name == "utf8mb4" else [])]
    _, table = charset_table(name)
    return [data for place, data in characters_of(name) if table[place] >= 0]


@pytest.mark.parametrize("name", NAMES)
def test_characters_are_those_of_the_server(mysql_server, name):
    live = Live(mysql_server)
    characters = _characters(name)
    assert len(characters) >= 100
    with live.recorded() as files:
        live.run(
            f"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT CHARACTER SET {name}, w VARCHAR(9) "
            f"CHARACTER SET {name}, x CHAR(70) CHARACTER SET {name})"
        )
        for begin in range(0, len(characters), 500):
            data = b"".join(characters[begin : begin + 500])
            live.run(f"INSERT INTO t (v, w, x) VALUES (_{name} x'{data.hex()}', 'abc', '')")
    definition = live.definition("t")
    found = changes(files[0], {TableName(live.database, "t"): definition})
    assert [change["after"] for change in found] == live.truth("t", definition)


def test_rows_with_text_that_is_none_are_set_aside(mysql_server):
    live = Live(mysql_server)
    with live.recorded() as files:
        live.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET sjis)")
        # 0x81AD is formed like a character, and none.
        live.run("INSERT INTO t VALUES (1, 'ok'), (2, _sjis x'6181ad62'), (3, NULL)")
        live.run("UPDATE t SET v = 'mended' WHERE id = 2")
    definition = live.definition("t")
    found = [
        step for step in steps(files[0], {TableName(live.database, "t"): definition}) if not isinstance(step, Watermark)
    ]
    batches = [step for step in found if isinstance(step, ChangeBatch)]
    aside = [step for step in found if isinstance(step, QuarantinedRows)]
    assert [row["id"] for step in batches for row in step.batch.to_pylist()] == [1, 3]
    rows = [row for step in aside for row in step.rows.to_pylist()]
    verbatim = b64encode(b"a\x81\xadb").decode()
    assert [(row["id"], row["v"], row["_invalid"]) for row in rows] == [
        (2, None, [("v", verbatim)]),
        (2, "mended", [("_before.v", verbatim)]),
    ]
    assert rows[1]["_before"] == {"id": 2, "v": None}
    error = aside[0].error
    assert isinstance(error, UndecodableTextError)
    assert (error.table, error.gtid, error.offset) == (f"{live.database}.t", rows[0]["_gtid"], rows[0]["_binlog_pos"])


def forms(name: str) -> dict[str, list[bytes]]:
    """All byte sequences of each character of a charset."""
    table, found = plain_table(name), {}
    for place, data in characters_of(name):
        if table[place] >= 0:
            found.setdefault(chr(table[place]), []).append(data)
    return found


@pytest.mark.parametrize("name", sorted(set(NAMES) - UTF8 - set(WIDE)))
def test_forms_of_a_character_that_the_server_tells_apart_are_told_apart(mysql_server, name):
    live = Live(mysql_server)
    several = {character: data for character, data in forms(name).items() if len(data) > 1}
    assert bool(several) == (name in MANY_TO_ONE)
    assert "".join(sorted(several)) == characters_of_many_forms(name)
    live.run(f"CREATE TABLE t (v VARCHAR(2) CHARACTER SET {name} COLLATE {name}_bin PRIMARY KEY)")
    with live.recorded() as files:
        for data in several.values():
            live.run("INSERT INTO t VALUES " + ", ".join(f"(_{name} x'{one.hex()}')" for one in data))
    assert live.run("SELECT COUNT(*) FROM t") == [(sum(map(len, several.values())),)]
    definition = live.definition("t")
    found = [
        (row["v"], dict(row["_invalid"] or ()).get("v"))
        for step in steps(files[0], {TableName(live.database, "t"): definition})
        if isinstance(step, ChangeBatch)
        for row in step.batch.to_pylist()
    ]
    assert len(set(found)) == len(found) == sum(map(len, several.values()))
    assert sum(form is None for _, form in found) == len(several)
    for character, data in several.items():
        shown = {form for text, form in found if text == character} - {None}
        assert shown < {f"0x{one.hex().upper()}" for one in data}


def test_the_usual_form_is_the_one_that_clients_send(mysql_server):
    """Of NEC's copies, which nobody writes, there are texts; of what Windows and the server write there are none."""
    live = Live(mysql_server)
    table = charset_table("cp932")[1]
    places = {data: place for place, data in characters_of("cp932")}
    characters = characters_of_many_forms("cp932")
    assert len(characters) > 300
    shown = live.run("SELECT " + ", ".join(f"CAST(CONVERT('{one}' USING cp932) AS BINARY)" for one in characters))
    assert [table[places[data]] for data in shown[0]] == [ord(character) for character in characters]


def test_tables_hold_code_points():
    for name in set(NAMES) - UTF8 - set(WIDE):
        assert plain_table(name).dtype == np.int32
        assert plain_table(name).max() <= 0x10FFFF
