"""Airflow reads its home when it is imported, and writes its configuration there: a folder of this run's own.

The variables are there while it is imported, which happens here, and while this folder's tests run. Other tests start
Airflow in processes of their own, which must not inherit this home.
"""

from __future__ import annotations

import shutil
import tempfile

import pytest

HOME = tempfile.mkdtemp(prefix="strata-airflow-")
VARIABLES = {
    "AIRFLOW_HOME": HOME,
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
}

with pytest.MonkeyPatch.context() as patch:
    for name, value in VARIABLES.items():
        patch.setenv(name, value)
    import airflow.dag_processing.dagbag
    import airflow.sdk  # noqa: F401


@pytest.fixture(scope="package", autouse=True)
def _airflow_home():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        yield


def pytest_unconfigure():
    # Not `atexit`: workers of xdist may end without it. A process of Airflow may still write there, and is left to it.
    shutil.rmtree(HOME, ignore_errors=True)
