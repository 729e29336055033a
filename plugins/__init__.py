"""Airflow plugins."""
