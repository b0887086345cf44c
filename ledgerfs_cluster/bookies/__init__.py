"""Read entries from bookies by BookKeeper's own protocol: only reads, without fencing."""
