"""What spark-submit runs."""
