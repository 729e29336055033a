"""The steps of a run: plan, decode, check, publish, update mirrors, and what follows; one function for each step.
`steps.py` has the steps in their order (`STEPS`), `run_source.py` does them all.
Not here: frameworks (`airflow/`, `spark_jobs/`), what a step does in detail (each package)."""
