"""What of a TiCDC folder would keep its source from landing.
Not here: the other checks of a source (`check_source.py`), what a folder holds (`ticdc/folder.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.clock import from_micros, now_micros
from strata_cdc.counted import counted
from strata_cdc.errors import StrataError
from strata_cdc.landing.landed import LandedStream
from strata_cdc.ops.doctor.findings import error, ok, warning
from strata_cdc.position.commit_ts import time_of
from strata_cdc.ticdc.folder import read_contents
from strata_cdc.ticdc.land_settings import wanted_of
from strata_cdc.ticdc.land_sink import landing_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.config.settings import Source
    from strata_cdc.ops.doctor.findings import Finding

_LATE_SECONDS: Final = 3600


def check_sink(source: Source) -> Iterator[Finding]:
    """Looks at the folder as a landing does, and reads no row."""
    try:
        state = landing_state(LandedStream.open(source.lake, source.name))
        contents = read_contents(source.settings.url or "", state.folder, wanted_of(source))
    except StrataError as failure:
        yield error("folder", str(failure), failure.remedy or "")
        return
    unindexed = f", {counted(contents.unindexed, 'file')} that no index names yet" if contents.unindexed else ""
    files = sum(len(sequence.files) for sequence in contents.sequences)
    yield ok("folder", f"{counted(files, 'data file')}{unindexed}")
    yield from (error("files", str(hole), hole.remedy or "") for hole in contents.holes)
    at = time_of(contents.checkpoint_ts)
    text = f"{from_micros(at):%Y-%m-%d %H:%M:%S} UTC"
    if (now_micros() - at) / 1e6 > _LATE_SECONDS:
        yield warning(
            "checkpoint", f"{text}: the changefeed is late, or has stopped", "Look at it: `cdc cli changefeed`."
        )
    else:
        yield ok("checkpoint", text)
