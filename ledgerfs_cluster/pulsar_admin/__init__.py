"""Requests to a broker's admin API over HTTP, and its answers."""
