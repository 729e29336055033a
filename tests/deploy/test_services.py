"""The environment of a local fleet: its own Airflow, whatever Airflow the user's shell is about."""

from __future__ import annotations

import pytest

from scripts.services import CONTAINER_VARIABLE, airflow_environment, connections
from scripts.state import FleetState
from strata_cdc.config.settings import connection_variable

THEIRS = {
    "AIRFLOW_HOME": "/home/me/airflow",
    "AIRFLOW_CONFIG": "/home/me/airflow.cfg",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://me@db/airflow",
    "AIRFLOW__API__SECRET_KEY": "theirs",
    "AIRFLOW_CONN_MYSQL_SHOP": "mysql://me@db/",
    "AIRFLOW_CONN_MYSQL_SHOP_2": "mysql://me@db2/",
}


@pytest.fixture
def shell(monkeypatch):
    for name, value in THEIRS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("shell")
def test_an_airflow_of_the_users_is_left_alone(tmp_path):
    found = airflow_environment(FleetState(tmp_path))
    assert found["AIRFLOW_HOME"] == str(tmp_path / "airflow")
    assert str(tmp_path) in found["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    assert "AIRFLOW_CONFIG" not in found
    assert found["AIRFLOW__API__SECRET_KEY"] != "theirs"
    assert found["AIRFLOW_CONN_MYSQL_SHOP_2"] == THEIRS["AIRFLOW_CONN_MYSQL_SHOP_2"]


@pytest.mark.usefixtures("shell")
def test_a_source_of_the_users_becomes_a_connection_that_the_page_shows(tmp_path):
    state = FleetState(tmp_path)
    assert connections(state)["mysql_shop"] == THEIRS["AIRFLOW_CONN_MYSQL_SHOP"]
    assert not {connection_variable(name) for name in connections(state)} & airflow_environment(state).keys()


@pytest.mark.usefixtures("shell")
def test_in_a_container_the_environment_stands(tmp_path, monkeypatch):
    monkeypatch.setenv(CONTAINER_VARIABLE, "1")
    found = airflow_environment(FleetState(tmp_path))
    assert THEIRS.items() <= found.items()
    # What is said to SQLite is none of PostgreSQL's options.
    assert not any("CONNECT_ARGS" in name for name in found)
