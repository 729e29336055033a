"""Whoever runs Strata says with the umask who may read what it writes."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.main import run
from strata_cdc.files.storage import write_file
from strata_cdc.landing.land_files import land_files
from strata_cdc.store.database import open_store
from tests.binlog.binlogs import SERVER, Binlog

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("umask", [0o077, 0o027, 0o022, 0o002])
def test_all_files_obey_the_umask(tmp_path: Path, umask: int):
    binlog = Binlog()
    binlog.previous()
    binlog.gtid(1)
    binlog.query("CREATE TABLE d.t (a INT)")
    binlog.insert(2, [1])
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "binlog.000001").write_bytes(binlog.data)
    made = tmp_path / "made"
    before = os.umask(umask)
    try:
        made.mkdir()
        assert land_files(str(archive), lake=str(made / "lake"), source="s").executed == f"{SERVER}:1-2"
        engine = open_store(f"sqlite:///{made}/store.db")
        store = f"sqlite:///{made}/store.db"
        segment = next((made / "lake" / "landing" / "s").glob("*.binlog"))
        assert run(["track", str(segment), "--source", "s", "--store", store]) == 0
        parquet = ["--format", "parquet", "--out", str(made / "rows"), "--source", "s", "--store", store]
        assert run(["decode", str(segment), *parquet]) == 0
        write_file(str(made / "runs" / "plan.json"), b"{}")
        engine.dispose()
    finally:
        os.umask(before)
    files = [path for path in made.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".binlog", ".parquet", ".json", ".db", ""}
    for path in files:
        # SQLite's own default gives others no right to write.
        least = 0o644 if ".db" in path.name else 0o666
        assert stat.S_IMODE(path.stat().st_mode) == least & ~umask, path
    for path in made.rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & umask, path
