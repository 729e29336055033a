"""Which engine decodes a run: by its size, by what was requested, by whether Spark can be started at all."""

from __future__ import annotations

import pytest

from strata_cdc.config.engines import Engine, EngineSettings, choose_engine

NO_JAVA = "there is no Java"


@pytest.mark.parametrize(
    ("wanted", "megabytes", "java", "chosen", "because"),
    [
        ("auto", 0, True, "local", "1 MB of binlog; local_mb is 64"),
        ("auto", 64, True, "local", "67 MB of binlog; local_mb is 64"),
        ("auto", 65, True, "spark", "68 MB of binlog; local_mb is 64"),
        ("auto", 65, False, "local", NO_JAVA),
        ("local", 9999, True, "local", "requested"),
        ("spark", 0, False, "spark", "requested"),
    ],
)
def test_the_size_decides_unless_somebody_has(
    wanted: str, megabytes: int, java: bool, chosen: str, because: str
) -> None:
    settings = EngineSettings(Engine(wanted), local_mb=64)
    choice = choose_engine(megabytes << 20, settings, lambda: None if java else NO_JAVA)
    assert choice.engine == chosen
    assert because in choice.because


def test_java_is_looked_for_only_where_spark_would_be_taken() -> None:
    choose_engine(1, EngineSettings(), pytest.fail)
    choose_engine(1 << 50, EngineSettings(Engine.LOCAL), pytest.fail)
