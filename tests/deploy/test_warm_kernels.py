"""What setup compiles is all that decoding needs: nothing is left to be compiled by a task."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.startup import warm_kernels

WARM = warm_kernels.BINLOG.parent


def test_warming_decodes_the_binlog_with_every_type():
    assert warm_kernels.main() == 0


@pytest.mark.mysql
def test_the_recorded_binlog_is_still_that_of_its_sql(server):
    server.run_sql((WARM / "every_type.sql").read_text())
    assert server.run_sql("SELECT count(*) FROM warm.every_type").split()[-1] == "1"
    recorded = warm_kernels.BINLOG.read_bytes()
    for name in re.findall(rb"CREATE TABLE (\w+)", Path(WARM, "every_type.sql").read_bytes()):
        assert name in recorded
