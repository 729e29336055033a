"""Who is told of DDL, and when: following a live server's stream, and versions that nobody was told of yet."""
