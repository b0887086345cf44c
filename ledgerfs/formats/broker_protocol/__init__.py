"""Pulsar's binary protocol between clients and brokers, as far as a reader speaks it: frames, commands, and the entries in them."""
