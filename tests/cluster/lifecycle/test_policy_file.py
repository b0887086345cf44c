"""Policy files: what each key means, and that nothing else is taken for one."""

import os
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import InvalidOptionError
from ledgerfs_cluster.lifecycle.policy.policy_file import (
    SETTLED_S,
    PolicyFile,
    ServiceSettings,
    Via,
    parse_policy_file,
    read_policy_file,
    require_settled,
    why_other,
)
from ledgerfs_cluster.snapshot.policies import NO_LIMIT, BrokerDefaults, OffloadThresholds, Retention
from tests.support.each import for_each

FILE = Path("/etc/ledgerfs/policy.toml")
WHOLE = """
cluster = "pulsar+zk://zk1:2181"
admin = "http://broker:8080"
token_file = "token.txt"

[service]
every = "30s"
bookie_rate = "64MiB"
store_rate = "1 GiB"

[broker]
retention_minutes = 60
retention_megabytes = -1
offload_bytes = "10GiB"
offload_seconds = 3600
deletion_lag = "2h"

[defaults]
via = "direct"
trash_grace = "2h"
orphans = true
orphan_grace = "90m"
bucket = "tier"

[buckets.tier]
url = "s3://tier"
driver = "aws-s3"
bucket = "noted"
region = "us-east-1"
endpoint = "http://minio:9000"
block_size = "5MiB"
options = { anon = true }

[buckets.other]
url = "s3://other/"

[[topics]]
match = 'public/orders/.*'
offload_after = "1d"
offload_above = "1TiB"
bucket = "other"
via = "broker"
trash_grace = "0s"
trim = false
offload = false

[[topics]]
match = '.*'
offload_after = "never"
offload_above = "never"
"""


def parsed(text: str) -> PolicyFile:
    return parse_policy_file(text.encode(), FILE)


def test_every_key_is_read() -> None:
    found = parsed(WHOLE)
    assert (found.cluster, found.admin, found.token_file) == (
        "pulsar+zk://zk1:2181",
        "http://broker:8080",
        FILE.parent / "token.txt",
    )
    assert found.service == ServiceSettings(30_000, 64 << 20, 1 << 30)
    thresholds = OffloadThresholds(10 << 30, 3_600_000)
    assert found.broker == BrokerDefaults(Retention(3_600_000, NO_LIMIT), thresholds, 7_200_000)
    assert (found.via, found.trash_grace_ms, found.orphans, found.orphan_grace_ms) == (
        Via.DIRECT,
        7_200_000,
        True,
        5_400_000,
    )
    tier = found.buckets["tier"]
    assert (tier.url, tier.bucket, tier.block_size) == ("s3://tier", "noted", 5 << 20)
    assert tier.storage_options == {
        "endpoint_url": "http://minio:9000",
        "client_kwargs": {"region_name": "us-east-1"},
        "anon": True,
    }
    assert (found.bucket, found.buckets["other"].bucket, found.buckets["other"].driver) == ("tier", "other", "aws-s3")
    first, second = found.topics
    assert (first.offload_time_ms, first.offload_size) == (86_400_000, 1 << 40)
    assert (first.bucket, first.via, first.trash_grace_ms) == ("other", Via.BROKER, 0)
    assert (first.trim, first.offload) == (False, False)
    assert (second.offload_time_ms, second.offload_size) == (NO_LIMIT, NO_LIMIT)
    assert (second.trim, second.offload, second.via) == (True, True, None)


def test_an_empty_file_has_the_brokers_own_defaults() -> None:
    found = parsed("")
    assert found == PolicyFile(FILE)
    assert (found.via, found.orphans, found.broker.deletion_lag_ms) == (Via.AUTO, False, 4 * 3_600_000)


def test_options_of_buckets_are_not_shown() -> None:
    found = parsed('[buckets.tier]\nurl = "s3://tier"\noptions = { secret = "geheim" }')
    assert "geheim" not in repr(found)


