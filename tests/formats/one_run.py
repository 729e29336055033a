"""One run of source `s` in the current folder: all of it with `published`, else up to its plan.

Of today's files this one alone runs in a checkout of any age: it calls nothing but what each of them had."""

from __future__ import annotations

import os
import subprocess
import sys

from strata_cdc.config.settings import load_settings
from strata_cdc.pipeline import ingest
from strata_cdc.startup.spark import JOBS


def main(words: list[str]) -> None:
    """The command line of this module."""
    settings = load_settings(os.environ)
    ingest.land("s", settings=settings)
    ingest.track("s", settings=settings)
    planned = ingest.plan("s", None, None, settings=settings)
    # It was a dictionary at first.
    run = planned["run"] if isinstance(planned, dict) else planned.run
    if words == ["published"]:
        for job in ("decode_slices.py", "check_interval.py"):
            url = f"{settings.lake}/runs/s/{run}"
            subprocess.run(["spark-submit", "--master", "local[1]", str(JOBS / job), "--run-url", url], check=True)
        ingest.publish("s", run, settings=settings)


if __name__ == "__main__":
    main(sys.argv[1:])
