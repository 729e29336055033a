"""`make demo FLAVOUR=ticdc`: histories of the model go through the folder of a changefeed and `strata decode`, and each
table is held against the model's. No server is needed.
Not here: the model (`cluster.py`), writing and reading one table (`through_folder.py`)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tests.model.sink import SinkRow, users_rows
from tests.model.through_folder import EXACT, LACKING, longest_histories, table_of, write_table
from tests.ticdc.generator import START, Feed, FeedForm

if TYPE_CHECKING:
    from tests.model.jobs import Kind
    from tests.model.sink import Values

HISTORIES = 8
"""Of each kind of DDL."""
_MISSING = re.compile(r"may be missing.*\(table shop\.([a-z_]+)_\d+,")


def main() -> int:
    """Prints a table; the exit code is 1 if a table differs without being named."""
    print(f"The model has two nodes that write while an owner changes the schema: {HISTORIES} histories of each DDL.")
    histories = {
        (kind, at): each for kind in (*EXACT, *LACKING) for at, each in enumerate(longest_histories(kind, HISTORIES))
    }
    with tempfile.TemporaryDirectory() as folder:
        feed = Feed(Path(folder), FeedForm(old_value=True))
        written = {name: write_table(feed, _called(*name), history) for name, history in histories.items()}
        feed.checkpoint(START + 1_000_000)
        command = [Path(sys.executable).with_name("strata"), "decode", folder, "--out", "-"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    changes = [json.loads(line) for line in done.stdout.splitlines()]
    rows: defaultdict[str, list[Values | None]] = defaultdict(list)
    for change in changes:
        rows[change["table"]].append(change["after"])
    equal: Counter[Kind] = Counter()
    for (kind, at), history in histories.items():
        own = [change for change in written[kind, at] if isinstance(change, SinkRow)]
        values = dict(zip((change.commit_ts for change in own), rows[_called(kind, at)], strict=True))
        equal[kind] += table_of(written[kind, at], values) == users_rows(history)
    named = Counter(_MISSING.findall(done.stderr))
    _show(equal, named, len(changes))
    is_right = all(equal[kind] == HISTORIES for kind in EXACT) and all(
        named[_word(kind)] == HISTORIES for kind in LACKING
    )
    return 0 if is_right else 1


def _word(kind: Kind) -> str:
    return kind.name.lower()


def _called(kind: Kind, at: int) -> str:
    return f"{_word(kind)}_{at}"


def _show(equal: Counter[Kind], named: Counter[str], changes: int) -> None:
    table = Table(title=f"{changes} changes read by strata decode from the folder of a changefeed")
    for heading in ("DDL", "tables that equal the model's", "named as perhaps lacking values"):
        table.add_column(heading)
    for kind in (*EXACT, *LACKING):
        table.add_row(kind.value, f"{equal[kind]} of {HISTORIES}", str(named[_word(kind)] or ""))
    Console(width=100).print(table)


if __name__ == "__main__":
    sys.exit(main())
