"""For operators of a source: what keeps it from working, numbers for monitoring, lineage.
Not here: how far each step has come (`progress/`), showing it (`cli/`, `serve/`, `airflow/`)."""
