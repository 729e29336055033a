"""The files that deploy Strata, judged by validators: no container engine is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
COMPOSE = REPOSITORY / "docker-compose.yaml"
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load(COMPOSE.read_text())


def run(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_compose_file_is_valid():
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)


def test_a_broken_compose_file_is_not_valid(tmp_path):
    broken = tmp_path / "docker-compose.yaml"
    broken.write_text(COMPOSE.read_text().replace("image: mysql", "imagine: mysql", 1))
    with pytest.raises(AssertionError, match="imagine"):
        run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", broken)


def test_the_dockerfile_passes_hadolint():
    run(BIN / "hadolint", REPOSITORY / "Dockerfile")


def test_the_whole_is_there(compose):
    assert set(compose["services"]) == {
        "mysql",
        "postgres",
        "init",
        "api-server",
        "scheduler",
        "dag-processor",
        "triggerer",
        "streams",
        "spark-master",
        "spark-worker",
    }


def test_every_service_has_a_health_check_and_a_pinned_image(compose):
    for name, service in compose["services"].items():
        assert service["healthcheck"]["test"], name
        image, _, version = service["image"].partition(":")
        assert re.fullmatch(r"\d+\.\d+[\w.-]*", version), f"{image}: {version}"


def test_the_base_image_is_pinned():
    assert re.match(r"FROM python:\d+\.\d+\.\d+-", (REPOSITORY / "Dockerfile").read_text().splitlines()[1])


def test_every_secret_comes_from_the_environment_and_stands_in_the_example():
    used = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text()))
    example = (REPOSITORY / ".env.example").read_text()
    declared = dict(re.findall(r"^(\w+)=(.*)$", example, re.MULTILINE))
    assert used == set(declared)
    assert not any(declared.values()), "an example has no values: they would be used as they are"
    for password in re.findall(r"(?i)(?:password|secret|key)\w*: (.+)", COMPOSE.read_text()):
        assert password.startswith("${"), password


def test_nothing_is_reachable_from_other_machines(compose):
    published = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert published
    assert all(str(port).startswith("127.0.0.1:") for port in published)


def test_the_environment_files_are_not_committed():
    assert "/.env" in (REPOSITORY / ".gitignore").read_text().split()


@pytest.mark.parametrize(
    "path", [*sorted((REPOSITORY / "scripts").glob("*.sh")), REPOSITORY / ".ci/run"], ids=lambda p: p.name
)
def test_shell_scripts_parse_and_stop_at_errors(path):
    run("bash", "-n", path)
    text = path.read_text()
    assert path.stat().st_mode & 0o111
    assert "set -euo pipefail" in text or "set -uo pipefail" in text
