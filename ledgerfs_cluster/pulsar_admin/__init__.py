"""Requests to a broker's admin API over HTTP, and its answers: for whatever reads or changes something there."""
