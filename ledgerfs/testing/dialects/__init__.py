"""The suite for dialects: each module tests one part of what `ledgerfs.ledgers.dialect` and `ledgerfs.ledgers.reader` promise."""
