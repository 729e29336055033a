"""A source of its own for a test: schemas read from the server as it is, nothing landed. Not here: tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.store.database import open_store
from strata_cdc.tracking.snapshot_schemas import snapshot_schemas

if TYPE_CHECKING:
    from tests.streams.world import World


def snapshot(world: World) -> None:
    engine = open_store(world.store_url)
    snapshot_schemas(world.address, engine, world.name)
    engine.dispose()
