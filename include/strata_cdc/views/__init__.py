"""SQL views over change tables."""
