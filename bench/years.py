"""What years of history cost a run that has nothing to do, `strata status`, `strata schema`, pages and metrics: each
step's first call in a process, with 100,000 closed intervals, 20,000 segments, 10,000 tables and 200,000 versions, and
with a hundred, twenty, ten and two hundred.

Run it: `python -m bench years [FOLDER] [STORE_URL]`; a folder is kept with what was filled, and used again. A store's
URL (a MySQL server's; two databases are made there) takes the place of SQLite.
"""

# ruff: noqa: PLC0415  the large history is measured in a process that has imported what a step imports
from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.history_world import LARGE, SMALL, Sizes, executed, fill, settings_of
from tests.mysql_server import start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.config.settings import Settings
    from tests.mysql_server import MysqlServer

ROUNDS = 1
_TOKEN = "0123456789abcdef"
_PAGES = (
    "/api/sources",
    "/api/schema?source=shop&database=d&table=t7",
    "/api/history?source=shop&database=d&table=t7",
    "/verdicts?source=shop",
    "/",
    "/tables?source=shop",
    "/table?source=shop&database=d&table=t7",
)


def steps(settings: Settings) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The steps of an empty run as tasks of Airflow have them, and what people and monitoring ask for."""
    from strata_cdc.clock import now_micros
    from strata_cdc.lake.lost_tables import lost_tables_if_due
    from strata_cdc.ops.metrics import read_metrics
    from strata_cdc.pipeline import ingest
    from strata_cdc.pipeline.keep_changes import keep_changes
    from strata_cdc.pipeline.keep_mirrors import compact_due
    from strata_cdc.pipeline.plan.pending import WorkChoice
    from strata_cdc.progress.status import source_status
    from strata_cdc.store.database import open_store

    source = settings.source("shop")
    now = now_micros()

    yield "land", lambda: ingest.land("shop", settings=settings)
    yield "track", lambda: ingest.track("shop", settings=settings)
    yield "plan", lambda: ingest.plan("shop", None, None, settings=settings, choice=WorkChoice.PENDING)
    yield "mirror", lambda: ingest.mirror("shop", settings=settings)
    yield "keep mirrors", lambda: compact_due("shop", settings=settings)
    yield "keep changes", lambda: keep_changes("shop", settings=settings)
    yield "housekeep", lambda: ingest.housekeep("shop", settings=settings)
    yield "lost tables", lambda: lost_tables_if_due(source, open_store(source.store_url))
    yield "status", lambda: source_status(source, open_store(source.store_url), now=now)
    yield "metrics", lambda: read_metrics("shop", settings=settings, now=now)
    yield from _answers(settings)


def _answers(settings: Settings) -> Iterator[tuple[str, Callable[[], Any]]]:
    from fastapi.testclient import TestClient

    from strata_cdc.clock import now_micros
    from strata_cdc.schema.history.historian import History
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.stream_positions import AtSeq
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.serve.app import make_app
    from strata_cdc.serve.around import PageHost
    from strata_cdc.serve.sources import Sources
    from strata_cdc.serve.token_guard import token_guard
    from strata_cdc.store.database import open_store

    def one_table() -> Any:
        store = SchemaStore(open_store(settings.source("shop").store_url))
        position = store.position("shop")
        return History(store, "shop").at(TableName("d", "t7"), AtSeq(position.seq if position else 0))

    yield "schema of a table", one_table
    app = make_app(Sources(lambda: settings), token_guard(_TOKEN), now_micros, PageHost(None))
    client = TestClient(app, headers={"Authorization": f"Bearer {_TOKEN}"})
    for path in _PAGES:

        def ask(path: str = path) -> Any:
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.text[:500])
            return answer

        yield path.partition("?")[0], ask


def measure(folder: Path, server: str, store: str | None) -> dict[str, list[float]]:
    """CPU and clock seconds of each step, called once."""
    found = {}
    for name, step in steps(settings_of(folder, server=server, store=store)):
        begin, used = time.perf_counter(), time.process_time()
        step()
        found[name] = [time.process_time() - used, time.perf_counter() - begin]
    return found


def main(arguments: list[str]) -> None:
    """Prints a line for each step."""
    if arguments[:1] == ["--measure"]:
        # What the first imports and compiles is start-up.
        *_, found = [measure(Path(folder), server, store or None) for folder, server, store in _threes(arguments[1:])]
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory(prefix="strata-years-") as temporary:
        folder = Path(arguments[0]) if arguments else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as servers:
            worlds = [
                _world(folder / name, sizes, servers.enter_context(start_server(Path(temporary) / name)), arguments[1:])
                for name, sizes in (("small", SMALL), ("large", LARGE))
            ]
            _report(*worlds)


def _threes(words: list[str]) -> list[tuple[str, str, str]]:
    return list(zip(words[::3], words[1::3], words[2::3], strict=True))


def _world(folder: Path, sizes: Sizes, server: MysqlServer, stores: list[str]) -> list[str]:
    """Folder, server and store of a history; the server has executed what is in it, and nothing else."""
    server.run_sql(f"RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '{executed(sizes)}'")
    store = f"{stores[0].rstrip('/')}/years_{folder.name}" if stores else ""
    if not (folder / "filled").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        begin = time.perf_counter()
        fill(folder, sizes, settings_of(folder, server=server.url, store=store))
        (folder / "filled").touch()
        print(f"{folder.name}: filled in {time.perf_counter() - begin:.0f} s", flush=True)
    return [str(folder), server.url, store]


def _report(small: list[str], large: list[str]) -> None:
    rounds = [[_measured(small, world) for world in (small, large)] for _ in range(ROUNDS)]
    print(f"{'CPU s (clock s), best of ' + str(ROUNDS):28}{'100 intervals':>18}{'100,000':>18}{'times':>8}")
    for name in rounds[0][0]:
        few, many = (min(found[world][name] for found in rounds) for world in (0, 1))
        shown = (f"{one[0]:.3f} ({one[1]:.3f})" for one in (few, many))
        print(f"{name:28}{''.join(f'{text:>18}' for text in shown)}{many[0] / max(few[0], 0.001):8.1f}")


def _measured(small: list[str], world: list[str]) -> dict[str, list[float]]:
    command = [sys.executable, "-m", "bench.years", "--measure", *small, *world]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
