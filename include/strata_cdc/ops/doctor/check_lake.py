"""Checks the lake: whether it can be written, listed and read, by Arrow and by the output; and the folder of a sink.
Not here: what has landed in it (`check_source.py`), what the tables are (`tables/`)."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strata_cdc.clock import from_micros, now_micros
from strata_cdc.counted import counted
from strata_cdc.errors import LakeUnavailableError, StrataError
from strata_cdc.files.objects import create_object, is_s3
from strata_cdc.files.storage import Folder, delete_file
from strata_cdc.files.uploads import unfinished_uploads
from strata_cdc.landing.landed import LandedStream
from strata_cdc.ops.doctor.findings import Finding, error, ok, warning
from strata_cdc.position.commit_ts import time_of
from strata_cdc.tables.layout import changes_url
from strata_cdc.tables.outputs import OUTPUT
from strata_cdc.tables.port import OutputError
from strata_cdc.ticdc.folder import read_contents
from strata_cdc.ticdc.land_settings import wanted_of
from strata_cdc.ticdc.land_sink import landing_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.config.settings import Source
    from strata_cdc.ops.doctor.findings import Finding


# What of a TiCDC folder would keep its source from landing.
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


_RULE: Final = (
    "Allow s3:ListBucketMultipartUploads and s3:AbortMultipartUpload, or give the bucket a lifecycle rule with "
    "AbortIncompleteMultipartUpload after 7 days."
)
_CONTENT = b"strata doctor was here, and may be deleted"
_REMEDY = "Check the lake's address, its rights and its space"
_KEYS = " (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY for an object store)"

_CARELESS = (
    "the store writes an object that is there although it is asked not to (PUT with If-None-Match: *): of two "
    "publishers of a table, one would undo the commit of the other"
)
_LATE = (
    "the store lists late: a file that was just written was not listed, or it still was once it was deleted. No row is "
    "lost or twice, but steps fail until the store lists what is there, and are then to be run again"
)
_CONSISTENT_STORE = (
    "Put the lake on a store that lists what it has, as S3 does since 2020. A folder of TiCDC must be on such a store."
)
_OTHER_STORE = (
    "Put the lake on a store that honours If-None-Match (S3 does since 2024), or update this one, then run "
    "`strata doctor` again."
)


def check_lake(lake: str, source: str) -> Finding:
    """Writes a small file, lists its folder, reads it, deletes it, and looks for a table that is not there.

    A local folder that is not there yet is left so; what matters then is whether it can be made.
    """
    name = f".strata-doctor-{uuid.uuid4().hex}"
    try:
        folder = Folder.open(lake)
        if folder.is_local and not folder.is_there():
            return _not_there(Path(folder.path))
        folder.write(name, _CONTENT)
        try:
            is_late = name not in folder.names()
            if folder.read_file(name) != _CONTENT or (is_late and folder.is_local):
                return error("lake", f"{lake}: a file that was just written is not there", f"{_REMEDY}.")
        finally:
            folder.delete(name)
        is_late |= name in folder.names()
        if is_s3(lake) and not _honours_conditions(folder.join(f"{name}-once")):
            return error("lake", f"{lake}: {_CARELESS}", _OTHER_STORE)
        OUTPUT.open(f"{changes_url(lake, source)}/strata-doctor/{name}")
    except (StrataError, OutputError) as failure:
        message = failure.message if isinstance(failure, StrataError) else str(failure)
        return error("lake", f"{lake}: {message}", _REMEDY + ("." if "://" not in lake else _KEYS + "."))
    if is_late:
        return warning("lake", f"{lake}: {_LATE}", _CONSISTENT_STORE)
    return ok("lake", f"{lake}: can be written, listed and read")


def check_uploads(lake: str) -> Iterator[Finding]:
    """Whether uploads that were begun and left can be found, which housekeeping ends."""
    if not is_s3(lake):
        return
    try:
        count = len(unfinished_uploads(lake))
    except LakeUnavailableError as failure:
        yield warning("uploads", f"{lake}: uploads that were begun and left cannot be listed: {failure.message}", _RULE)
        return
    yield ok("uploads", f"{lake}: {counted(count, 'upload')} not finished; housekeeping ends those older than a week")


def _honours_conditions(url: str) -> bool:
    """Whether the second of two writes is refused where both ask that there be no object."""
    try:
        return create_object(url, _CONTENT) and not create_object(url, b"another")
    finally:
        delete_file(url)


def _not_there(folder: Path) -> Finding:
    above = next(parent for parent in folder.parents if parent.exists())
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return ok("lake", f"{folder}: not there yet; it is made by the first landing")
    failure = LakeUnavailableError(f"{folder}: not there, and cannot be made in {above}")
    return error("lake", failure.message, "Make it, with this user as its owner, or correct `lake` in the settings.")
