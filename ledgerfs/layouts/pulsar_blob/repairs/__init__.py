"""Repairs of offloaded objects from the bucket alone; deletes only proven garbage."""
