"""Repairs of offloaded objects from the bucket alone; deletes only what is proved to be garbage."""
