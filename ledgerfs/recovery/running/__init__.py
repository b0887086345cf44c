"""A plan, a run, a check, from beginning to end, and the report of each."""
