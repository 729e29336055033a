"""Publishes an interval twice, over changes of shape, and is killed before its Nth write:
`dying_publisher FOLDER OUTPUT`. With `dying_publisher FOLDER OUTPUT OLD` the lake begins as a copy of OLD, with what an
older version has published.

One child for each N, forked before anything has started a thread; the lakes are `FOLDER/1`, `FOLDER/2`, ..."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING, Any

import pandas  # noqa: F401, ICN001  pyarrow loads it with the first table: once here, not in each child
import pyarrow as pa

from strata_cdc.tables.commit import publish
from tests.interposed import interposed
from tests.tables.changes import INTERVAL, ORDERS, SOURCE, inserts, stage
from tests.tables.conformance.outputs import OUTPUTS, WRITES

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from strata_cdc.tables.port import Output

OLD, NEW, OTHER = ({"id": pa.int32(), **more} for more in ({}, {"x": pa.int32()}, {"x": pa.string()}))


def work(lake: str, output: Output) -> None:
    """The former rows of the interval, then the rows that replace them, of which one column has had two types."""
    first = stage(f"{lake}/runs/a", inserts(OLD, [{"id": 1}, {"id": 2}]), changes=f"{lake}/changes/{SOURCE}")
    publish(lake, SOURCE, ORDERS, INTERVAL, first, output)
    finish(lake, output)


def finish(lake: str, output: Output) -> None:
    """The step that is run again after a death."""
    batches = [inserts(shape, [{"id": number}], version_id=number, first_seq=number) for number, shape in VERSIONS]
    # Of one of the versions as a former version of Strata has left it: such files are copied.
    first, *others = (
        stage(f"{lake}/runs/b", batch, slice_key=number, changes=changes)
        for number, batch, changes in zip("345", batches, (None, *2 * [f"{lake}/changes/{SOURCE}"]), strict=True)
    )
    publish(lake, SOURCE, ORDERS, INTERVAL, [*first, *(file for files in others for file in files)], output)


VERSIONS = ((3, NEW), (4, OTHER), (5, OLD))


def dying_at(last: int) -> AbstractContextManager[None]:
    """Within the block, the process dies before its write with this number: after the one before it."""
    done = 0

    def counted(write: Callable[..., Any], *given: Any, **named: Any) -> Any:
        nonlocal done
        done += 1
        if done == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return write(*given, **named)

    return interposed(counted, *WRITES)


def main(root: str, output: str, begin: str | None = None) -> None:
    """Kills at one write more each time, until one child survives."""
    last = 0
    while True:
        last += 1
        if begin:
            shutil.copytree(begin, f"{root}/{last}/changes")
        child = os.fork()
        if child == 0:
            with dying_at(last):
                work(f"{root}/{last}", OUTPUTS[output])
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
