"""Tables of the lake compared with the server's: what the changes amount to, and what SELECT says."""
