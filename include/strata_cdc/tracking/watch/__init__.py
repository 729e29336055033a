"""Notices of DDL for others: from a live server's stream, and of stored versions that were not reported yet."""
