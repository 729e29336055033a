"""What runs on Spark: jobs for spark-submit, and queries of the past."""
