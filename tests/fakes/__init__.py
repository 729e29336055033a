"""Second implementations of ports, small and real; each passes the same tests as the first."""
