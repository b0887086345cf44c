"""Keeping a bucket sound: verification and repair, as far as they are the same for every dialect."""
