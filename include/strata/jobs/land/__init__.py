"""The landing step: a server's binlog, or files, as segments."""
