"""What is said to somebody who misspells a topic."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.near_topics import nearest_names
from ledgerfs.bucket.wanted_topics import wanted_ledgers
from ledgerfs.errors import NotFoundError
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.invoked import run
from tests.support.ledgers import offload, put_in_folder

NAMES = [
    "public/default/persistent/orders",
    "public/default/persistent/payments",
    "public/default/persistent/clicks-partition-0",
    "public/default/persistent/clicks-partition-1",
    "acme/shop/persistent/Invoices",
    "acme/shop/persistent/f%C3%BCr+alle",
]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    folder = tmp_path_factory.mktemp("near")
    made = [offload([frame(metadata(), b"x")], number, uuid=number + 1, name=name) for number, name in enumerate(NAMES)]
    return open_bucket(put_in_folder(folder, *made))


def by_topic(bucket: Bucket, name: str) -> object:
    return bucket.topic(name)


def by_names_of_spark(bucket: Bucket, name: str) -> object:
    return wanted_ledgers(bucket.catalog, [name])


MEANT = [
    ("public/default/ordres", "did you mean persistent://public/default/orders?"),
    ("persistent://public/default/ordres", "did you mean persistent://public/default/orders?"),
    ("ORDERS", "did you mean persistent://public/default/orders?"),
    ("publik/default/orders", "did you mean persistent://public/default/orders?"),
    ("orders-partition-3", "did you mean persistent://public/default/orders?"),
    ("click", "did you mean persistent://public/default/clicks?"),
    ("clicks-partition-7", "did you mean persistent://public/default/clicks?"),
    ("cliks-partition-1", "did you mean persistent://public/default/clicks-partition-1?"),
    ("invoice", "no ledger of this topic in the bucket"),
    ("public/default/Invoices", "did you mean persistent://acme/shop/Invoices?"),
    ("acme/shop/für alles", "did you mean persistent://acme/shop/für alle?"),
    ("acme/shop/nothing-like-it", "no ledger of this topic in the bucket"),
]  # fmt: skip


@for_each("ask", [by_topic, by_names_of_spark])
@for_each(("name", "says"), MEANT)
def test_a_misspelt_topic_names_the_nearest_ones(
    bucket: Bucket, ask: Callable[[Bucket, str], object], name: str, says: str
) -> None:
    with pytest.raises(NotFoundError, match="no ledger of this topic in the bucket") as caught:
        ask(bucket, name)
    assert str(caught.value).endswith(says)
    assert caught.value.key.startswith("persistent://")


def test_commands_say_so(bucket: Bucket, tmp_path: Path) -> None:
    for command in (["head"], ["count"], ["export", "out"]):
        arguments = [command[0], bucket.store.url, "ordres", *(str(tmp_path / name) for name in command[1:])]
        assert b"did you mean persistent://public/default/orders?" in run(*arguments, code=2).stderr


def test_at_most_three_and_the_nearest_first() -> None:
    names = [f"public/default/persistent/orders-{letter}" for letter in "abcdefgh"]
    found = nearest_names("public/default/persistent/orders-c1", names)
    assert found[0] == names[2]
    assert len(found) == 3


def test_names_that_nobody_would_give_a_topic() -> None:
    names = ["", "/", "a" * 10_000, "\ud800\n", "public/default/persistent/" + "b" * 300, None]
    assert nearest_names("public/default/persistent/" + "b" * 299, names) == [names[4]]
    assert nearest_names("b" * 5000, names) == []
    assert nearest_names("public/default/persistent/orders", []) == []
