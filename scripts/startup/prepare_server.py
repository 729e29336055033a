"""Makes a data directory of MySQL without data, which the private server copies: `python -m
scripts.startup.prepare_server`.
Not here: the copy (`scripts/mysql.py`).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from scripts import mysql
from scripts.processes import FleetError


def main() -> int:
    """Makes it, unless it exists, and removes those of other programs; the exit code is 1 if mysqld could not."""
    try:
        target = mysql.prepared_data()
        mysql.initialize(target)
    except FleetError as error:
        print(error, file=sys.stderr)
        return 1
    for other in Path(sys.prefix).glob("strata.mysqld-*"):
        if other != target:
            shutil.rmtree(other)
    return 0


if __name__ == "__main__":
    sys.exit(main())
