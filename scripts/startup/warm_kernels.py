"""Decodes a binlog with every type: proof that the linked kernels work; without them, the compiler's cache is filled.
Not here: the kernels (`strata_cdc.binlog.kernels`), linking them (`link_kernels.py`), the binlog (`warm/`)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from strata_cdc.cli.main import run

BINLOG = Path(__file__).with_name("warm") / "every_type.binlog"


def main() -> int:
    """Decodes a binlog with every type, as tables and as text."""
    with tempfile.TemporaryDirectory() as folder:
        for form in ("parquet", "jsonl"):
            out = str(Path(folder, form))
            code = run(["decode", str(BINLOG), "--format", form, "--out", out, "--json"])
            if code != 0:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
