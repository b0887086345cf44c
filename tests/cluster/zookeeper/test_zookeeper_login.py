"""The login at ZooKeeper: that of options, or that of the environment, and never a password with another's name."""

from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs_cluster.live_source.layout import LiveCluster as LiveSource
from ledgerfs_cluster.zookeeper.settings import PASSWORD_VARIABLE, USERNAME_VARIABLE, with_login
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.sessions import PATIENT_S
from tests.support.each import for_each

NAME, WORD = {"username": "reader"}, {"password": "s3cr3t"}
BOTH = {**NAME, **WORD}


@for_each(
    ("reported", "options", "login"),
    [
        ({}, {}, {}),
        ({}, BOTH, BOTH),
        (BOTH, {}, BOTH),
        (BOTH, NAME, BOTH),
        (WORD, NAME, BOTH),
        (BOTH, {"username": "other"}, {"username": "other"}),
        (BOTH, {"username": "other", "password": "x"}, {"username": "other", "password": "x"}),
        (BOTH, {"username": None, "use_ssl": True}, {**BOTH, "use_ssl": True}),
        ({"username": "", "password": ""}, {}, {}),
    ],
)
def test_whose_login(
    monkeypatch: pytest.MonkeyPatch, reported: dict[str, str], options: dict[str, object], login: dict[str, object]
) -> None:
    for variable, name in ((USERNAME_VARIABLE, "username"), (PASSWORD_VARIABLE, "password")):
        monkeypatch.delenv(variable, raising=False)
        if name in reported:
            monkeypatch.setenv(variable, reported[name])
    assert with_login(options) == login


def test_a_cluster_is_read_with_the_login_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LiveCluster(tmp_path) as cluster:
        cluster.write_ledger(TOPIC, messages(3))
        cluster.roll_over(TOPIC)
        before = open_bucket(cluster.url, {"timeout_s": PATIENT_S})
        monkeypatch.setenv(USERNAME_VARIABLE, "reader")
        monkeypatch.setenv(PASSWORD_VARIABLE, "s3cr3t")
        bucket = open_bucket(cluster.url, {"timeout_s": PATIENT_S})
        assert bucket.topic(TOPIC).scan().to_arrow().num_rows == 3
        assert cluster.zookeeper.logins == [("digest", b"reader:s3cr3t")]
        # What is kept of one login's listing is not another's: ZooKeeper may show them different nodes.
        assert bucket.identity != before.identity
        assert "s3cr3t" not in f"{bucket!r} {bucket.identity}"
        assert isinstance(bucket.source, LiveSource)
        bucket.source.cluster.nodes.close()
