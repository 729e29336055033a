"""Makes Airflow's empty database, which a first start copies: `python -m scripts.startup.migrate_airflow`.
Not here: starting Airflow (`scripts/local_airflow.py`)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.local_airflow import migrated_database


def main() -> int:
    """Makes the database, unless it exists; the exit code is that of `airflow db migrate`."""
    target = migrated_database()
    if target.exists():
        return 0
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "airflow.db"
        # A user's Airflow must not be touched.
        mine = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        environment = {
            **mine,
            "AIRFLOW_HOME": folder,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{made}",
        }
        command = [str(Path(sys.executable).with_name("airflow")), "db", "migrate"]
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
        if done.returncode == 0:
            part = target.with_suffix(".part")
            part.write_bytes(made.read_bytes())
            part.replace(target)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
