"""GTIDs and commit times of many transactions of a batch as texts, a column at a time.
Not here: of which transactions (`places.py`), their tokens (`token_texts.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.changes.texts import moment_texts_of
from strata_cdc.streams.lines import LineColumn, composed, in_digits

if TYPE_CHECKING:
    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.texts import Texts


def gtid_texts(batch: TransactionBatch, rows: Ints) -> Texts:
    """GTIDs of some rows as JSON: in quotes, or `null`."""
    sids, is_none = batch.sid_numbers[rows], batch.sid_numbers[rows] < 0
    servers = [*(f'"{sid}:'.encode() for sid in batch.sids), b"null"]
    pieces = [
        LineColumn.of(servers, np.where(is_none, len(batch.sids), sids)),
        LineColumn(in_digits(batch.numbers[rows]).texts, None, is_none),
        LineColumn.of([b'"', b""], is_none.astype(np.int64)),
    ]
    return composed(pieces, len(rows))


def time_texts(batch: TransactionBatch, rows: Ints) -> Texts:
    """Commit times of some rows, as `time_text` gives them."""
    return moment_texts_of(batch.committed_at[rows], "T", 6, "Z")
