"""The state with which a mirror's history begins, stored outside the log, because the log is cut after this state.
Not here: which state that is (`beginning.py`), cutting (`mirrors/compact.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from strata_cdc.errors import DamagedFileError
from strata_cdc.files.storage import delete_file, read_file, write_file
from strata_cdc.mirrors.applied_files import applied_metadata
from strata_cdc.mirrors.log import snapshot_of
from strata_cdc.mirrors.position import MirrorPosition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.mirrors.actions import LogSnapshot

FORMAT: Final = 1
_NAME: Final = "_strata/beginning.json"
"""The vacuum of other programs ignores folders that begin with an underscore."""


class KeptBeginning(Struct, frozen=True):
    """A state, and the later commits that removed all rows."""

    snapshot: LogSnapshot
    emptied_at: Mapping[int, MirrorPosition]
    """By ordinal."""


def keep_beginning(snapshot: LogSnapshot, emptied_at: Mapping[int, MirrorPosition]) -> None:
    """Stores the state instead of an earlier one: lines of JSON, one of Strata and then actions of Delta's log.

    Raises:
        LakeUnavailableError: The storage refuses.
    """
    own = {
        "format": FORMAT,
        "version": snapshot.version,
        "emptied": [position.metadata() for position in emptied_at.values()],
    }
    lines: list[dict[str, Any]] = [
        own,
        {"commitInfo": snapshot.position.metadata() | applied_metadata(snapshot.applied)},
        {"protocol": {"writerFeatures": sorted(snapshot.features)}},
        {"metaData": snapshot.metadata},
        *(file.added() for file in snapshot.files.values()),
    ]
    write_file(f"{snapshot.url}/{_NAME}", b"\n".join(map(msgspec.json.encode, lines)) + b"\n")


def read_beginning(url: str) -> KeptBeginning | None:
    """The stored state; None if there is none.

    Raises:
        DamagedFileError: It cannot be read, or a newer version of Strata wrote it.
        LakeUnavailableError: The storage does not answer.
    """
    where = f"{url}/{_NAME}"
    content = read_file(where)
    if content is None:
        return None
    try:
        own, *actions = [msgspec.json.decode(line) for line in content.splitlines()]
        if own["format"] > FORMAT:
            raise DamagedFileError("a newer version of Strata wrote it", file=where, remedy="Use that one.")
        emptied = [MirrorPosition.of_metadata(stored, url) for stored in own["emptied"]]
        snapshot = snapshot_of(url, own["version"], actions)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(
            f"where the mirror's history begins cannot be read: {error}",
            file=where,
            remedy="Delete the file: the history then begins with the oldest state that the log has.",
        ) from None
    return KeptBeginning(snapshot, {position.seq: position for position in emptied if position is not None})


def forget_beginning(url: str) -> None:
    """Deletes the stored state.

    Raises:
        LakeUnavailableError: The storage refuses.
    """
    delete_file(f"{url}/{_NAME}")
