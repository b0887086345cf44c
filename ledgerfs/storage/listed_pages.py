"""Pages of a listing: each key once, and an error for a listing that does not advance.

S3-compatible stores page differently: some send the same token with every page, some send none, some list keys twice or unsorted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ledgerfs.errors import StoreError
from ledgerfs.storage.objects import ObjectStat

_MOST_EMPTY_PAGES = 1000


@dataclass(frozen=True, slots=True)
class ListedPage:
    """One answer of a store.

    Attributes
    ----------
    stats
        The listed objects and folders.
    is_last
        Whether this is the last page.
    token
        Where the next page begins; None if the store sent no token.

    """

    stats: list[ObjectStat]
    is_last: bool = True
    token: str | None = None


@dataclass(frozen=True, slots=True)
class PagePosition:
    """The start of a page: a token, a key to list after, or the beginning of the listing if both are None."""

    token: str | None = None
    start_after: str | None = None


def each_key_once(fetch: Callable[[PagePosition], ListedPage], url: str) -> Iterator[list[ObjectStat]]:
    """Yield the pages of a listing, each key once.

    Follows the store's tokens while they are new and lead to new keys. Otherwise requests the keys after the greatest one, if all keys
    arrived in order; an unsorted listing would lose keys. Raises `StoreError` if that returns no new key.
    """
    seen: set[str] = set()
    tokens: set[str] = set()
    greatest, last, is_sorted, empty_pages = "", "", True, 0
    position = PagePosition()
    while True:
        page = fetch(position)
        new = list({stat.key: stat for stat in page.stats if stat.key not in seen}.values())
        seen.update(stat.key for stat in new)
        greatest = max([greatest, *(stat.key for stat in new)])
        # A page has its folders before its objects.
        objects = [last, *(stat.key for stat in new if not stat.key.endswith("/"))]
        is_sorted, last = is_sorted and objects == sorted(objects), objects[-1]
        yield new
        if page.is_last:
            return
        empty_pages = 0 if new else empty_pages + 1
        is_repeated = bool(page.stats) and not new
        if page.token and page.token not in tokens and not is_repeated and empty_pages < _MOST_EMPTY_PAGES:
            tokens.add(page.token)
            position = PagePosition(token=page.token)
        elif greatest and is_sorted and (new or position.start_after is None):
            position = PagePosition(start_after=greatest)
        else:
            raise stalled_listing(url, len(seen))


def stalled_listing(url: str, count: int) -> StoreError:
    """Return the error for a store that announces more than ``count`` keys, but repeats the same ones."""
    return StoreError(
        f"the listing does not advance: the store reports more keys after {count:,} keys, but lists the same keys again. "
        "Try another endpoint or a newer version of the store",
        key=url,
    )
