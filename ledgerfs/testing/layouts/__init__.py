"""The suite for layouts: each module tests one part of `ledgerfs.catalog.layout` and `ledgerfs.catalog.reader`."""
