"""Where ledgers end that are still written: never behind what is confirmed, and never before what those bookies confirm that answer."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from ledgerfs.catalog.findings import Severity
from ledgerfs.errors import MissingLedgerError, NotFoundError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.verification.verify import verify
from ledgerfs_cluster.bookies.asking import ends_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.live_source.listed_ledgers import ListedLedgers
from tests.cluster.support.live_clusters import CLOSED, IN_RECOVERY, TOPIC, LiveCluster, messages
from tests.cluster.support.live_reads import entries_of, only_reading, opened, values_of, whole
from tests.cluster.support.patience import Patience

pytestmark = pytest.mark.usefixtures("impatient")


def ends(cluster: LiveCluster) -> list[int]:
    """Return how many entries a topic has by its confirmed ones, and by its acknowledged ones."""
    return ends_of_all(cluster, [TOPIC])[TOPIC]


def ends_of_all(cluster: LiveCluster, topics: Iterable[str]) -> dict[str, list[int]]:
    """Return the same of several topics, of one listing for each kind of end."""
    with only_reading(cluster):
        confirmed, acknowledged = (opened(cluster, open_end=end) for end in ("confirmed", "acknowledged"))
        found = {topic: [entries_of(confirmed, topic), entries_of(acknowledged, topic)] for topic in topics}
    for topic, (first, second) in found.items():
        assert second[: len(first)] == first, topic
        expected = cluster.entries_of(topic)
        assert all(rows == expected[: len(rows)] for rows in (first, second)), topic
    return {topic: [len(rows) for rows in both] for topic, both in found.items()}


def test_the_last_entry_is_acknowledged_and_not_confirmed(cluster: LiveCluster) -> None:
    expected = {}
    for quorums in [(3, 2, 2), (3, 3, 2), (2, 2, 1), (1, 1, 1), (3, 1, 1)]:
        for count in (0, 1, 2, 10, 1024):
            topic = f"public/default/{count}-on-{'-'.join(map(str, quorums))}"
            cluster.write_ledgers(topic, [messages(count)], quorums=quorums)
            expected[topic] = [max(0, count - 1), count]
    assert ends_of_all(cluster, expected) == expected


def test_a_burst_that_no_entry_confirms(cluster: LiveCluster) -> None:
    expected = {}
    for confirmed in (-1, 0, 5, 98):
        topic = f"public/default/confirmed{confirmed}"
        cluster.write_ledger(topic, messages(200), confirmed=confirmed)
        expected[topic] = [confirmed + 1, 200]
    assert ends_of_all(cluster, expected) == expected


def test_entries_behind_a_gap_are_not_acknowledged(cluster: LiveCluster) -> None:
    ledger_id = cluster.write_ledger(TOPIC, messages(10))
    cluster.append(ledger_id, messages(1, "lost"), only_on=1)
    cluster.append(ledger_id, messages(20, "behind"))
    assert ends(cluster) == [10, 10]


def test_a_ledger_that_grows_is_longer_the_next_time(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(10))
    bucket = opened(cluster)
    for count in (10, 30, 31, 500):
        cluster.publish(TOPIC, messages(count - len(cluster.entries_of(TOPIC))))
        bucket.refresh()
        assert entries_of(bucket) == cluster.entries_of(TOPIC)[:-1]
    # What was listed is read, however long the ledger has become.
    listed = bucket.topic(TOPIC).ledgers
    cluster.roll_over(TOPIC)
    assert [len(one.read(0, one.last_entry)) for one in listed] == [499]
    assert whole(cluster)


# Bookies that do not answer.


def test_acknowledged_entries_that_an_away_bookie_may_have_are_not_left_out(
    cluster: LiveCluster, patience: Patience
) -> None:
    topics = []
    for count in (1, 10, 11, 12):
        # Three ledgers, each of which begins with another bookie.
        topics += [f"public/default/{count}-{turn}" for turn in range(3)]
        for topic in topics[-3:]:
            cluster.write_ledger(topic, messages(count))
    for bookie in cluster.bookies:
        patience.forget()
        bookie.kill()
        bucket = opened(cluster, open_end="acknowledged")
        for topic in topics:
            assert entries_of(bucket, topic) == cluster.entries_of(topic), (topic, bookie.address)
        bookie.start()


def test_what_one_entry_in_flight_confirms_is_shown_again_when_its_bookie_is_back(cluster: LiveCluster) -> None:
    """The others cannot know of it, and an entry that is on one bookie alone proves nothing of itself: the listing is late, not wrong."""
    ledger_id = cluster.write_ledger(TOPIC, messages(10))
    (flying,) = cluster.append(ledger_id, messages(1, "flying"), only_on=1)
    bucket = opened(cluster)
    assert len(entries_of(bucket)) == 10
    (holder,) = [one for one in cluster.bookies if flying in one.entries(ledger_id)]
    holder.kill()
    bucket.refresh()
    assert len(entries_of(bucket)) == 9
    holder.start()
    bucket.refresh()
    assert len(entries_of(bucket)) == 10


def test_too_few_bookies_are_an_error_and_no_shorter_topic(cluster: LiveCluster, patience: Patience) -> None:
    cluster.write_ledger(TOPIC, messages(10))
    for away in ((0, 1), (1, 2), (0, 2), (0, 1, 2)):
        patience.forget()
        bucket = opened(cluster)
        for number in away:
            cluster.bookies[number].kill()
        with pytest.raises(MissingLedgerError, match="its last entry is unknown"):
            values_of(bucket)
        (finding,) = verify(bucket).findings
        for number in away:
            assert f"{cluster.bookies[number].address} does not answer" in finding.message
        for number in away:
            cluster.bookies[number].start()
        bucket.expire()
        assert len(entries_of(bucket)) == 9, away


def test_how_many_may_be_away_follows_from_the_acknowledgements(cluster: LiveCluster, patience: Patience) -> None:
    may_be_away = {(2, 1): 0, (2, 2): 1, (3, 2): 1, (3, 3): 2}
    topics = {quorums: f"public/default/{quorums[0]}-{quorums[1]}" for quorums in may_be_away}
    for quorums, topic in topics.items():
        cluster.write_ledgers(topic, [messages(20)], quorums=(3, *quorums))
    for away in range(3):
        patience.forget()
        if away:
            cluster.bookies[away].kill()
        bucket = opened(cluster)
        missing = {one.managed_ledger: (one.ledgers, one.missing) for one in bucket.topics()}
        for quorums, topic in topics.items():
            if away <= may_be_away[quorums]:
                assert len(entries_of(bucket, topic)) == 19, (quorums, away)
            else:
                assert missing[managed_ledger_of(topic)] == (0, 1), (quorums, away)


def test_a_silent_bookie_costs_two_time_outs_however_many_ledgers_are_open(
    cluster: LiveCluster, patience: Patience
) -> None:
    for i in range(300):
        cluster.write_ledger(f"public/default/t{i}", messages(2))
    silent = cluster.bookies[1]
    silent.is_silent = True
    patience.shorten(silent)
    assert len(opened(cluster).topics()) == 300
    # One when ends are asked for, and one when their lengths are.
    assert patience.timeouts == {silent.address: 2}


def damage_of(cluster: LiveCluster) -> list[str]:
    """Return what is damaged of the topic, which another one is read beside, and which is never said to be read whole."""
    cluster.write_ledger("public/default/other", messages(5))
    bucket = opened(cluster)
    assert [(one.name, one.ledgers, one.missing) for one in bucket.topics()] == [
        (f"persistent://{TOPIC}", 0, 1),
        ("persistent://public/default/other", 1, 0),
    ]
    with pytest.raises(MissingLedgerError, match="cannot be read as a ledger"):
        values_of(bucket)
    found = verify(bucket).findings
    assert {one.severity for one in found} == {Severity.DAMAGE}
    return [f"{one.key}: {one.message.partition(':')[0]}" for one in found]


def test_damaged_newest_entries(cluster: LiveCluster) -> None:
    ledger_id = cluster.write_ledger(TOPIC, messages(10))
    holders = [one for one in cluster.bookies if 9 in one.entries(ledger_id)]
    holders[0].corrupt(ledger_id, 9)
    assert len(entries_of(opened(cluster))) == 9
    holders[1].corrupt(ledger_id, 9)
    assert damage_of(cluster) == [f"ledger {ledger_id}: cannot read the last entry id from any bookie"]


def test_the_last_confirmed_entry_is_damaged_everywhere(cluster: LiveCluster) -> None:
    ledger_id = cluster.write_ledger(TOPIC, messages(10))
    for bookie in cluster.bookies:
        if 8 in bookie.entries(ledger_id):
            bookie.corrupt(ledger_id, 8)
    assert damage_of(cluster) == [f"ledger {ledger_id}: cannot read the last confirmed entry (LAC) from any bookie"]


# Ensembles.


def test_an_ensemble_without_an_entry_of_its_own(tmp_path: Path) -> None:
    topics = {f"public/default/{count}": count for count in (1, 2, 20)}
    with LiveCluster(tmp_path, bookies=6) as cluster:
        for topic, count in topics.items():
            ledger_id = cluster.write_ledger(topic, messages(count))
            old = cluster.written[ledger_id].node.ensembles[-1].bookies
            # What an ensemble begins behind is confirmed.
            cluster.change_ensemble(ledger_id, count, [one for one in cluster.bookies if one.address not in old])
        assert ends_of_all(cluster, topics) == {topic: [count, count] for topic, count in topics.items()}
        for topic in topics:
            cluster.publish(topic, messages(1, "new"))
        assert ends_of_all(cluster, topics) == {topic: [count, count + 1] for topic, count in topics.items()}


def test_a_bookie_dies_while_the_ledger_is_written(tmp_path: Path) -> None:
    with LiveCluster(tmp_path, bookies=4) as cluster:
        ledger_id = cluster.write_ledger(TOPIC, messages(20))
        cluster.bookies[
            int(cluster.bookies[0].address not in cluster.written[ledger_id].node.ensembles[0].bookies)
        ].kill()
        cluster.publish(TOPIC, messages(19, "after"))
        assert len(cluster.written[ledger_id].node.ensembles) == 2
        assert ends(cluster) == [38, 39]


# States.


def test_ledgers_that_are_not_open_any_more(cluster: LiveCluster) -> None:
    topics = [f"public/default/{state}" for state in ("recovery", "unloaded", "closed", "terminated")]
    recovery, unloaded, closed, terminated = topics
    cluster.write_ledger(recovery, messages(10), state=IN_RECOVERY)
    ledger_id = cluster.write_ledger(unloaded, messages(10), state=CLOSED)
    assert cluster.list_of(unloaded).ledgers[-1] == LedgerInfo(ledger_id, 0, 0, 0)
    # What lies behind the end of a closed ledger is none of it.
    cluster.close(cluster.write_ledger(closed, messages(20)), 11)
    cluster.write_ledger(terminated, messages(20))
    cluster.terminate(terminated)
    expected = {recovery: [9, 10], unloaded: [10, 10], closed: [12, 12], terminated: [20, 20]}
    assert ends_of_all(cluster, topics) == expected


# What happens while a cluster is listed.


def when_ends_are_asked(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    def meanwhile(*args: object, **kwargs: object) -> object:
        monkeypatch.undo()
        then()
        return ends_of(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr("ledgerfs_cluster.live_source.listed_ledgers.ends_of", meanwhile)


def after_the_list(cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Have something happen after the lists were read, and before the nodes of open ledgers are."""
    find_ends = ListedLedgers.find_ends

    def meanwhile(self: ListedLedgers, progress: object) -> None:
        monkeypatch.undo()
        then()
        find_ends(self, progress)  # type: ignore[arg-type]

    monkeypatch.setattr(ListedLedgers, "find_ends", meanwhile)


