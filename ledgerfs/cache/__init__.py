"""What reads leave behind for later reads. Knows nothing of what the bytes mean."""
