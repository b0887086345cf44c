"""Transactions of a topic, and ledgers that a recovery writes into the bucket."""
