"""Rows of a server's SELECT as Arrow, with the same values that the decoder returns for these rows in the binlog.
Not here: which rows are wanted and why (`mirrors/dump/`, `pipeline/`), comparing them."""
