"""Object stores: the protocols, and their implementations for S3, local folders and other filesystems of fsspec."""