@pytest.mark.parametrize("count", [0, 1, 10])
@pytest.mark.parametrize("is_behind_the_node", [False, True])
def test_rolled_over_while_listed(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch, count: int, *, is_behind_the_node: bool
) -> None:
    cluster.write_ledger(TOPIC, messages(50, "old"))
    cluster.write_ledger(TOPIC, messages(count))

    def roll_over() -> None:
        cluster.roll_over(TOPIC)
        cluster.publish(TOPIC, messages(7, "next"))

    if is_behind_the_node:
        when_ends_are_asked(monkeypatch, roll_over)
    else:
        after_the_list(cluster, monkeypatch, roll_over)
    found = entries_of(opened(cluster, open_end="acknowledged"))
    expected = cluster.entries_of(TOPIC)
    # All that was there when the listing began; nothing of the next ledger without all of this one.
    assert found == expected[: len(found)]
    assert len(found) >= 50 + count


@pytest.mark.parametrize("open_end", ["confirmed", "acknowledged"])
def test_other_bookies_while_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_end: str) -> None:
    with LiveCluster(tmp_path, bookies=6) as cluster:
        ledger_id = cluster.write_ledger(TOPIC, messages(10))
        old = [one for one in cluster.bookies if one.address in cluster.written[ledger_id].node.ensembles[0].bookies]

        def move() -> None:
            cluster.change_ensemble(ledger_id, 0, [one for one in cluster.bookies if one not in old])
            for one in old:
                one.kill()

        when_ends_are_asked(monkeypatch, move)
        assert len(entries_of(opened(cluster, open_end=open_end))) == (9 if open_end == "confirmed" else 10)


