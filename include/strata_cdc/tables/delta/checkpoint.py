"""A checkpoint of any Delta table's log: all of it in one file, so that readers need not read every commit.
Not here: when a checkpoint is due (`mirrors/checkpoint.py`).

deltalake (1.6) does not wait for the disk, and readers take a file with the name of a checkpoint for a complete one.
After a power failure, an incomplete checkpoint would hide the commits, which exist. So a local checkpoint is made
outside the log, from links to the log's files, and gets its name once it is on the disk.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.objects import object_store_options
from strata_cdc.files.storage import Folder, sync_files

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG: Final = "_delta_log"
_BESIDE: Final = "_strata"
"""Readers and `vacuum` of deltalake ignore folders that begin with an underscore."""
_PREFIX: Final = "checkpoint-"
_LEFT_SECONDS: Final = 3600
"""Older folders are from processes that were killed."""
_CHECKPOINT: Final = ".checkpoint.parquet"
_LAST: Final = "_last_checkpoint"
_DIGITS: Final = 20


def write_checkpoint(url: str, version: int) -> None:
    """Writes a checkpoint of a version, the newest or not; after a power failure it is complete, or there is none.

    Raises:
        LakeUnavailableError: The storage refuses, or the log is not complete.
    """
    folder = Folder.open(url)
    try:
        if folder.is_local:
            _write_local(Path(folder.path), version)
        else:
            # Object stores show a file only when they have all of it.
            DeltaTable(url, version=version, storage_options=object_store_options(url)).create_checkpoint()
    except (OSError, DeltaError) as error:
        raise LakeUnavailableError(f"a checkpoint cannot be written: {error}", file=url) from error


def _write_local(table: Path, version: int) -> None:
    log = table / _LOG
    numbers = {int(path.name[:_DIGITS]) for path in log.glob(f"*{_CHECKPOINT}") if path.name[:_DIGITS].isdigit()}
    # A checkpoint that an older version of Strata wrote may be incomplete.
    for start in [*sorted((number for number in numbers if number < version), reverse=True), -1]:
        with _beside(table) as made:
            links = [] if start < 0 else [f"{start:0{_DIGITS}d}{_CHECKPOINT}"]
            links += [f"{commit:0{_DIGITS}d}.json" for commit in range(max(start, 0), version + 1)]
            for name in links:
                os.link(log / name, made / _LOG / name)
            try:
                DeltaTable(made).create_checkpoint()
            except DeltaError:
                if start < 0:
                    raise
                continue
            _put(made / _LOG, log, f"{version:0{_DIGITS}d}{_CHECKPOINT}", _LAST)
        return


def _put(made: Path, log: Path, *names: str) -> None:
    """Gives files their names in the log, one after the other, each once it is on the disk."""
    for name in names:
        sync_files([str(made / name)])
        # File systems with a journal keep the order in which files get their names.
        (made / name).replace(log / name)


@contextmanager
def _beside(table: Path) -> Iterator[Path]:
    """A folder for a separate table without rows."""
    for left in (table / _BESIDE).glob(f"{_PREFIX}*"):
        # The process that works there may end meanwhile.
        with suppress(FileNotFoundError):
            if left.stat().st_mtime < time.time() - _LEFT_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    made = table / _BESIDE / f"{_PREFIX}{uuid.uuid4().hex}"
    (made / _LOG).mkdir(parents=True)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
