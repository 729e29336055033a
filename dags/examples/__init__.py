"""Examples of DAGs that read what Strata publishes; none of them runs by itself."""
