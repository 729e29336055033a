"""No page, docstring, message or script names an installation that fetches a stranger's code: what is installed is a
file of ours, or a package that our locks have, with its version. The distribution's own name is somebody else's on the
index, and so is every name with it in front of an extra."""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest

from tests.layout.test_layout import FILES, REPOSITORY

COMMAND = re.compile(
    r"\b(?:pip3? +(?:install|download|wheel)|pipx +(?:install|run|inject)|uvx|uv +(?:add|tool +(?:install|run))"
    r"|npx|npm +(?:install|i)|gem +install|conda +install|poetry +add|cargo +install|go +install)(?: +|$)([^`;&|)\n]*)"
)
WITH_VALUE = {
    "-r",
    "-c",
    "-e",
    "--python",
    "--constraint",
    "--build-constraints",
    "--no-binary",
    "--target",
    "--with",
    "-w",
}
TEXTS = [
    name
    for name in FILES
    if not name.startswith(("tests/", "requirements")) and (REPOSITORY / name).stat().st_size < 1 << 20
]
LOCKED = re.compile(r"^([A-Za-z0-9_.-]+==[^ ;\\]+)", re.MULTILINE)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> set[str]:
    """The packages that our locks have, with their versions."""
    files = [*REPOSITORY.glob("requirements*.txt"), REPOSITORY / "scripts" / "uv.txt"]
    return {normal(found) for file in files for found in LOCKED.findall(file.read_text())}


def packages(text: str) -> list[str]:
    """What is fetched from an index by the commands in a text."""
    found = []
    for command in COMMAND.findall(text.replace("\\\n", " ")):
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            words = command.split()
        if "--from" in words:  # what follows is a command of that package
            words = words[words.index("--from") + 1 :][:1]
        is_value = False
        for word in words:
            is_fetched = not is_value and not word.startswith(("-", ".", "/", "$"))
            is_value = word in WITH_VALUE
            # The end of a sentence, or of a string in a program.
            found += [word.strip("\"'.,:")] if is_fetched and re.match(r"[A-Za-z\"']", word) else []
    return found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("`pip install 'strata[cache]'`; the source", ["strata[cache]"]),
        ("RUN uv pip install --system --build-constraints a.txt -e . \\\n  && x", []),
        ("pip install -r requirements.txt \\\n redis==8.1.0", ["redis==8.1.0"]),
        ("`uvx strata`, `pipx install strata`", ["strata", "strata"]),
        ("uvx --from ./dist/a.whl strata demo; uvx --from strata-cdc strata demo", ["strata-cdc"]),
        ("a pip installation has none", []),
    ],
)
def test_the_commands_of_a_text(text: str, wanted: list[str]):
    assert packages(text) == wanted


def test_nothing_of_a_stranger_is_installed():
    ours = locked()
    assert len(ours) > 100
    faults = []
    for name in TEXTS:
        text = (REPOSITORY / name).read_text(encoding="utf-8", errors="replace")
        faults += [f"{name}: {one}" for one in packages(text) if normal(one) not in ours]
    assert not faults


def test_no_extra_needs_the_name_that_is_a_strangers():
    plain = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    project = plain["project"]
    lists = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
    lists += [[one for one in group if isinstance(one, str)] for group in plain["dependency-groups"].values()]
    names = {normal(re.split(r"[\[<>=!~; ]", one)[0]) for some in lists for one in some}
    assert normal(project["name"]) not in names
