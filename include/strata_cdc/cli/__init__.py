"""The `strata` command. What a command needs is imported when it runs: its help, and the refusal of a wrong option,
load neither Arrow nor a web server.
Not here: the work itself (`pipeline/`)."""
