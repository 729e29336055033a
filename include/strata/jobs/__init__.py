"""One function a step: spec in, report out.
Not here: frameworks (`dags/`, `spark_jobs/`)."""
