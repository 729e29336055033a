"""The proof: change tables replayed and compared with the server's rows."""
