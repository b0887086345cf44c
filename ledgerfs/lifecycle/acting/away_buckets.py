"""Buckets that could not be reached: the first one that finds that out waits for it, and all else of the pass does not."""

from collections.abc import Iterator
from contextlib import contextmanager

from ledgerfs.errors import StoreUnreachableError


class AwayBuckets:
    """Knows which buckets did not answer, by URL. For one thread."""

    __slots__ = ("_away",)

    def __init__(self) -> None:
        self._away: set[str] = set()

    def require_near(self, url: str) -> None:
        """Raise `StoreUnreachableError` for a bucket that did not answer."""
        if url in self._away:
            reason = "the bucket cannot be reached, and is not asked again in this pass"
            raise StoreUnreachableError(reason, key=url)

    @contextmanager
    def reaching(self, url: str) -> Iterator[None]:
        """Do something that asks this bucket, and nobody else, unless it did not answer before; raises as `require_near`."""
        self.require_near(url)
        try:
            yield
        except StoreUnreachableError:
            self._away.add(url)
            raise

    def forget(self) -> None:
        """Have all asked again: another pass begins."""
        self._away.clear()
