"""A lake that is lost of a server without GTIDs: it comes again by file and offset under the ordinals that the store
knows, and what proves nothing is refused."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from strata_cdc.cli.main import run
from strata_cdc.files.storage import Folder
from strata_cdc.lake.known_lake import FILE
from strata_cdc.landing import recorder
from strata_cdc.store.lakes import LakeLedger
from tests.cli.lakes import assert_complete, held_rows, history, lake, lose, published, write
from tests.interposed import interposed

__all__ = ["lake"]

pytestmark = pytest.mark.mysql

SERVER_OPTIONS = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
HISTORIES = int(os.environ.get("STRATA_HISTORIES", "1"))


class Killed(BaseException):
    """As the end of the process."""


def run_killed(words: list[str], chance: random.Random) -> int | None:
    """Runs a command that dies before one of its writes to lake and store; None if it was killed, else its exit
    code."""
    left = chance.randint(0, 2)

    def dying(write, *given, **named):
        nonlocal left
        left -= not isinstance(given[0], Folder) or given[1] == FILE
        if left < 0:
            raise Killed
        return write(*given, **named)

    writes = ((recorder, "publish_file"), (Folder, "write"), (LakeLedger, "replace"), (LakeLedger, "note_written"))
    with interposed(dying, *writes):
        try:
            return run(words)
        except Killed:
            return None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that the dead had open
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_it_comes_again_whatever_is_killed(server, lake, capsys, seed):
    """All of it, or an older copy completed; a server with all of its files, or that has purged some."""
    chance = random.Random(seed)
    copy_at, runs = chance.randrange(-2, 2), chance.randint(2, 3)
    for number in range(runs):
        write(server, chance)
        server.run_sql(f"ALTER TABLE shop.b ADD COLUMN c{number} INT")
        assert run(["run"]) == 0
        if number == copy_at:
            shutil.copytree(lake, "copy")
    before, versions = published(lake), history()
    lose(lake)
    if copy_at >= 0:
        Path("copy").rename(lake)
    elif chance.random() < 0.5:
        server.run_sql(f"PURGE BINARY LOGS TO '{chance.choice(server.binlogs()).name}'")
    assert run(["run"]) == (3 if copy_at < runs - 1 else 0)
    capsys.readouterr()
    while run_killed(["lake", "rebuild"], chance) is None:
        pass
    assert run(["run"]) == 0
    after, held = published(lake), held_rows(capsys)
    gone = {table: (before[table] - after[table]).total() for table in before}
    assert {table: held.get(table, 0) for table in gone} == gone, "each row is there or declared"
    assert history() == versions, "no version and no gap that was not there"
    write(server, chance)
    assert run(["run"]) == 0
    if not any(gone.values()):
        assert_complete(server, lake)
    assert run(["lake", "show"]) == 0


def test_another_history_is_refused(server, lake, capsys):
    """Files of the same names with other transactions, and as many."""
    write(server, random.Random(1))
    assert run(["run"]) == 0
    lose(lake)
    server.run_sql("DROP DATABASE shop; RESET BINARY LOGS AND GTIDS")
    server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.a (id INT PRIMARY KEY AUTO_INCREMENT, label VARCHAR(20))")
    server.run_sql("CREATE TABLE shop.b (id INT)")
    write(server, random.Random(1))
    assert run(["lake", "rebuild"]) == 3
    assert "other transactions than the store knows" in " ".join(capsys.readouterr().err.split())
    assert run(["run"]) == 3