def test_a_topic_that_is_taken_again_while_its_end_is_asked_for_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger of its list is gone, and the last one gets other bookies: both are reasons to ask again, each in its way."""
    with LiveCluster(tmp_path, bookies=6) as cluster:
        ledger_id = cluster.write_ledger(TOPIC, messages(10))
        gone = LedgerInfo(ledger_id - 1, 0, 0, 5)
        cluster.change_list(TOPIC, lambda info: replace(info, ledgers=(gone, *info.ledgers)))
        old = [one for one in cluster.bookies if one.address in cluster.written[ledger_id].node.ensembles[0].bookies]

        def move() -> None:
            cluster.change_ensemble(ledger_id, 0, [one for one in cluster.bookies if one not in old])
            for one in old:
                one.kill()
            cluster.change_list(TOPIC, lambda info: replace(info, ledgers=info.ledgers[1:]))

        when_ends_are_asked(monkeypatch, move)
        bucket = opened(cluster)
        assert bucket.catalog.ledgers["ledger_id"].tolist() == [ledger_id]
        assert len(entries_of(bucket)) == 9


def test_the_topic_gets_two_ledgers_while_it_is_listed(cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ledgers of unknown end that both go: the topic is taken once."""
    cluster.write_ledger(TOPIC, messages(50, "old"))
    first = cluster.write_ledger(TOPIC, messages(5))
    cluster.change_list(
        TOPIC,
        lambda info: replace(
            info, ledgers=(*info.ledgers, LedgerInfo(first + 100, 0, 0, 0), LedgerInfo(first + 101, 0, 0, 0))
        ),
    )

    def drop() -> None:
        cluster.change_list(
            TOPIC, lambda info: replace(info, ledgers=tuple(one for one in info.ledgers if one.ledger_id <= first))
        )

    after_the_list(cluster, monkeypatch, drop)
    assert entries_of(opened(cluster, open_end="acknowledged")) == cluster.entries_of(TOPIC)


