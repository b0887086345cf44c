"""A bucket as a user sees it: opening it, its topics and ledgers, catalogs kept on disk, and how it is cut into parts."""
