"""What a new store or dialect inherits: suites that test every promise of the seams. Needs pytest (the extra ``testing``).

::

    class TestMyStore(StoreTests):
        @pytest.fixture
        def place(self) -> StorePlace: ...
"""

from typing import TYPE_CHECKING

import pytest

from ledgerfs.exports import lazy_exports

__all__ = [
    "Damage",
    "DialectTests",
    "FilesystemPlace",
    "FolderPlace",
    "KnownLedger",
    "SampleBucket",
    "StorePlace",
    "StoreTests",
    "WritablePlace",
    "WritableStoreTests",
]

if TYPE_CHECKING:
    from ledgerfs.testing.dialects.sample import Damage, KnownLedger, SampleBucket
    from ledgerfs.testing.dialects.suite import DialectTests
    from ledgerfs.testing.stores.place import FilesystemPlace, FolderPlace, StorePlace, WritablePlace
    from ledgerfs.testing.stores.suite import StoreTests, WritableStoreTests

# Before they are imported: then a test that fails shows what differs.
pytest.register_assert_rewrite("ledgerfs.testing.stores", "ledgerfs.testing.dialects")

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Damage": "ledgerfs.testing.dialects.sample",
        "DialectTests": "ledgerfs.testing.dialects.suite",
        "FilesystemPlace": "ledgerfs.testing.stores.place",
        "FolderPlace": "ledgerfs.testing.stores.place",
        "KnownLedger": "ledgerfs.testing.dialects.sample",
        "SampleBucket": "ledgerfs.testing.dialects.sample",
        "StorePlace": "ledgerfs.testing.stores.place",
        "StoreTests": "ledgerfs.testing.stores.suite",
        "WritablePlace": "ledgerfs.testing.stores.place",
        "WritableStoreTests": "ledgerfs.testing.stores.suite",
    },
)