def test_deleted_while_listed(cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.write_ledger(TOPIC, messages(50, "old"))
    cluster.write_ledger(TOPIC, messages(5))
    cluster.write_ledger("public/default/other", messages(5))

    def delete() -> None:
        for one in cluster.list_of(TOPIC).ledgers:
            cluster.delete_from_bookkeeper(one.ledger_id)
        cluster.zookeeper.delete("/managed-ledgers/public/default/persistent/orders")

    after_the_list(cluster, monkeypatch, delete)
    assert [one.name for one in opened(cluster).topics()] == ["persistent://public/default/other"]


def test_a_last_ledger_that_bookkeeper_does_not_have_is_reported(cluster: LiveCluster) -> None:
    cluster.write_ledger(TOPIC, messages(50, "old"))
    lost = cluster.write_ledger(TOPIC, messages(5))
    cluster.delete_from_bookkeeper(lost)
    bucket = opened(cluster)
    with pytest.raises(
        MissingLedgerError,
        match=f"ledger {lost}: it is in the topic's ledger list, but neither in BookKeeper nor in a bucket",
    ):
        values_of(bucket)
    assert len(values_of(bucket, on_corrupt="skip")) == 50
    with pytest.raises((NotFoundError, MissingLedgerError)):
        bucket.ledger(lost)


def test_a_topic_that_is_just_made(cluster: LiveCluster) -> None:
    cluster.zookeeper.set("/managed-ledgers/public/default/persistent/new", b"")
    bucket = opened(cluster)
    assert [(one.name, one.ledgers) for one in bucket.topics()] == [("persistent://public/default/new", 0)]
    assert values_of(bucket, "public/default/new") == []
