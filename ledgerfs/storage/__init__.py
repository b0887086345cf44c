"""Objects in any store: the protocols, S3, local folders, everything else through fsspec; retries, uploads, traffic."""