BAD = [
    ("clutser = 'x'", "clutser", "did you mean cluster"),
    ("cluster = 3", "cluster", "must be a text"),
    ("service = 3", "service", "must be a table"),
    ("[service]\nevery = '0s'", "service.every", "must be from 1s"),
    ("[service]\nevery = 60", "service.every", "with a unit"),
    ("[service]\nevery = '60'", "service.every", "with a unit"),
    ("[service]\nevery = '1w'", "service.every", "invalid time"),
    ("[service]\nbookie_rate = '64 furlongs'", "service.bookie_rate", "invalid size"),
    ("[service]\nbookie_rate = '" + "9" * 400 + "'", "service.bookie_rate", "invalid size"),
    ("[service]\nbookie_rate = 0", "service.bookie_rate", "must be from 1"),
    ("[broker]\nretention_minutes = 1.5", "broker.retention_minutes", "must be a whole number"),
    ("[broker]\nretention_minutes = true", "broker.retention_minutes", "must be a whole number"),
    ("[broker]\nretention_megabytes = -2", "broker.retention_megabytes", "must be from -1"),
    ("[defaults]\nvia = 'brokers'", "defaults.via", "must be one of broker, direct, auto"),
    ("[defaults]\norphans = 1", "defaults.orphans", "must be true or false"),
    ("[defaults]\norphan_grace = '40000d'", "defaults.orphan_grace", "must be from 0"),
    ("[defaults]\nbucket = 'tier'", "defaults.bucket", "it has no buckets"),
    ("[buckets.tier]", "buckets.tier.url", "is missing"),
    ("[buckets.tier]\nurl = 's3://tier'\nblock_size = '1MiB'", "buckets.tier.block_size", "must be from"),
    ("[buckets.tier]\nurl = 's3://tier'\nurls = 'x'", "buckets.tier.urls", "did you mean url"),
    (
        "[buckets.a]\nurl = 's3://tier'\nendpoint = 'http://one'\n[buckets.b]\nurl = 's3://tier/'\nendpoint = 'http://two'",
        "buckets.b.url",
        "is also the url of [buckets.a]",
    ),
    ("[buckets.tier]\nurl = 's3://tier'\nbucket = 'teir'", "buckets.tier.url", "set endpoint, or the same bucket"),
    ("[buckets.tier]\nurl = 's3://tier'\ndriver = 'google-cloud-storage'", "buckets.tier.url", "set endpoint"),
    ("[buckets.tier]\nurl = 'gs://tier'\ndriver = 'aws-s3'", "buckets.tier.url", "set endpoint"),
    ("[buckets.tier]\nurl = 's3://tier'\ndriver = 'aws_s3'", "buckets.tier.url", "one of aws-s3"),
    ("[buckets.tier]\nurl = 's3://tier'\ndriver = 'filesystem'", "buckets.tier.url", "one of aws-s3"),
    ("[buckets.tier]\nurl = 's3://'", "buckets.tier.url", "the name of the bucket is missing"),
    ("[buckets.tier]\nurl = 's3://tier/prod'", "buckets.tier.url", "has a folder in the bucket, prod"),
    ("[buckets.tier]\nurl = 'abfs://tier/a/b'", "buckets.tier.url", "has a folder in the bucket, a/b"),
    ("[[topics]]\nmatch = 'persistent://public/x/.*'", "topics[1].match", "without persistent://"),
    ("[topics]\nmatch = '.*'", "topics", "[[topics]]"),
    ("topics = [3]", "topics", "[[topics]]"),
    ("[[topics]]\ntrim = true", "topics[1].match", "is missing"),
    ("[[topics]]\nmatch = '('", "topics[1].match", "not a regular expression"),
    ("[[topics]]\nmatch = '" + "x" * 1001 + "'", "topics[1].match", "more than 1,000"),
    ("[[topics]]\nmatch = '.*'\n[[topics]]\nmatch = 'x'\nbucket = 'tier'", "topics[2].bucket", "no [buckets.tier]"),
    ("[buckets.tier]\nurl = 's3://tier'\nblock_size = '2GiB'", "buckets.tier.block_size", "must be from"),
    ("[[topics]]\nmatch = '.*'\noffload_above = -1", "topics[1].offload_above", "must be from 0"),
    ("[[topics]]\nmatch = '.*'\noffload_after = 'nie'", "topics[1].offload_after", "invalid time"),
    ("[[topics]]\nmatch = '.*'\nunbatch = true", "topics[1].unbatch", "no such option"),
    ("[[topics]]\nmatch = '.*'\ntrimm = false", "topics[1].trimm", "did you mean trim"),
]


