"""S3-compatible stores, at the level of requests."""
