"""The lock of `ledgerfs.forked`."""

from ledgerfs.forked import ForkLock

__all__ = ["ForkLock"]
