"""The numbers that monitoring keeps: what each says as a source waits, fails, idles and comes near the purge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import asdict, fields, replace

from strata_cdc.binlog.protocol.binlog_expiry import expire_seconds
from strata_cdc.cli.main import run
from strata_cdc.landing.land_state import Doing, LandState
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.position import MirrorPosition
from strata_cdc.ops.metrics import SourceMetrics, read_metrics, source_metrics
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.progress.status import SourceStatus
from tests.pipeline.owed_world import MINUTE, World

HOUR = 3_600_000_000
NOW = 1_790_000_000_000_000


def numbers_of(world: World) -> SourceMetrics:
    return read_metrics("s", settings=world.settings, now=world.now)


def test_a_source_from_nothing_to_published_and_behind(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert asdict(numbers_of(world)) == {
        "lag_seconds": None,
        "landing_lag_seconds": None,
        "purge_distance_seconds": None,
        "progress_age_seconds": None,
        "landed_transactions": 0,
        "landed_bytes": 0,
        "landed_rows": 0,
        "decoded_rows": 0,
        "published_rows": 0,
        "owed_rows": 0,
        "quarantined_rows": 0,
        "gap_count": 0,
        "mirror_count": 0,
        "mirror_lag_seconds": None,
        "lost_count": 0,
        "crossed_rows": 0,
    }
    world.change("a", [1, 2])
    world.now += 6 * MINUTE
    world.failing = frozenset("b")
    world.change("b", [3])
    world.now += 6 * MINUTE
    world.run(RunRequest())
    found = numbers_of(world)
    assert (found.published_rows, found.quarantined_rows, found.owed_rows) == (2, 1, 0)
    assert found.landed_transactions == 6
    assert (found.landed_rows, found.decoded_rows) == (3, 3)
    segments = LandedStream.open(str(world.settings.lake), "s").segments
    assert found.landed_bytes == sum(Path(segment.url).stat().st_size for segment in segments) > 0
    assert found.lag_seconds is not None
    world.now += HOUR
    world.change("a", [4])
    world.now += 6 * MINUTE
    world.land()
    world.plan(RunRequest())
    # A run that ends here leaves a row owed: readers miss it from the start of its interval on.
    assert numbers_of(world).owed_rows == 1


def status(**given: object) -> SourceStatus:
    landing = LandState(Doing.ENDED, NOW - HOUR, "server", 1, 1, 0.0, expire_seconds=86_400)
    plain = {
        "source": "s",
        "landed_seq": 9,
        "landed_until": NOW - 5 * HOUR,
        "landed_gtid_set": "",
        "landed_position": None,
        "segments": 1,
        "landing": landing,
        "tracked_seq": 9,
        "owned_seq": 9,
        "owned_until": NOW - 2 * HOUR,
        "behind_seconds": 7200.0,
        "unowned": 0,
        "gone": 0,
        "uncounted": 0,
        "owed_since": 0,
        "statements": 0,
        "prepared": (),
        "tables": (),
        "progress_at": NOW - HOUR,
    }
    return SourceStatus(**{**plain, **given})


@pytest.mark.parametrize(
    ("lag_seconds", "expire", "expected"),
    [
        (0.0, 86_400, 86_400 - 3600),  # It had everything an hour ago.
        (30.0, 86_400, 86_400 - 5 * 3600),  # It did not: what is missing may be as old as what is here.
        (None, 86_400, 86_400 - 5 * 3600),
        (0.0, 1800, -1800),
        (0.0, None, None),
    ],
)
def test_the_distance_to_the_purge_is_never_overstated(
    lag_seconds: float | None, expire: int | None, expected: float | None
) -> None:
    landing = LandState(Doing.ENDED, NOW - HOUR, "server", 1, 1, lag_seconds, expire_seconds=expire)
    assert source_metrics(status(landing=landing), [], now=NOW).purge_distance_seconds == expected


def test_owed_rows_make_readers_as_late_as_the_oldest_of_them() -> None:
    assert source_metrics(status(), [], now=NOW).lag_seconds == 7200
    assert source_metrics(status(owed_since=NOW - 4 * HOUR), [], now=NOW).lag_seconds == 4 * 3600
    assert source_metrics(status(), [], now=NOW).progress_age_seconds == 3600


def test_a_mirror_of_a_table_that_rests_is_as_fresh_as_the_intervals() -> None:
    at_rest = MirrorPosition(9, "", NOW - 100 * HOUR, 1)
    behind = replace(at_rest, seq=7, committed_at=NOW - 6 * HOUR)
    assert source_metrics(status(), [at_rest], now=NOW).mirror_lag_seconds == 7200
    found = source_metrics(status(), [at_rest, behind], now=NOW)
    assert (found.mirror_count, found.mirror_lag_seconds) == (2, 6 * 3600)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"binlog_expire_logs_seconds": "60", "expire_logs_days": "0"}, 60),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "10"}, 864_000),
        ({"expire_logs_days": "0.5"}, 43_200),
        ({"binlog_expire_logs_seconds": "0"}, None),
        ({"binlog_expire_logs_seconds": "60", "binlog_expire_logs_auto_purge": "OFF"}, None),
        ({}, None),
    ],
)
def test_how_long_a_server_keeps_its_binlogs(variables: dict[str, str], expected: int | None) -> None:
    assert expire_seconds(variables) == expected


def test_status_prints_them_flat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path)
    world.change("a", [1])
    world.now += 6 * MINUTE
    world.run(RunRequest())
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_X", "mysql://u@127.0.0.1/")
    assert run(["status", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert {field.name for field in fields(SourceMetrics)} <= line.keys()
    assert line["published_rows"] == 1
    assert run(["status"]) == 0
    assert "readers lag by" in capsys.readouterr().out


def test_a_mirror_that_cannot_be_read_hides_no_other_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path)
    world.change("a", [1])
    world.now += 6 * MINUTE
    world.run(RunRequest())
    log = tmp_path / "lake" / "mirrors" / "s" / "d" / "a" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text('{"commitInfo": tor')
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_X", "mysql://u@127.0.0.1/")
    assert run(["status", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["published_rows"], line["mirror_count"], line["mirror_lag_seconds"]) == (1, 1, None)
