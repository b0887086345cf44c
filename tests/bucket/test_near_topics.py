"""What is said to somebody who misspells a topic."""

import random
from collections.abc import Callable
from difflib import Match, SequenceMatcher
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket import near_topics
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


def test_of_many_topics_few_are_compared_letter_by_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    class Counted(SequenceMatcher[str]):
        def get_matching_blocks(self) -> list[Match]:
            compared.append(str(self.a))
            return super().get_matching_blocks()

    monkeypatch.setattr(near_topics, "SequenceMatcher", Counted)
    # Letters are counted for so many names at once: these are several of that.
    monkeypatch.setattr(near_topics, "_STEP", 1 << 10)
    source = random.Random(1)
    words = ["".join(source.choices("abcdefghijklmnop", k=12)) for _ in range(5000)]
    names = [f"tenant-{source.randrange(50)}/namespace/persistent/{word}" for word in words]
    # Some have the same name in other namespaces: of them, too, not all are compared.
    names += [f"tenant-{number}/other/persistent/x{words[4777][1:]}" for number in range(500)]
    wanted = f"{names[4777][:-12]}x{words[4777][1:]}"
    assert nearest_names(wanted, names)[0] in names[5000:]
    assert 64 <= len(compared) <= 128
    compared.clear()
    wanted = names[777][:-3] + "x" + names[777][-2:]
    assert nearest_names(wanted, names)[0] == names[777]
    assert len(compared) <= 128
