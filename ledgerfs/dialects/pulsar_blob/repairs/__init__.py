"""What of the damage to offloaded objects can be mended in the bucket itself; deletes only what is proved to be garbage."""
