"""The checking step: staged files to a stored verdict."""
