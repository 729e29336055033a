"""Records are the same to Python and to machine code, and no field hides what numpy calls so."""

from __future__ import annotations

import numpy as np
import pytest

from strata_cdc.binlog.kernels import layout
from strata_cdc.binlog.kernels.records import Record, joined, records
from strata_cdc.binlog.kernels.stream import find_map

KINDS = sorted((kind for kind in vars(layout).values() if isinstance(kind, type) and issubclass(kind, Record)), key=str)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Record])
def test_fields_are_numbers_by_name(kind: type[Record]) -> None:
    array = records(kind, 2)
    names = array.dtype.names or ()
    assert names == tuple(kind.__annotations__)
    assert not [name for name in names if hasattr(np.void, name)]
    for number, name in enumerate(names):
        setattr(array[1], name, number)
    assert [getattr(array[1], name) for name in names] == list(range(len(names)))
    assert array.view(np.int64).tolist() == [0] * len(names) + list(range(len(names)))
    assert joined(array, array)[3] == array[1]


def test_machine_code_reads_the_same_fields() -> None:
    maps = records(layout.MapInForce, 8)
    place = find_map(maps, 3)
    maps[place].key = 4
    assert find_map(maps, 3) == place
    maps[place].key = 5
    assert find_map(maps, 3) != place
