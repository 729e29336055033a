"""Rows of a server's SELECT as Arrow, in the values that the decoder gives of the same rows in the binlog.
Not here: which rows are wanted and why (`mirrors/dump/`, `pipeline/`), comparing them."""
