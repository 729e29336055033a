"""What Airflow's list of providers shows of Strata (`airflow providers list`).
Not here: the plugins, which Airflow finds by entry points of their own (`plugins/`)."""

from __future__ import annotations


def provider_info() -> dict[str, str]:
    """Airflow calls it by the entry point `apache_airflow_provider`; the form is `provider_info.schema.json`."""
    return {
        "package-name": "strata-cdc",
        "name": "Strata",
        "description": "MySQL and MariaDB binlogs, decoded with the schema of each GTID, into checked Delta tables.",
    }
