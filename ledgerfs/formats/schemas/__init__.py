"""Schemas of values: their texts as Pulsar stores them, and the types that they define."""
