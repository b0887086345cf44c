"""Verification and repair of a bucket, as far as they are the same for every dialect."""
