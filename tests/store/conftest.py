"""A new store in each kind of database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.store.database import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import sqlalchemy as sa


@pytest.fixture(params=["sqlite", *(pytest.param(family, marks=pytest.mark.mysql) for family in ("mysql", "mariadb"))])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Engine]:
    if request.param == "sqlite":
        yield open_store(f"sqlite:///{tmp_path}/store.db")
        return
    server = request.getfixturevalue(f"{request.param}_server")
    server.run_sql("DROP DATABASE IF EXISTS ledgers")
    engine = open_store(f"{server.url}ledgers")
    yield engine
    engine.dispose()
