"""The decoding step: a planned slice to staged files, or whole files to rows."""
