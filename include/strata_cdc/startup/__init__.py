"""What makes commands, Spark jobs and workers start sooner, and `switch.py`, which turns it off.
Not here: anything that changes results."""
