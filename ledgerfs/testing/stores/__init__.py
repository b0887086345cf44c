"""The suite for stores: each module tests one part of `ledgerfs.storage.object_store` and `object_writes`."""
