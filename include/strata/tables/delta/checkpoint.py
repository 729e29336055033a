"""A checkpoint of any Delta table's log: all of it in one file, so that readers need not read every commit.
Not here: when one is due (`mirrors/checkpoint.py`)."""

from __future__ import annotations

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from strata.errors import LakeUnavailableError
from strata.wire.storage import object_store_options


def write_checkpoint(url: str) -> None:
    """Writes one of the newest version.

    Raises:
        LakeUnavailableError: The storage refuses.
    """
    try:
        DeltaTable(url, storage_options=object_store_options(url)).create_checkpoint()
    except (OSError, DeltaError) as error:
        raise LakeUnavailableError(f"a checkpoint cannot be written: {error}", file=url) from error
