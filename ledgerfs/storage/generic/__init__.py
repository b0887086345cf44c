"""Use any fsspec filesystem as an object store."""
