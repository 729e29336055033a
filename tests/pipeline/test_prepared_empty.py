"""What is prepared without a row or a statement changes nothing, whatever becomes of it: MariaDB logs it, for instance,
where the rows are of a table without transactions. After a crash its XA RECOVER no longer has it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.housekeep.retain_landed import retain_landed
from strata_cdc.progress.status import source_status
from tests.mariadb_server import PREFIXES, start_mariadb
from tests.pipeline.test_prepared import DURABLE, Shop, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.mysql


@pytest.fixture(params=PREFIXES)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    with start_mariadb(tmp_path / "server", request.param, *DURABLE) as server:
        yield Shop(server, tmp_path, "d")


def test_it_holds_nothing(shop: Shop) -> None:
    shop.run("CREATE TABLE m (a INT PRIMARY KEY) ENGINE=MyISAM")
    shop.run(prepare("'e'", "INSERT INTO m VALUES (1)"))
    shop.server.kill()
    shop.server.start_again()
    assert "X'65'" not in shop.server.run_sql("XA RECOVER FORMAT='SQL'"), "the crash lost it"
    shop.run("FLUSH BINARY LOGS; INSERT INTO t VALUES (3, 'y', NULL)")
    shop.run("FLUSH BINARY LOGS; INSERT INTO t VALUES (4, 'y', NULL)")
    assert shop.ingest() == (5, 0)
    [prepared] = LandedStream.open(shop.source.lake, "s").segments[-1].summary.prepared or ()
    assert prepared.is_empty
    later = time.time_ns() // 1000 + 10**13
    assert source_status(shop.source, shop.engine, now=later).prepared == ()
    source = replace(shop.source, settings=structs.replace(shop.source.settings, keep_gb=0))
    retained = retain_landed(source, shop.engine, now=later)
    assert (retained.held_by, len(retained.segments)) == (None, 1)
    assert LandedStream.open(shop.source.lake, "s").first_seq > prepared.seq
    # Its XID comes again, with a row, and without.
    shop.run(prepare("'e'", "INSERT INTO t VALUES (10, 'e', NULL)") + "XA COMMIT 'e'")
    shop.run(prepare("'e'", "INSERT INTO m VALUES (2)") + "XA COMMIT 'e'")
    assert shop.ingest() == (2, 0)
    shop.assert_equal()
