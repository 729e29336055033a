"""What steps have read and written, for who draws lineage."""