@for_each(("text", "key", "reason"), BAD)
def test_errors_name_file_and_key(text: str, key: str, reason: str) -> None:
    with pytest.raises(InvalidOptionError) as raised:
        parsed(text)
    assert raised.value.key == f"{FILE}: {key}"
    assert reason in raised.value.reason


@for_each("data", [b"x", b"\xff", b"x = ", b"a = 1\na = 2", b"#" * (1 << 20) + b"#"])
def test_what_is_no_toml_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidOptionError, match=r"policy\.toml"):
        parse_policy_file(data, FILE)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("never"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
KEYS = [
    *(f"service.{name}" for name in ("every", "bookie_rate")),
    *(f"broker.{name}" for name in ("retention_minutes", "offload_bytes", "deletion_lag")),
    *(f"defaults.{name}" for name in ("via", "trash_grace", "orphans", "bucket")),
    *(f"buckets.tier.{name}" for name in ("url", "driver", "block_size", "options")),
    *("cluster", "topics", "buckets", "defaults"),
]


@for_each(
    ("url", "driver", "bucket"),
    [
        ("s3://tier", "aws-s3", "tier"),
        ("gs://tier/", "google-cloud-storage", "tier"),
        ("abfs://tier@account.dfs.core.windows.net", "azureblob", "tier"),
        ("oss://tier", "aliyun-oss", "tier"),
        ("file:///mnt/tier/", "aws-s3", "tier"),
    ],
)
def test_what_brokers_note_of_a_bucket_is_by_its_url_unless_reported(url: str, driver: str, bucket: str) -> None:
    (found,) = parsed(f'[buckets.tier]\nurl = "{url}"').buckets.values()
    assert (found.driver, found.bucket) == (driver, bucket)


def test_another_stores_driver_takes_an_endpoint() -> None:
    text = "[buckets.tier]\nurl = 's3://tier'\ndriver = 'google-cloud-storage'\nendpoint = 'https://storage.googleapis.com'"
    assert parsed(text).buckets["tier"].driver == "google-cloud-storage"


def test_a_file_is_the_one_that_was_read_until_it_is_edited(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("[defaults]\norphans = true\n")
    file = read_policy_file(path)
    assert why_other(file) is None
    path.write_text("[defaults]\norphans = false\n")
    assert "was edited after it was read" in (why_other(file) or "")
    path.unlink()
    assert "the current policy is unknown" in (why_other(file) or "")
    # What was never a file is never another one.
    assert why_other(parsed("")) is None


@given(st.sampled_from(KEYS), values)
def test_any_value_of_any_key_is_read_or_refused_by_name(key: str, value: object) -> None:
    reported: dict[str, object] = {}
    inner = reported
    *folders, name = key.split(".")
    for one in folders:
        inner[one] = made = {}
        inner = made
    inner[name] = value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tomllib, "loads", lambda _: reported)
        refused = None
        try:
            parsed("")
        except InvalidOptionError as error:
            refused = error.key
    assert refused is None or refused.startswith(f"{FILE}: ")


def test_an_edited_file_is_used_once_nothing_is_written_to_it_any_more(tmp_path: Path) -> None:
    """The first half of a file may be a policy, too, which protects less."""
    path = tmp_path / "policy.toml"
    path.write_text('cluster = "pulsar+zk://zk"\n')
    # However long this machine takes from here on.
    os.utime(path, (time.time() + 3600,) * 2)
    with pytest.raises(InvalidOptionError, match="used after 5 s without changes"):
        require_settled(path)
    os.utime(path, (time.time() - SETTLED_S,) * 2)
    require_settled(path)
    path.write_text("")
    os.utime(path, (time.time() - SETTLED_S,) * 2)
    with pytest.raises(InvalidOptionError, match="is empty"):
        require_settled(path)
    path.unlink()
    with pytest.raises(InvalidOptionError, match="cannot be read"):
        require_settled(path)
