"""What tests and benchmarks share: golden buckets, made-up ledgers, stores that fail."""
