"""The stream of a TiCDC sink over HTTP: what `strata stream` gives, for readers that share one decode, too."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from strata_cdc.position.commit_ts import CommitStep, CommitTs
from strata_cdc.position.token import Token
from strata_cdc.position.token_text import to_text
from strata_cdc.serve.limits import Limits
from strata_cdc.serve.sources import Sources
from strata_cdc.serve.streaming.routes import add_streams
from tests.serve.conftest import app_of, served
from tests.serve.test_streaming import Reader, ask
from tests.ticdc.generator import START, Row
from tests.ticdc.test_stream import ID, NAME, a_feed, named, streamed, without_version
from tests.ticdc.world import SinkWorld
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


def test_readers_get_what_has_landed_and_what_lands_later(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    feed = a_feed(world)
    world.run()
    before = streamed(world)
    app = app_of(lambda: world.settings)
    add_streams(app, Sources(lambda: world.settings), Limits())
    with served(app) as address, ExitStack() as stack:
        asked = [{"from": "beginning"}, {"from": before[3]["token"]}, {"from": "now", "columns": "id"}]
        readers = [stack.enter_context(Reader(address, heartbeat=0.2, **one)) for one in asked]
        for reader in readers:
            wait_until(lambda reader=reader: reader.events)
        table = feed.table("b", (ID, NAME), START + 150)
        # The second one is set aside: it was committed after the TRUNCATE.
        feed.write(table, [Row(START + 200, named(9)), Row(START + 220, named(10))])
        feed.ddl(table, START + 210, 11, "TRUNCATE TABLE b")
        feed.checkpoint(START + 300)
        assert world.strata("land").returncode == 0
        wanted = [streamed(world, *start) for start in ((), (before[3]["token"],))]
        wanted.append(streamed(world, before[-1]["token"], columns=["id"]))
        for reader, lines in zip(readers, wanted, strict=True):
            reader.wait(lambda line, last=lines[-1]: line == last)
    assert [without_version(reader.lines) for reader in readers] == [without_version(lines) for lines in wanted]
    assert [line["after"] for line in readers[2].lines if "op" in line] == [{"id": 9}]
    assert [line["unreadable"]["after"] for line in readers[2].lines if "unreadable" in line] == [{"id": 10}]


def test_positions_that_are_no_longer_there_have_their_status(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    a_feed(world)
    world.run()
    last = streamed(world)[-1]["token"]
    app = app_of(lambda: world.settings)
    add_streams(app, Sources(lambda: world.settings), Limits())
    with served(app) as address:
        assert ask(address, params={"from": last, "until": last}).status_code == 204
        assert ask(address, params={"from": "binlog.000001:4"}).status_code == 400
        other = to_text(Token.of("s", CommitTs(CommitStep(START + 1), 2)))
        assert ask(address, params={"from": other}).status_code == 409
