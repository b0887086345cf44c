"""The suite for layouts: each module tests one part of what `ledgerfs.catalog.layout` and `ledgerfs.catalog.reader` promise."""
