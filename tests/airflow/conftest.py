"""A server, and an Airflow database that is made once and copied."""

from __future__ import annotations

import shutil

import pytest

from tests.airflow.pipeline import Pipeline
from tests.mysql_server import start_server


@pytest.fixture(scope="session")
def source_server(tmp_path_factory):
    """A server whose whole binlog is these tests'."""
    with start_server(tmp_path_factory.mktemp("source")) as server:
        yield server


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory):
    """A migrated Airflow database."""
    pipeline = Pipeline(tmp_path_factory.mktemp("airflow"), "mysql://nobody@127.0.0.1:1/")
    pipeline.prepare()
    return pipeline.state.airflow_home


@pytest.fixture
def make_pipeline(tmp_path, airflow_home):
    """Builds a pipeline on a URL of a source."""

    def build(url: str, **variables: str) -> Pipeline:
        shutil.copytree(airflow_home, tmp_path / "airflow")
        return Pipeline(tmp_path, url, variables)

    return build
