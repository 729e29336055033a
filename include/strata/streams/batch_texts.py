"""GTIDs and commit times of many transactions of a batch as texts, a column at a time.
Not here: of which transactions (`places.py`), their tokens (`token_texts.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.rows.batch import gtid_column
from strata.rows.texts import Texts

if TYPE_CHECKING:
    from strata.events.batch import TransactionBatch
    from strata.kernels.arrays import Ints

_T: Final = ord("T")
_TIME_BYTES: Final = 26


def gtid_texts(batch: TransactionBatch, rows: Ints) -> Texts:
    """GTIDs of some rows as JSON: in quotes, or `null`."""
    texts = gtid_column(batch.sid_numbers[rows], batch.numbers[rows], batch.sids)
    return Texts.of_column(pc.fill_null(pc.binary_join_element_wise('"', texts, '"', ""), "null"))


def time_texts(batch: TransactionBatch, rows: Ints) -> Texts:
    """Commit times of some rows, as `time_text` gives them."""
    texts = pa.array(batch.committed_at[rows]).cast(pa.timestamp("us")).cast(pa.string())
    found = np.concatenate(
        [Texts.of_column(texts).data.reshape(-1, _TIME_BYTES), np.full((len(texts), 1), ord("Z"), np.uint8)], axis=1
    )
    found[:, 10] = _T
    return Texts(found.reshape(-1), np.arange(len(texts) + 1) * (_TIME_BYTES + 1))
