"""A new store of schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.store.database import open_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> SchemaStore:
    return SchemaStore(open_store(f"sqlite:///{tmp_path}/store.db"))
