"""What repairs find, in the words of `verify` where it finds the same (``docs/operating/verify.md``, ``docs/operating/repair.md``)."""

DATA_WITHOUT_INDEX = "data-without-index"
INDEX_WITHOUT_DATA = "index-without-data"
UNREADABLE_INDEX = "unreadable-index"
NO_VERSION_KEY = "no-version-key"
UNFINISHED_UPLOAD = "unfinished-upload"
GCS_PART = "gcs-part"

REPAIRED_KINDS = frozenset({DATA_WITHOUT_INDEX, INDEX_WITHOUT_DATA, UNREADABLE_INDEX, NO_VERSION_KEY})
"""Of these, repairs tell all that `verify` does."""
