"""How properties are drawn: the same examples each time, or new ones with `STRATA_PROPERTIES=TIMES`, that many times as
many; and new ones for as long as one likes: `python -m tests.properties --minutes 10`.
Not here: the properties, which are beside what they are about."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers

from scripts.state import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterable

TIMES = int(os.environ.get("STRATA_PROPERTIES", "0"))
"""How many times as many examples; 0 for the same ones each time."""
EXAMPLES_VARIABLE = "STRATA_EXAMPLES"
"""Names how many examples are drawn for a property that does not say it itself; 100 unless it is set."""
FOUND = REPOSITORY / ".strata" / "properties"
"""Examples that failed: the next round with new ones begins with them."""
# How long an example takes depends on what else the machine does.
_NOTHING_IS_TIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


def load_profile() -> None:
    """Tells Hypothesis, once and before any test module is imported."""
    examples = int(os.environ.get(EXAMPLES_VARIABLE, "100"))
    settings.register_profile("same", derandomize=True, database=None, max_examples=examples, **_NOTHING_IS_TIMED)
    settings.register_profile(
        "new", database=DirectoryBasedExampleDatabase(FOUND), print_blob=True, **_NOTHING_IS_TIMED
    )
    settings.load_profile("new" if TIMES else "same")
    if not TIMES:
        _forget_constants_of_our_code()


def _forget_constants_of_our_code() -> None:
    """One value in twenty is a constant of the modules that are loaded just then: another seed for each change of the
    product, and for each choice of tests (Hypothesis from 6.131 on; it has no setting)."""
    nothing = providers._local_constants
    if not hasattr(providers, "_get_local_constants") or len(nothing):
        raise RuntimeError("Hypothesis keeps the constants of local modules elsewhere by now")
    providers._get_local_constants = lambda: nothing


def multiply(tests: Iterable[Any]) -> None:
    """Gives each property among these `TIMES` as many examples as it has by itself."""
    name = "_hypothesis_internal_use_settings"
    for test in filter(is_hypothesis_test, tests):
        its = getattr(test, name)
        setattr(test, name, settings(parent=its, max_examples=its.max_examples * TIMES))


def main() -> int:
    """Draws new examples until the time is up, one round at least; ends with the first round that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--times", type=int, default=5, help="as many examples in a round as the tests have")
    given = parser.parse_args()
    end = time.monotonic() + given.minutes * 60
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "hypothesis and not mysql"]
    environ = {**os.environ, "STRATA_PROPERTIES": str(given.times)}
    failed = subprocess.run(command, env=environ, cwd=REPOSITORY, check=False).returncode
    while not failed and time.monotonic() < end:
        failed = subprocess.run(command, env=environ, cwd=REPOSITORY, check=False).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
