"""sqlglot takes a third of a second to load: only what asks for it pays."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = (
    "import strata_cdc.cli.main as main; main.build_app()",
    "import strata_cdc.pipeline.ingest, strata_cdc.quality.check_step.check_interval; "
    "import strata_cdc.pipeline.decode.decode_files, strata_cdc.cli.rows_out",
    "import strata_cdc.quality.checks.run, strata_cdc.quality.checks.own, strata_cdc.quality.checks.own_file",
)


@pytest.mark.parametrize("statement", WITHOUT)
def test_what_does_not_load_sqlglot(statement: str) -> None:
    code = f"import sys; {statement}; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
