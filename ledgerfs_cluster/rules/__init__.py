"""What lies in a living cluster as a whole, and what a broker would do with it: surveys, dumps, retention, offload thresholds, cursors."""
