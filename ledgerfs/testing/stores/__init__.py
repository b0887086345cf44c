"""The suite for stores: each module tests one part of what `ledgerfs.storage.object_store` and `object_writes` promise."""
