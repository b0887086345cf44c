"""Compare restored topics, read through brokers, with the bucket."""
