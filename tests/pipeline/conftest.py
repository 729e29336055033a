"""An object store behind a proxy, which counts requests and makes faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.store_proxy import StoreProxy, store_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StoreProxy]:
    """The environment's store, reached through the proxy."""
    with store_proxy(s3_environment["AWS_ENDPOINT_URL"], tmp_path) as proxy:
        for name, value in s3_environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy
