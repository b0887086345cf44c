"""Plan the work on all topics, with reasons: actions that are due, that wait, and that are refused. Pure functions."""
