"""S3-speaking stores, at the level of their requests."""
