"""What `make up` starts and prints, as far as it needs no Airflow: the private server, its client, its settings."""

from __future__ import annotations

import os
import subprocess

import pytest

from scripts import fleet, mysql
from scripts.airflow_api import _connection_fields
from scripts.processes import Fleet, FleetError
from scripts.state import REPOSITORY, FleetState
from tests.states import make_state


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """A fleet's private server; its folder's path is longer than a socket's may be."""
    state = make_state(tmp_path_factory.mktemp("deep") / ("x" * 90))
    fleet.start_mysql(state, lambda _: None)
    yield state
    fleet.down(state, lambda _: None)
    assert not Fleet(state.folder).members("mysql")


def shell(state, *command, **variables):
    return subprocess.run(
        command,
        env={**os.environ, "STRATA_STATE": str(state.folder), **variables},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.mysql
def test_the_client_that_is_named_opens_the_private_server(state):
    done = shell(
        state, "scripts/mysql_shell.sh", "--batch", "--skip-column-names", "-e", "SELECT CURRENT_USER(), @@port"
    )
    assert done.stdout.split() == ["root@localhost", str(state.port("mysql"))], done.stderr


@pytest.mark.mysql
def test_a_server_has_an_identity_and_keys_of_its_own(state, tmp_path):
    """What set-up prepares has none of them; it is made here, too, if set-up has not run since."""
    mysql.initialize(mysql.prepared_data())
    mysql.make_data(tmp_path / "data")
    copied = {path.name for path in (tmp_path / "data").iterdir()}
    assert {"ibdata1", "mysql", "sys"} <= copied
    assert not {name for name in copied if name == "auto.cnf" or name.endswith(".pem")}
    assert {"auto.cnf", "server-key.pem"} <= {path.name for path in (state.server_folder / "data").iterdir()}


@pytest.mark.mysql
def test_the_shell_that_takes_the_environment_over_uses_the_same_server(state):
    done = shell(state, "bash", "-c", 'eval "$(make env)" && .venv/bin/strata doctor --source shop --json')
    assert f"127.0.0.1:{state.port('mysql')}" in done.stdout, done.stderr
    assert state.secret("mysql-strata") not in done.stdout + done.stderr


@pytest.mark.mysql
def test_a_terminal_is_not_shown_the_password(state):
    done = shell(state, "script", "-qec", ".venv/bin/python -m scripts.fleet env", "/dev/null")
    assert "eval" in done.stdout
    assert state.secret("mysql-strata") not in done.stdout


@pytest.mark.mysql
def test_accounts_are_not_in_the_binlog_and_stand_again_after_a_kill(state):
    port = state.port("mysql")
    running = Fleet(state.folder).running("mysql")
    running.kill()
    running.wait()
    fleet.start_mysql(state, lambda _: None)
    assert state.port("mysql") == port
    with mysql.connect(mysql.strata_url(state)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GRANTS")
        assert len(cursor.fetchall()) == 2
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        assert cursor.fetchall() == (("",),)


@pytest.mark.mysql
def test_a_server_that_cannot_start_shows_its_own_words(tmp_path):
    state = FleetState(tmp_path)
    (tmp_path / "server" / "data").mkdir(parents=True)
    with pytest.raises(FleetError, match=r"(?s)mysql ended while it was starting.*the whole log: .*mysql\.log"):
        fleet.start_mysql(state, lambda _: None)


@pytest.mark.mysql
def test_grants_hold_whatever_a_password_has_in_it(state):
    url = f"mysql://o'dd:p%40s'%5C%22%25@127.0.0.1:{state.port('mysql')}/"
    with mysql.connect(mysql.root_url(state)) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        for statement in mysql.grants(url, host="localhost"):
            cursor.execute(statement)
    mysql.connect(url).close()


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "mysql://me:p%40ss@db.example:3307/?ssl_mode=REQUIRED",
            {
                "conn_type": "mysql",
                "host": "db.example",
                "port": 3307,
                "password": "p@ss",
                "extra": '{"ssl_mode": "REQUIRED"}',
            },
        ),
        ('{"conn_type": "mysql", "host": "db", "extra": {"a": 1}}', {"host": "db", "extra": '{"a": 1}'}),
        ("mysql://me@db/", {"host": "db", "login": "me", "port": None, "extra": None}),
    ],
    ids=["url", "json", "short"],
)
def test_a_connection_of_the_environment_becomes_fields(text, fields):
    assert fields.items() <= _connection_fields(text).items()


class NothingPaused:
    """What `announce` asks of Airflow's API."""

    url = "http://127.0.0.1:4711"

    def has_dag(self, dag):
        return dag in fleet.DAGS

    def paused_dags(self):
        return ["ingest_binlog"]


def test_it_ends_with_the_address_who_to_sign_in_as_and_three_things_to_click(tmp_path):
    state = make_state(tmp_path)
    (tmp_path / "run").mkdir()
    first, again = [], []
    fleet.announce(state, NothingPaused(), first.append)
    fleet.announce(state, NothingPaused(), again.append)
    address, who, *clicks = first[-5:]
    assert address == "Airflow: http://127.0.0.1:4711"
    assert state.secret("airflow-admin") in who
    assert [line.split()[0] for line in clicks] == ["1.", "2.", "3."]
    assert all(line.split()[-1].startswith("http://127.0.0.1:4711/") for line in clicks)
    assert "make airflow ARGS" in " ".join(first)
    # Once is enough: whoever looks over a shoulder later sees where it is kept.
    assert state.secret("airflow-admin") not in " ".join(again)
    assert "secrets.json" in again[-4]
