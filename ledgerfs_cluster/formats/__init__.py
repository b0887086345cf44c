"""Bytes and values of BookKeeper, managed ledgers and schemas as they lie in a cluster; no I/O."""
