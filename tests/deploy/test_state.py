"""What a machine keeps: secrets that stay secret, ports that stay, settings that load."""

from __future__ import annotations

import base64
import stat
from concurrent.futures import ThreadPoolExecutor

from scripts.state import PORTS, FleetState
from strata_cdc.config.settings import load_settings


def test_secrets_are_made_once_and_readable_by_their_owner_only(tmp_path):
    state = FleetState(tmp_path)
    first = state.secret("fernet")
    assert FleetState(tmp_path).secret("fernet") == first
    assert state.secret("other") != first
    assert stat.S_IMODE((tmp_path / "secrets.json").stat().st_mode) == 0o600
    assert len(base64.urlsafe_b64decode(first)) == 32


def test_the_folder_comes_from_the_environment(tmp_path):
    assert FleetState.from_environment({"STRATA_STATE": str(tmp_path / "here")}).folder == (tmp_path / "here").resolve()


def test_the_settings_load(tmp_path):
    state = FleetState(tmp_path)
    settings = load_settings({"STRATA_SETTINGS": str(state.settings_file)})
    assert settings.lake == str(tmp_path / "lake")
    assert set(settings.sources) == {"shop"}


def test_edited_settings_stay(tmp_path):
    state = FleetState(tmp_path)
    state.settings_file.write_text("# mine")
    assert state.settings_file.read_text() == "# mine"


def test_a_port_stays(tmp_path):
    state = FleetState(tmp_path)
    assert state.choose_port("airflow") == FleetState(tmp_path).port("airflow")


def test_threads_that_ask_at_once_get_one_answer(tmp_path):
    state = FleetState(tmp_path)

    def asked(_):
        return (state.secret("a"), state.secret("b"), *(str(state.port(name)) for name in PORTS))

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(asked, range(64)))
    assert answers == {asked(0)}
    assert {path.name for path in tmp_path.iterdir()} == {"secrets.json", "ports.json"}
