"""A plan and a run, from beginning to end."""
