"""Asking bookies for entries, by BookKeeper's own protocol: reads only, of which none fences."""
