"""Time that passes when a model says so: graces, lags and retentions go by between two steps, or in the middle of one."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import stat_result

import pytest

from ledgerfs.storage.folders import store
from ledgerfs.storage.folders.files import stat_of_file
from ledgerfs.storage.objects import ObjectStat

_real_ns = time.time_ns
_real_monotonic_ns = time.monotonic_ns


class ModelClock:
    """The clock of all that decide by ms since 1970 UTC: servers, brokers, and ledgerfs. What waits for answers has the real one."""

    def __init__(self) -> None:
        self._ahead = [(0, 0)]

    def now_ms(self) -> int:
        return _real_ns() // 1_000_000 + self._ahead[-1][1]

    def pass_by(self, ms: int) -> None:
        """Have some time passed."""
        self._ahead.append((_real_ns() // 1_000_000, self._ahead[-1][1] + ms))

    def then_ms(self, real_ms: int) -> int:
        """Return what time it was by this clock when the machine's, by which files have theirs, had this one."""
        return real_ms + next(ahead for since, ahead in reversed(self._ahead) if since <= real_ms)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Have everybody use it."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time_ns", lambda: _real_ns() + self._ahead[-1][1] * 1_000_000)
            patch.setattr(time, "monotonic_ns", lambda: _real_monotonic_ns() + self._ahead[-1][1] * 1_000_000)
            patch.setattr(store, "stat_of_file", self._stat_of_file)
            yield

    def _stat_of_file(self, key: str, stat: stat_result) -> ObjectStat:
        found = stat_of_file(key, stat)
        return replace(found, modified_ms=self.then_ms(found.modified_ms))
