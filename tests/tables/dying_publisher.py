"""Publishes an interval twice, over changes of shape, and is killed before its Nth write: `dying_publisher FOLDER`.
With `dying_publisher FOLDER OLD` the lake begins as a copy of OLD, with what an older version has published.

One child for each N, forked before anything has started a thread; the lakes are `FOLDER/1`, `FOLDER/2`, ..."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas  # noqa: F401, ICN001  pyarrow loads it with the first table: once here, not in each child
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.table import TableAlterer

from strata.tables import commit, delta_log, old_generations
from tests.tables.changes import INTERVAL, ORDERS, SOURCE, inserts, stage

if TYPE_CHECKING:
    from collections.abc import Callable

OLD, NEW, OTHER = ({"id": pa.int32(), **more} for more in ({}, {"x": pa.int32()}, {"x": pa.string()}))


def work(lake: str) -> None:
    """The former rows of the interval, then the rows that replace them, of which one column has had two types."""
    first = stage(f"{lake}/runs/a", inserts(OLD, [{"id": 1}, {"id": 2}]))
    commit.publish(lake, SOURCE, ORDERS, INTERVAL, first)
    finish(lake)


def finish(lake: str) -> None:
    """The step that is run again after a death."""
    batches = [inserts(shape, [{"id": number}], version_id=number, first_seq=number) for number, shape in VERSIONS]
    commit.publish(lake, SOURCE, ORDERS, INTERVAL, stage(f"{lake}/runs/b", *batches))


VERSIONS = ((3, NEW), (4, OTHER), (5, OLD))


def die_at(last: int) -> None:
    """Makes every write count, and the process die before the one with this number: after the one before it."""
    done = 0

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            done += 1
            if done == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return write(*args, **kwargs)

        return wrapper

    for owner, name in (
        (os, "fsync"),
        (Path, "replace"),
        (delta_log, "create_table_with_add_actions"),
        (DeltaTable, "create_write_transaction"),
        (TableAlterer, "add_columns"),
        (old_generations, "delete_folder"),
        (old_generations, "delete_file"),
    ):
        setattr(owner, name, counted(getattr(owner, name)))


def main(root: str, begin: str | None = None) -> None:
    """Kills at one write more each time, until one child survives."""
    last = 0
    while True:
        last += 1
        if begin:
            shutil.copytree(begin, f"{root}/{last}/changes")
        child = os.fork()
        if child == 0:
            die_at(last)
            work(f"{root}/{last}")
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
