"""Proof against a real Pulsar: what it offloads ledgerfs reads, and what ledgerfs writes its broker serves.

``make interop`` runs all of it. None of it is part of the package that users install.
"""
