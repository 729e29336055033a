"""Backups that other programs have made, taken in the place of a dump."""
