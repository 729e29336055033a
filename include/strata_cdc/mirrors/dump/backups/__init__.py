"""Backups that other programs have made, used instead of a dump."""
