"""Test suites that a new store or layout inherits, for every promise of their interfaces. Needs pytest (the extra ``testing``).

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
    "FilesystemPlace",
    "FolderPlace",
    "KnownLedger",
    "LayoutTests",
    "SampleBucket",
    "StorePlace",
    "StoreTests",
    "WritablePlace",
    "WritableStoreTests",
]

if TYPE_CHECKING:
    from ledgerfs.testing.layouts.sample import Damage, KnownLedger, SampleBucket
    from ledgerfs.testing.layouts.suite import LayoutTests
    from ledgerfs.testing.stores.place import FilesystemPlace, FolderPlace, StorePlace, WritablePlace
    from ledgerfs.testing.stores.suite import StoreTests, WritableStoreTests

# Before their import, so that a failed assertion shows the difference.
pytest.register_assert_rewrite("ledgerfs.testing.stores", "ledgerfs.testing.layouts")

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Damage": "ledgerfs.testing.layouts.sample",
        "LayoutTests": "ledgerfs.testing.layouts.suite",
        "FilesystemPlace": "ledgerfs.testing.stores.place",
        "FolderPlace": "ledgerfs.testing.stores.place",
        "KnownLedger": "ledgerfs.testing.layouts.sample",
        "SampleBucket": "ledgerfs.testing.layouts.sample",
        "StorePlace": "ledgerfs.testing.stores.place",
        "StoreTests": "ledgerfs.testing.stores.suite",
        "WritablePlace": "ledgerfs.testing.stores.place",
        "WritableStoreTests": "ledgerfs.testing.stores.suite",
    },
)
