"""``ledgerfs spark``: work on a bucket in a Spark session, on this machine or on a cluster."""
