"""Pure rules over a snapshot: retention, thresholds, ownership, orphans, loss."""
