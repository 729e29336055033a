"""Two processes of Airflow on one SQLite file."""

import threading

import pytest
import sqlalchemy as sa

from scripts.airflow_sqlite import CONNECT_ARGS
from scripts.local_airflow import share


@pytest.fixture
def engine(tmp_path):
    path = tmp_path / "airflow.db"
    share(path)
    # As Airflow makes it (airflow/settings.py).
    made = sa.create_engine(f"sqlite:///{path}", connect_args=CONNECT_ARGS | {"check_same_thread": False})
    with made.begin() as connection:
        connection.execute(sa.text("CREATE TABLE run (id INT)"))
    yield made
    made.dispose()


def test_who_reads_under_a_savepoint_can_write_although_another_wants_to(engine):
    """As `airflow backfill create` does for each run, beside a scheduler."""
    add, count = sa.text("INSERT INTO run VALUES (1)"), sa.text("SELECT COUNT(*) FROM run")

    def write():
        with engine.begin() as other:
            other.execute(add)

    scheduler = threading.Thread(target=write)
    with engine.connect() as backfill, backfill.begin():
        with backfill.begin_nested():
            assert backfill.execute(count).scalar() == 0
            scheduler.start()
            # It ends now if nobody holds it back, and waits for the commit otherwise.
            scheduler.join(0.2)
            backfill.execute(add)
        backfill.execute(add)
    scheduler.join()
    with engine.connect() as reader:
        assert reader.execute(count).scalar() == 3


def test_a_savepoint_within_a_transaction_begins_none(engine):
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO run VALUES (1)"))
        with connection.begin_nested():
            connection.execute(sa.text("INSERT INTO run VALUES (2)"))
    with engine.connect() as reader:
        assert reader.execute(sa.text("SELECT SUM(id) FROM run")).scalar() == 3
