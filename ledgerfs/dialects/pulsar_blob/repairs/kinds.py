"""What repairs find, in the words of `verify` where it finds the same (``docs/operating/verify.md``, ``docs/operating/repair.md``)."""

DATA_WITHOUT_INDEX = "data-without-index"
INDEX_WITHOUT_DATA = "index-without-data"
UNREADABLE_INDEX = "unreadable-index"
NO_VERSION_KEY = "no-version-key"
UNFINISHED_UPLOAD = "unfinished-upload"
GCS_PART = "gcs-part"
