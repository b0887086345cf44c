"""What brokers are asked to do with topics, by their admin API, and whether it was done."""
