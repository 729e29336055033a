"""Two versions of Spark over each other: pip brings them where Airflow's Spark provider is installed beside pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.startup.spark import how_to_fix, mixed_spark

if TYPE_CHECKING:
    from pathlib import Path


def installed(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / f"{name}.dist-info").mkdir()
    return folder


@pytest.mark.parametrize(
    "names",
    [(), ("pyspark-4.3.0",), ("pyspark_client-4.2.0",), ("pyspark-4.2.0", "pyspark_client-4.2.0", "pysparkling-1.0")],
)
def test_one_version_is_no_mixture(names: tuple[str, ...], tmp_path: Path) -> None:
    assert mixed_spark(installed(tmp_path, *names)) is None


def test_two_versions_are_named_with_what_to_run(tmp_path: Path) -> None:
    mixed = mixed_spark(installed(tmp_path, "pyspark-4.3.0", "pyspark_client-4.2.0"))
    assert mixed == "pyspark 4.3.0 and pyspark-client 4.2.0 are installed over each other"
    fix = "Install both again, each in version 4.2.0, by pip with --force-reinstall and --no-deps."
    assert how_to_fix(mixed) == fix


def test_this_environment_has_one() -> None:
    assert mixed_spark() is None
