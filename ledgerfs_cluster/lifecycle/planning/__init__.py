"""What is to be done with all topics now, and why; what waits; and what must not be done: pure functions."""
