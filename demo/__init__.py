"""A small shop's life on a MySQL server: what `make demo` reads late.
Not here: running it through Airflow and judging the outcome (`scripts/demo.py`)."""
