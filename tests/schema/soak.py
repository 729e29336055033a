"""Random DDL against a real server for as long as one likes: `python -m tests.schema.soak --minutes 60`.
Not here: the sequences (`sequences.py`), the short run of the test suite (`test_differential.py`)."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.mysql_server import start_server
from tests.schema.test_differential import QUICK, run_sequence


def main() -> int:
    """Runs sequences until the time is up, prints how many, and each difference with the seed that shows it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first sequence")
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    sequences = statements = versions = differences = 0
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder), *QUICK) as server:
        while time.monotonic() < end:
            seed = options.seed + sequences
            report = run_sequence(server, Random(seed))
            sequences += 1
            statements += report.statements
            versions += report.versions
            for statement, text in [*report.differences, *report.gaps.items()]:
                differences += 1
                print(json.dumps({"seed": seed, "statement": statement, "difference": text}, ensure_ascii=False))
            if sequences % 100 == 0:
                print(f"{sequences} sequences, {statements} statements, {versions} versions, {differences} differences")
    print(f"{sequences} sequences, {statements} statements, {versions} versions, {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
