"""Listings of stores that page in odd ways: each key once, or one error. A listing is a function from a position to a page here."""

import random
from collections.abc import Callable

import pytest

from ledgerfs.errors import StoreError
from ledgerfs.storage.listed_pages import ListedPage, PagePosition, each_key_once
from ledgerfs.storage.objects import ObjectStat

KEYS = [f"key-{number:03}" for number in range(95)]
PAGE = 10


def stats(keys: list[str]) -> list[ObjectStat]:
    return [ObjectStat(key, 1, 0, "") for key in keys]


class Store:
    """A store of `KEYS`; ``quirk`` changes each of its pages, and the requests are counted."""

    def __init__(self, keys: list[str], quirk: Callable[[ListedPage, PagePosition], ListedPage], **obeys: bool) -> None:
        self.keys = keys
        self.quirk = quirk
        self.obeys = {"token": True, "start_after": True, **obeys}
        self.requests = 0

    def page(self, position: PagePosition) -> ListedPage:
        self.requests += 1
        assert self.requests < 2000, "the listing never ends"
        start = int(position.token) if position.token is not None and self.obeys["token"] else 0
        after = position.start_after if self.obeys["start_after"] else None
        keys = [key for key in self.keys if after is None or key > after]
        end = start + PAGE
        page = ListedPage(stats(keys[start:end]), end >= len(keys), str(end))
        return self.quirk(page, position)


def as_it_is(page: ListedPage, _: PagePosition) -> ListedPage:
    return page


def without_token(page: ListedPage, _: PagePosition) -> ListedPage:
    return ListedPage(page.stats, page.is_last)


def with_one_token(page: ListedPage, _: PagePosition) -> ListedPage:
    return ListedPage(page.stats, page.is_last, "0")


def twice(page: ListedPage, _: PagePosition) -> ListedPage:
    return ListedPage([one for stat in page.stats for one in (stat, stat)], page.is_last, page.token)


def page_twice(page: ListedPage, _: PagePosition) -> ListedPage:
    return ListedPage(page.stats * 2, page.is_last, page.token)


def with_empty_pages(page: ListedPage, position: PagePosition) -> ListedPage:
    """Send an empty page with a new token before each page, as S3 may."""
    if position.token is not None and not position.token.startswith("0"):
        return ListedPage([], is_last=False, token=f"0{position.token}")
    return page


def listed(store: Store) -> list[str]:
    return [stat.key for page in each_key_once(store.page, "s3://tier") for stat in page]


SHUFFLED = random.Random(1).sample(KEYS, len(KEYS))


@pytest.mark.parametrize(
    "store",
    [
        Store(KEYS, as_it_is),
        Store(KEYS, as_it_is, start_after=False),
        Store(KEYS, without_token, token=False),
        Store(KEYS, with_one_token),
        Store(KEYS, twice),
        Store(KEYS, page_twice),
        Store(KEYS, with_empty_pages),
        Store(SHUFFLED, as_it_is, start_after=False),
        Store(SHUFFLED, twice, start_after=False),
        Store(KEYS[:1], without_token),
        Store([], as_it_is),
    ],
    ids=lambda store: f"{store.quirk.__name__}-{len(store.keys)}",
)
def test_each_key_comes_once(store: Store) -> None:
    found = listed(store)
    assert sorted(found) == sorted(store.keys)
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    "store",
    [
        Store(KEYS, without_token, token=False, start_after=False),
        Store(KEYS, with_one_token, start_after=False),
        Store(SHUFFLED, with_one_token, start_after=False),
        Store(SHUFFLED, with_one_token),
        Store(SHUFFLED, without_token, token=False),
        Store(KEYS, lambda page, position: ListedPage(page.stats, is_last=False, token=page.token)),
        Store([], lambda page, position: ListedPage([], is_last=False)),
        Store([], lambda page, position: ListedPage([], is_last=False, token=f"{position.token or ''}1")),
    ],
    ids=[
        "no token",
        "one token",
        "one token, shuffled",
        "one token, shuffled, behind a key",
        "no token, shuffled, behind a key",
        "never the last",
        "nothing and more",
        "nothing for ever",
    ],
)
def test_a_listing_that_does_not_advance_is_an_error(store: Store) -> None:
    if store.keys == []:
        store.page = lambda position: store.quirk(ListedPage([]), position)  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="does not advance"):
        listed(store)
