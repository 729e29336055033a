"""Tables of the lake compared with the server's: the rows that the changes amount to, and the rows that SELECT
returns."""
