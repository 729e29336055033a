"""Airflow DAGs."""
