"""Any filesystem of fsspec as an object store."""
