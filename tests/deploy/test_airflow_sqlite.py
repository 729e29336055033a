"""Two processes of Airflow on one SQLite file."""

import asyncio
import threading
import time

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

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


class Base(orm.DeclarativeBase):
    pass


class Log(Base):
    """As Airflow's audit log."""

    __tablename__ = "log"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    event: orm.Mapped[str]


def test_the_event_loop_does_not_wait_for_a_writer_that_waits_for_the_loop(engine):
    """As the API server when a DAG is paused while a task hands over its results."""
    Base.metadata.create_all(engine)

    async def serve():
        with engine.connect() as other:
            other.execute(sa.text("INSERT INTO run VALUES (1)"))
            began = time.monotonic()
            with orm.Session(engine) as session:
                session.add(Log(event="patch_dag"))
                session.commit()
            waited = time.monotonic() - began
            # Its commit comes only when the loop goes on.
            other.commit()
        return waited

    assert asyncio.run(serve()) < CONNECT_ARGS["timeout"] / 4
    with engine.connect() as reader:
        for _ in range(100):
            if reader.execute(sa.text("SELECT COUNT(*) FROM log")).scalar():
                break
            time.sleep(0.1)
        assert reader.execute(sa.text("SELECT event FROM log")).scalars().all() == ["patch_dag"]


def test_outside_of_an_event_loop_the_log_is_of_the_same_transaction(engine):
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add(Log(event="trigger"))
        session.flush()
        session.rollback()
        assert session.scalars(sa.select(Log)).all() == []
