"""What brokers serve, compared with the bucket."""
