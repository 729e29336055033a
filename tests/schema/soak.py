"""Random DDL against a real server for as long as one likes: `python -m tests.schema.soak --minutes 60`.
Not here: the sequences (`sequences.py`), the short run of the test suite (`test_differential.py`)."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pymysql

from tests.mysql_server import MysqlServer, start_server
from tests.schema.test_differential import QUICK, run_sequence


def main() -> int:
    """Runs sequences until the time is up, prints how many, and each difference with the seed that shows it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first sequence")
    options = parser.parse_args()
    soak = Soak(time.monotonic() + options.minutes * 60, options.seed)
    while soak.goes_on():
        with tempfile.TemporaryDirectory() as folder, start_server(Path(folder), *QUICK) as server:
            try:
                soak.run(server)
            except pymysql.OperationalError as error:
                # 9.7.4 dies of an ALTER of a MyISAM table that drops a foreign key and makes a unique key too long.
                soak.tell({"server": str(error)})
                soak.seed += 1
    print(soak)
    return 1 if soak.differences else 0


@dataclass
class Soak:
    """Sequences one after the other, and what came of them."""

    end: float
    """On the monotonic clock."""
    seed: int
    """Of the next sequence."""
    sequences: int = 0
    statements: int = 0
    versions: int = 0
    differences: int = 0

    def goes_on(self) -> bool:
        return time.monotonic() < self.end

    def run(self, server: MysqlServer) -> None:
        while self.goes_on():
            report = run_sequence(server, Random(self.seed))
            self.sequences += 1
            self.statements += report.statements
            self.versions += report.versions
            for statement, text in [*report.differences, *report.gaps.items()]:
                self.differences += 1
                self.tell({"statement": statement, "difference": text})
            self.seed += 1
            if self.sequences % 100 == 0:
                print(self)

    def tell(self, what: dict[str, str]) -> None:
        print(json.dumps({"seed": self.seed, **what}, ensure_ascii=False))

    def __str__(self) -> str:
        return (
            f"{self.sequences} sequences, {self.statements} statements, {self.versions} versions, "
            f"{self.differences} differences"
        )


if __name__ == "__main__":
    sys.exit(main())
