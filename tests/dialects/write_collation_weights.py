"""Writes `dialects/queries/collation_weights.json` from what real servers say of each character.

Run it as `.venv/bin/python -m tests.dialects.write_collation_weights`; `test_query_collations.py` compares the file's
order with a server's.
"""

from __future__ import annotations

import json
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

from strata_cdc.dialects.queries import collations
from tests.mariadb_server import PREFIXES, start_mariadb
from tests.mysql_server import start_server

MYSQL = {
    "utf8mb4_0900_ai_ci": "utf8mb4",
    "utf8mb4_general_ci": "utf8mb4",
    "utf8mb4_unicode_ci": "utf8mb4",
    "utf8mb4_unicode_520_ci": "utf8mb4",
    "latin1_swedish_ci": "latin1",
    "latin1_general_ci": "latin1",
    "ascii_general_ci": "ascii",
}
MARIADB = {"utf8mb4_uca1400_ai_ci": "utf8mb4"}
BLOCKS = (range(0x20, 0x7F), range(0xA0, 0x180), range(0x391, 0x3CA), range(0x400, 0x460))
CANDIDATES = [chr(code) for block in BLOCKS for code in block]
CANDIDATES += list("\u2010\u2013\u2014\u2018\u2019\u201c\u201d\u201e\u2022\u2026\u20ac\u2122")
LENGTHS = {"latin1_swedish_ci": 2, "latin1_general_ci": 2, "ascii_general_ci": 2}
"""Hexadecimal digits of the weight of a character with one weight; 4 for the others."""


def groups_of(cursor: Any, collation: str, charset: str) -> list[str]:
    """The characters with one weight each, in the collation's order; equal characters are one text."""
    weights = {}
    for character in CANDIDATES:
        cursor.execute(
            f"SELECT CONVERT(CONVERT(%s USING {charset}) USING utf8mb4), "
            f"HEX(WEIGHT_STRING(CONVERT(%s USING {charset}) COLLATE {collation}))",
            (character, character),
        )
        back, weight = cursor.fetchone()
        if back == character and weight is not None and len(weight) == LENGTHS.get(collation, 4):
            weights[character] = weight
    ordered = sorted(weights, key=lambda one: (weights[one], one))
    return ["".join(same) for _, same in groupby(ordered, weights.__getitem__)]


def main() -> None:
    """Asks one server of each family."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for start, wanted in (
            (start_server(Path(folder) / "mysql"), MYSQL),
            (start_mariadb(Path(folder) / "mariadb", next(iter(PREFIXES))), MARIADB),
        ):
            with start as server, server.connect() as connection, connection.cursor() as cursor:
                found |= {name: groups_of(cursor, name, charset) for name, charset in wanted.items()}
    collations.FILE.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
