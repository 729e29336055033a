"""Strata's DAGs, in Airflow's folder of DAGs; arguments of `dags` choose sources, schedules, pools and owners."""

from strata_cdc.airflow import dags

dags(globals())
