"""Pins staged files by size and digest: what is checked, kept and published has the same bytes as what was decoded.
Not here: writing them (`write.py`), what a difference means for the interval
(`quality/check_step/check_interval.py`)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from strata_cdc.errors import DamagedFileError
from strata_cdc.files.objects import current_etag
from strata_cdc.files.storage import content_digest, file_digest, read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.tables.write import StagedFile

DECODE_AGAIN = "Decode the run again (task `decode`): it makes the file anew, and the same."
_THREADS = 4
_OTHER = "has other bytes than those that were written"


def read_pinned(file: StagedFile) -> bytes:
    """All bytes of a staged file (`FileLimits.file_bytes` and a row group, at most); they are those that were decoded.

    Raises:
        DamagedFileError: The file is gone, or has other bytes.
        LakeUnavailableError: The storage does not answer.
    """
    content = read_file(file.url)
    damage = _damage(file, None if content is None else (len(content), content_digest(content)))
    if content is None or damage is not None:
        raise _damaged(file, str(damage))
    return content


def refuse_changed(file: StagedFile) -> None:
    """Checks that a staged file still has the bytes that were decoded: by its ETag, if it has one, without reading it.

    Raises:
        DamagedFileError: The file is gone, or has other bytes.
        LakeUnavailableError: The storage does not answer.
    """
    if not file.etag:
        damage = _damage(file, file_digest(file.url))
    else:
        try:
            damage = None if current_etag(file.url) == file.etag else _OTHER
        except FileNotFoundError:
            damage = _damage(file, None)
    if damage is not None:
        raise _damaged(file, damage)


def find_damage(files: Sequence[StagedFile]) -> dict[str, str]:
    """By URL, what is wrong with each file that does not have the bytes that were decoded; reads all files."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="digest") as pool:
        damages = pool.map(lambda file: _damage(file, file_digest(file.url)), files)
        return {file.url: damage for file, damage in zip(files, damages, strict=True) if damage is not None}


def _damage(file: StagedFile, size_and_digest: tuple[int, str] | None) -> str | None:
    if size_and_digest is None:
        return "is gone"
    size, digest = size_and_digest
    if size != file.size_bytes:
        return f"has {size:,} bytes, {file.size_bytes:,} were written"
    return None if digest == file.digest else _OTHER


def _damaged(file: StagedFile, damage: str) -> DamagedFileError:
    return DamagedFileError(f"a staged file {damage}", table=str(file.name), file=file.url, remedy=DECODE_AGAIN)
