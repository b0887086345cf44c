"""What follows from a snapshot: retention, thresholds, ownership, orphans, loss. Reads nothing."""
