"""Rows of a drawn workload: what is decoded is what MariaDB's own program prints (`mariadb-binlog -vv`), and what a
SELECT gives. Not here: every type (`test_mariadb_rows.py`): the program prints bytes and labels ambiguously."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from strata_cdc.schema.model.definition import TableName
from tests.changes.live import Live, changes, replayed
from tests.mariadb_server import PREFIXES, start_mariadb
from tests.seeds import seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.mariadb_server import MariadbServer

pytestmark = pytest.mark.mysql

SEQUENCES = 8
STATEMENTS = 12
ALPHABET = "abc ü😀 09,;()"
"""Without what the program prints as it is although it ends or begins something else: quotes, backslashes."""
VERBS = {"INSERT INTO": "insert", "UPDATE": "update", "DELETE FROM": "delete"}


class Kind(NamedTuple):
    """A type, values of it as SQL, and what is printed of a decoded value, in a form that can be compared."""

    column_type: str
    value: Callable[[Random], str]
    of_decoded: Callable[[Any], Any]
    of_printed: Callable[[str], Any]


def _integer(name: str, bits: int, *, unsigned: bool) -> Kind:
    low = 0 if unsigned else -(1 << bits - 1)
    mask = (1 << bits) - 1
    return Kind(
        f"{name} {'UNSIGNED' if unsigned else ''}",
        lambda random: str(random.choice([low, low + mask, random.randint(low, low + mask)])),
        lambda value: value & mask,
        lambda text: int(text.partition(" ")[0]) & mask,
    )


def _unquoted(text: str) -> str:
    assert text[0] == text[-1] == "'"
    return re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), text[1:-1])


def _printed_date(text: str) -> str:
    return _unquoted(text).replace(":", "-")


def _quoted(value: str) -> str:
    return f"'{value}'"


def _clock(random: Random) -> str:
    minute, second = random.randint(0, 59), random.randint(0, 59)
    return f"{random.randint(0, 23):02}:{minute:02}:{second:02}.{random.randint(0, 999999):06}"


def _moment(random: Random) -> str:
    day = f"{random.randint(1971, 2037)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    return f"'{day} {_clock(random)}'"


def _seconds(text: str) -> Decimal:
    whole, _, fraction = text.partition(".")
    return int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp()) + Decimal(f"0.{fraction or 0}")


def _text(random: Random, longest: int) -> str:
    return _quoted("".join(random.choices(ALPHABET, k=random.randint(0, longest))))


_SAME: Callable[[Any], Any] = lambda value: value  # noqa: E731
KINDS = [
    *(_integer(name, bits, unsigned=unsigned) for unsigned in (False, True) for name, bits in
      (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))),
    Kind("DECIMAL(20,6)", lambda random: f"{random.uniform(-1e9, 1e9):.6f}", str, _SAME),
    Kind("DOUBLE", lambda random: repr(random.uniform(-1e9, 1e9)), float, float),
    Kind("FLOAT", lambda random: repr(random.uniform(-1e5, 1e5)), np.float32, np.float32),
    *(Kind(name, lambda random: _text(random, 20), _SAME, _unquoted) for name in ("CHAR(20)", "VARCHAR(20)")),
    *(Kind(name, lambda random: _text(random, 400), _SAME, _unquoted) for name in ("VARCHAR(500)", "TEXT", "LONGTEXT")),
    Kind("DATE", lambda random: f"'{random.randint(1000, 9999)}-02-03'", _SAME, _printed_date),
    *(Kind(f"DATETIME({fsp})", _moment, _SAME, _unquoted) for fsp in range(7)),
    *(Kind(f"TIMESTAMP({fsp}) NULL", _moment, _seconds, Decimal) for fsp in range(7)),
    *(Kind(f"TIME({fsp})", lambda random: _quoted(_clock(random)), _SAME, _unquoted) for fsp in range(7)),
    Kind("YEAR", lambda random: str(random.randint(1901, 2155)), int, int),
    Kind("ENUM('a','b','c')", lambda random: str(random.randint(1, 3)), lambda label: "abc".index(label) + 1, int),
    Kind("BIT(13)", lambda random: str(random.getrandbits(13)), int, lambda text: int(text[2:-1], 2)),
]  # fmt: skip


@pytest.fixture(scope="module", params=PREFIXES)
def mariadb(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    folder = tmp_path_factory.mktemp("mariadb")
    options = ("--character-set-server=utf8mb4", "--binlog-row-metadata=FULL")
    with start_mariadb(folder, request.param, *options) as server:
        assert server.has_program("mysqlbinlog"), "`make setup` fetches mariadb-binlog"
        yield server


def printed(server: MariadbServer, path: Path) -> list[dict[str, Any]]:
    """The changes of a file as the program prints them: images with texts by the number of their column."""
    command = [server.program("mysqlbinlog"), "--no-defaults", "-vv", "--base64-output=DECODE-ROWS", str(path)]
    done = subprocess.run(command, capture_output=True, check=True)
    found: list[dict[str, Any]] = []
    for line in done.stdout.decode().split("\n"):
        if start := re.match(r"### (INSERT INTO|UPDATE|DELETE FROM) `\w+`\.`(\w+)`", line):
            found.append({"op": VERBS[start[1]], "table": start[2], "before": None, "after": None})
        elif line in {"### WHERE", "### SET"}:
            image = found[-1]["before" if line == "### WHERE" else "after"] = {}
        elif value := re.match(r"###   @(\d+)=(.*?) +/\* .* is_null=(\d) \*/$", line):
            image[int(value[1])] = None if value[3] == "1" else value[2]
    return found


class Workload:
    """A table of random columns, and statements on it."""

    def __init__(self, random: Random, live: Live) -> None:
        self.random, self.live = random, live
        self.kinds = random.choices(KINDS, k=random.randint(1, 12))
        columns = ", ".join(f"c{at} {kind.column_type}" for at, kind in enumerate(self.kinds))
        live.run("DROP TABLE IF EXISTS t")
        live.run(f"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, {columns})")

    def run(self) -> None:
        """Runs some statements, each as the session is set then."""
        for _ in range(STATEMENTS):
            self.live.run(f"SET GLOBAL log_bin_compress = {self.random.choice(['ON', 'OFF'])}")
            self.live.run(self._statement())

    def _statement(self) -> str:
        random = self.random
        match random.choice(["insert", "insert", "update", "update", "delete"]):
            case "insert":
                names = ", ".join(f"c{at}" for at in range(len(self.kinds)))
                rows = [", ".join(map(self._value, self.kinds)) for _ in range(random.randint(1, 6))]
                return f"INSERT INTO t ({names}) VALUES {', '.join(f'({row})' for row in rows)}"
            case "update":
                at = random.randrange(len(self.kinds))
                return f"UPDATE t SET c{at} = {self._value(self.kinds[at])} WHERE id % 3 = {random.randint(0, 2)}"
            case _:
                return f"DELETE FROM t WHERE id % 7 = {random.randint(0, 6)}"

    def _value(self, kind: Kind) -> str:
        return "NULL" if self.random.random() < 0.15 else kind.value(self.random)

    def comparable_printed(self, image: dict[int, str | None] | None) -> dict[str, Any] | None:
        """An image that the program printed."""
        if image is None:
            return None
        return {self._name(at): None if text is None else self._kind(at).of_printed(text) for at, text in image.items()}

    def comparable_decoded(self, image: dict[str, Any] | None) -> dict[str, Any] | None:
        """A decoded image."""
        if image is None:
            return None
        numbers = {self._name(at): at for at in range(1, len(self.kinds) + 2)}
        return {
            name: None if value is None else self._kind(numbers[name]).of_decoded(value)
            for name, value in image.items()
        }

    def _name(self, at: int) -> str:
        return "id" if at == 1 else f"c{at - 2}"

    def _kind(self, at: int) -> Kind:
        return _integer("INT", 32, unsigned=False) if at == 1 else self.kinds[at - 2]


@pytest.mark.parametrize("seed", seeds(SEQUENCES))
def test_the_program_prints_what_is_decoded(mariadb: MariadbServer, seed: int):
    random, live = Random(seed), Live(mariadb)
    images = ["FULL", "MINIMAL", "NOBLOB", *(["FULL_NODUP"] if mariadb.version == "11.8" else [])]
    image = images[seed % len(images)]
    live.run(f"SET binlog_row_image = '{image}'")
    workload = Workload(random, live)
    with live.recorded() as files:
        workload.run()
    definition = live.definition("t")
    found = changes(files[0], {TableName(live.database, "t"): definition})
    shown = printed(mariadb, files[0])
    assert len(shown) > STATEMENTS // 2
    assert [(change["op"], change["table"]) for change in shown] == [(one["op"], one["table"]) for one in found]
    for theirs, ours in zip(shown, found, strict=True):
        for side in ("before", "after"):
            assert workload.comparable_printed(theirs[side]) == workload.comparable_decoded(ours[side])
    assert json.loads(json.dumps(replayed(found))) == live.truth("t", definition)
