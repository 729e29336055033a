"""Keys of texts: DuckDB orders and matches them as a real server does in each collation, or fails by name."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import duckdb
import pytest

from strata_cdc.dialects.queries.collations import CollationKey, collation_key, quoted
from tests.seeds import seeds

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

COLLATIONS = {
    "utf8mb4_0900_ai_ci": "utf8mb4",
    "utf8mb4_0900_as_ci": "utf8mb4",
    "utf8mb4_0900_bin": "utf8mb4",
    "utf8mb4_bin": "utf8mb4",
    "utf8mb4_general_ci": "utf8mb4",
    "utf8mb4_unicode_ci": "utf8mb4",
    "utf8mb4_unicode_520_ci": "utf8mb4",
    "utf8mb3_general_ci": "utf8mb3",
    "latin1_swedish_ci": "latin1",
    "latin1_general_ci": "latin1",
    "latin1_bin": "latin1",
    "ascii_general_ci": "ascii",
    "ascii_bin": "ascii",
}
PAIRS = 400


@pytest.mark.parametrize("seed", seeds())
@pytest.mark.parametrize("collation", COLLATIONS)
def test_texts_compare_as_on_the_server(server: MysqlServer, collation: str, seed: int) -> None:
    key = collation_key(collation)
    assert key is not None
    random = Random(seed)
    letters = key.characters or "".join(map(chr, range(0x20, 0x2FF)))
    pairs = [(text(random, letters), text(random, letters)) for _ in range(PAIRS)]
    pairs += [(one, one + " " * random.randrange(3)) for one, _ in pairs[:40]]
    pairs += [(one, one.swapcase()) for one, _ in pairs[:60] if key.known(one.swapcase())]
    charset = COLLATIONS[collation]
    with duckdb.connect() as ours, server.connect() as connection, connection.cursor() as cursor:
        prepare(ours, key)
        for left, right in pairs:
            cursor.execute(
                f"SELECT STRCMP(CONVERT(%s USING {charset}) COLLATE {collation}, "
                f"CONVERT(%s USING {charset}) COLLATE {collation})",
                (left, right),
            )
            (theirs,) = cursor.fetchone() or (None,)
            keys = f"{key.order_macro}({quoted(left)}, 'x')", f"{key.order_macro}({quoted(right)}, 'x')"
            (mine,) = ours.execute(f"SELECT ({keys[0]} > {keys[1]})::INT - ({keys[0]} < {keys[1]})::INT").fetchall()[0]
            assert (left, right, mine) == (left, right, theirs)
            equal = f"{key.macro}({quoted(left)}, 'x') = {key.macro}({quoted(right)}, 'x')"
            assert (left, right, ours.execute(f"SELECT {equal}").fetchall()) == (left, right, [(theirs == 0,)])


def prepare(connection: duckdb.DuckDBPyConnection, key: CollationKey) -> None:
    for name, function in key.functions().items():
        connection.create_function(name, function, ["VARCHAR", "VARCHAR"], "VARCHAR")
    for macro in key.macros():
        connection.execute(macro)


def text(random: Random, letters: str) -> str:
    """A short text, often of few letters."""
    few = random.choice([letters, "aAbB \u00e4\u00c4", "xX"])
    return "".join(one for one in random.choices(few, k=random.randrange(5)) if one in letters)


@pytest.mark.parametrize("collation", [name for name in COLLATIONS if name != "utf8mb4_bin"])
def test_a_text_that_is_not_known_fails(collation: str) -> None:
    key = collation_key(collation)
    assert key is not None
    if key.characters is None:
        return
    with duckdb.connect() as ours:
        prepare(ours, key)
        for unknown in ("\u4e2d", "\u00df\u4e2d", "a\u0301\u4e2d"):
            with pytest.raises(duckdb.Error, match=collation):
                ours.execute(f"SELECT {key.macro}({quoted(unknown)}, 'name')").fetchall()


def test_a_collation_that_is_not_known_has_no_key() -> None:
    assert collation_key("utf8mb4_ja_0900_as_cs") is None
