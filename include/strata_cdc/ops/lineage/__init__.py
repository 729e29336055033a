"""What steps have read and written, for lineage tools."""
