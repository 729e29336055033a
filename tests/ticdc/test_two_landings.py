"""Two landings of one sink at once: each commit lands once, whichever of them is faster, and one of them says why it
ended."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from strata_cdc.binlog.bytes import segment as segments
from strata_cdc.errors import AlreadyRunningError
from strata_cdc.files.lock import hold_folder
from strata_cdc.files.storage import Folder
from strata_cdc.landing.repair import LookLimits
from strata_cdc.ticdc import segment_writer
from strata_cdc.ticdc.csv_form import CsvSettings
from strata_cdc.ticdc.land_sink import SinkLocation, land_sink
from tests.interposed import interposed
from tests.s3_server import BUCKET
from tests.ticdc.reading import SMALL
from tests.ticdc.test_land import Died, location, stream_of, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow
WRITES = (segments, "publish_once"), (segment_writer, "publish_file")
"""Of a segment and of its index, on an object store."""
SEGMENT_BYTES = 2500


@pytest.fixture
def bucket(s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3_environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}"


def land(folder: Path, lake: str, segment_bytes: int = SEGMENT_BYTES) -> None:
    look = LookLimits(newest=2)
    land_sink(SinkLocation(str(folder / "sink"), lake, "s", CsvSettings(), segment_bytes, SMALL, look))


def on_another_machine(folder: Path, lake: str, writes: int, segment_bytes: int) -> None:
    """A landing with a temporary folder of its own, which dies before a write."""
    left = iter(range(writes))

    def dying(write: Callable[..., Any], *given: Any) -> Any:
        if next(left, None) is None:
            raise Died
        return write(*given)

    with (
        tempfile.TemporaryDirectory() as apart,
        interposed(lambda _: apart, (tempfile, "gettempdir")),
        interposed(dying, *WRITES),
        suppress(Died),
    ):
        land(folder, lake, segment_bytes)


def outcomes(folder: Path, bucket: str, expected: list[Any], writes: int, segment_bytes: int) -> Iterator[str]:
    """How the first landing ends if before its first, second ... write another one makes some writes."""
    for at in range(100):
        lake, count = f"{bucket}/{uuid4().hex}", 0

        def between(write: Callable[..., Any], *given: Any, lake: str = lake, at: int = at) -> Any:
            nonlocal count
            count += 1
            if count - 1 == at:
                on_another_machine(folder, lake, writes, segment_bytes)
            return write(*given)

        with interposed(between, *WRITES):
            try:
                land(folder, lake)
                ended = "whole"
            except AlreadyRunningError as error:
                ended = "second" if "another process lands the same source" in str(error) else str(error)
        land(folder, lake)
        assert stream_of(folder, lake) == expected
        land(folder, lake)
        assert stream_of(folder, lake) == expected
        if count <= at:
            return
        yield ended


@pytest.mark.parametrize("writes", [1, 2, *(pytest.param(more, marks=pytest.mark.soak) for more in (3, 100))])
def test_of_two_landings_in_a_bucket_one_ends_and_nothing_is_twice(tmp_path: Path, bucket: str, writes: int) -> None:
    """The other one cuts its segments elsewhere."""
    written(tmp_path)
    land_sink(location(tmp_path, SEGMENT_BYTES))
    ended = list(outcomes(tmp_path, bucket, stream_of(tmp_path), writes, 2 * SEGMENT_BYTES))
    assert len(ended) == 2 * len(list((tmp_path / "lake" / "landing" / "s").glob("0*.rows"))) >= 6
    assert ended[0] == "second"
    assert ended[-1] == "whole"


def test_two_landings_that_write_the_same_may_both_end(tmp_path: Path, bucket: str) -> None:
    """As a request that is sent again because its answer was lost."""
    written(tmp_path)
    land_sink(location(tmp_path, SEGMENT_BYTES))
    assert set(outcomes(tmp_path, bucket, stream_of(tmp_path), 1, SEGMENT_BYTES)) == {"whole"}


def test_two_landings_on_one_machine_exclude_each_other(tmp_path: Path, bucket: str) -> None:
    written(tmp_path)
    lake = f"{bucket}/{uuid4().hex}"
    staging = segments.staging_folder(Folder.open(lake).folder("landing/s"))
    with hold_folder(Folder.open(staging), "landing s"), pytest.raises(AlreadyRunningError, match="is landing s"):
        land(tmp_path, lake)
    land(tmp_path, lake)
    assert stream_of(tmp_path, lake)
