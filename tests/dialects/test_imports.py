"""sqlglot takes a third of a second to load: only what asks for it pays."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = (
    "import strata.cli.main as main; main.build_app()",
    "import strata.jobs.ingest, strata.jobs.check.check_interval, strata.jobs.decode.decode_files, strata.cli.rows_out",
    "import strata.checks.run, strata.checks.own, strata.checks.own_file",
)


@pytest.mark.parametrize("statement", WITHOUT)
def test_what_does_not_load_sqlglot(statement: str) -> None:
    code = f"import sys; {statement}; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
