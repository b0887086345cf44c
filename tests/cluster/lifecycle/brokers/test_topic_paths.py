"""Where the admin API has topics of every kind of name."""

import pytest

from ledgerfs.errors import InvalidNameError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.lifecycle.brokers.broker_api import topic_path
from tests.support.each import for_each


@for_each(
    ("topic", "path"),
    [
        ("t/ns/x", "/admin/v2/persistent/t/ns/x"),
        ("t/ns/x-partition-3", "/admin/v2/persistent/t/ns/x-partition-3"),
        ("persistent://t/ns/a b+ö%2F", "/admin/v2/persistent/t/ns/a%20b%2B%C3%B6%252F"),
        ("persistent://t/c/ns/a/b", "/admin/persistent/t/c/ns/a%2Fb"),
    ],
)
def test_names_are_quoted_once_and_those_with_a_cluster_have_paths_of_their_own(topic: str, path: str) -> None:
    assert topic_path(managed_ledger_of(topic)) == path


def test_what_is_no_topic_is_asked_of_nobody() -> None:
    for name in ("x", "t/ns/non-persistent/x", "t/ns/persistent/a b", ""):
        with pytest.raises(InvalidNameError, match="no broker has it"):
            topic_path(name)
