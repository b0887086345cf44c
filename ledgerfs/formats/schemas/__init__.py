"""Schemas of values: the texts that Pulsar keeps, and what they mean."""
