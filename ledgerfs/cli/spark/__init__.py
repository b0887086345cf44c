"""``ledgerfs spark``: what is done with a bucket by a Spark session, on this machine or on a cluster."""
