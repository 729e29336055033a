"""The housekeeping step: what nobody needs any more is deleted."""
