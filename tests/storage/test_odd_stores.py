"""Stores that speak S3 in their own way, or refuse some objects: the right rows, or an error that names the reason."""

import itertools
import json
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import fsspec
import pytest
from fsspec.spec import AbstractFileSystem

from ledgerfs import Bucket, open_bucket
from ledgerfs.errors import (
    AccessDeniedError,
    ArchivedObjectError,
    BucketNotFoundError,
    LedgerfsError,
)
from ledgerfs.export.export import export_topic
from ledgerfs.formats.pulsar_blob.object_names import parse_ledger_key
from ledgerfs.repair import plan_repair
from ledgerfs.scan.report import ScanReport
from ledgerfs.storage.opening import open_store
from ledgerfs.verification import verify
from tests.support.commands import run
from tests.support.each import for_each
from tests.support.golden_rows import rows_of
from tests.support.odd_s3 import OddS3, Refusal, Request
from tests.support.s3 import CREDENTIALS, ENVIRONMENT

TOPIC = "persistent://public/golden/plain"
TOPICS = re.compile("public/golden/persistent/(plain|batched-lz4|partitioned-partition-.)")
MESSAGE = "26:3"
FOREIGN = "backup\x07bell.txt"
DENIED = Refusal(403, "AccessDenied", "Access Denied")
ARCHIVED = Refusal(403, "InvalidObjectState", "The operation is not valid for the object's storage class")
KMS = Refusal(400, "KMS.DisabledException", "arn:aws:kms:eu-west-1:1:key/2 is disabled.")
SSE_C = Refusal(400, "InvalidRequest", "The object was stored using a form of Server Side Encryption.")
EXPIRED = Refusal(400, "ExpiredToken", "The provided token has expired.")


class Ways:
    """The ways to read a bucket; each returns a value that can be compared."""

    def __init__(
        self, url: str, options: dict[str, Any], folder: Path, on_unreadable: Literal["raise", "skip"] = "raise"
    ) -> None:
        self.numbers = itertools.count()
        self.bucket = open_bucket(url, options, on_unreadable=on_unreadable)
        self.tree = fsspec.filesystem("ledger", fo=url, target_options=options, on_unreadable=on_unreadable)
        self.by_name: dict[str, Callable[[], Any]] = {
            "topics": lambda: [(one.name, one.ledgers, one.entries, one.bytes) for one in self.bucket.topics()],
            "count": lambda: self.bucket.topic(TOPIC).count(),
            "rows": lambda: rows_of(self.bucket.topic(TOPIC).scan()),
            "message": lambda: self.bucket.topic(TOPIC).message(MESSAGE).value,
            "export": lambda: export_topic(self.bucket.topic(TOPIC), folder / str(next(self.numbers)), "jsonl").rows,
            "tree": lambda: self.tree.find("entries"),
            "verify": self.findings,
        }

    def outcomes(self) -> dict[str, Any]:
        """Return what each way returns, or our error."""
        return {name: outcome_of(read) for name, read in self.by_name.items()}

    def findings(self) -> set[str]:
        return {one.kind for one in verify(self.bucket, quick=True).findings} - {"foreign-keys"}


def outcome_of(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except LedgerfsError as error:
        return error


@pytest.fixture(scope="module")
def some(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some topics of the golden set: `TOPIC`, one with other batches, and a partitioned one."""
    folder = tmp_path_factory.mktemp("some")
    (folder / "bucket").mkdir()
    described = json.loads((golden / "objects.json").read_text())
    described = {key: one for key, one in described.items() if TOPICS.fullmatch(one["metadata"]["managedledgername"])}
    for key in described:
        shutil.copy(golden / "bucket" / key, folder / "bucket")
    (folder / "objects.json").write_text(json.dumps(described))
    return folder


@pytest.fixture(scope="module")
def truth(some: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a folder with the same objects returns."""
    outcomes = Ways(f"file://{some}/bucket", {}, tmp_path_factory.mktemp("truth")).outcomes()
    assert not [one for one in outcomes.values() if isinstance(one, LedgerfsError)]
    return outcomes


@pytest.mark.long
@pytest.mark.parametrize(
    "quirks",
    [
        {},
        {"tokens": "none"},
        {"tokens": "same"},
        {"lists_twice": True},
        {"is_shuffled": True, "obeys_start_after": False},
        {"has_raw_characters": True},
        {"has_etags": False},
        {"has_if_match": False},
    ],
    ids=lambda quirks: " ".join(quirks) or "none",
)
def test_stores_that_are_odd_but_whole_are_read_as_others(
    quirks: dict[str, Any], some: Path, truth: dict[str, Any], tmp_path: Path
) -> None:
    with OddS3.of_golden(some, **quirks) as odd:
        odd.objects[FOREIGN] = b"of a backup"
        ways = Ways("s3://tier", odd.options, tmp_path)
        assert ways.outcomes() == truth
        assert plan_repair(ways.bucket).items == ()
        assert ways.bucket.stats().retries == 0
        pages = -(-len(odd.objects) // odd.page_size)
        odd.seen.clear()
        ways.bucket.refresh()
        assert odd.listings <= 2 * pages


@dataclass(frozen=True, slots=True)
class Refused:
    """Objects that a store refuses: ``is_meant`` by key and method."""

    refusal: Refusal
    is_meant: Callable[[str, str], bool]
    error: type[LedgerfsError]
    words: str

    def of(self, request: Request) -> Refusal | None:
        return self.refusal if request.key and self.is_meant(request.key, request.method) else None


def first_of_topic(key: str, _: str) -> bool:
    return ledger_of(key) == 26


def every_third(key: str, _: str) -> bool:
    return ledger_of(key) % 3 == 26 % 3


def first_data(key: str, _: str) -> bool:
    return key.endswith("-ledger-26")


def body_of_first(key: str, method: str) -> bool:
    return ledger_of(key) == 26 and method == "GET"


def key_of(ledger_id: int) -> str:
    return f"00000000-0000-0000-0000-000000000000-ledger-{ledger_id}"


def ledger_of(key: str) -> int:
    parsed = parse_ledger_key(key)
    return -1 if parsed is None else parsed.ledger_id


REFUSED = {
    "denied ledger": Refused(DENIED, first_of_topic, AccessDeniedError, "denied"),
    "every third ledger denied": Refused(DENIED, every_third, AccessDeniedError, "denied"),
    "denied data object": Refused(DENIED, first_data, AccessDeniedError, "denied"),
    "archived ledger": Refused(ARCHIVED, body_of_first, ArchivedObjectError, "restore it"),
    "archived data object": Refused(ARCHIVED, first_data, ArchivedObjectError, "restore it"),
    "disabled KMS key": Refused(KMS, body_of_first, AccessDeniedError, "kms:Decrypt"),
    "customer key": Refused(SSE_C, body_of_first, AccessDeniedError, "SSE-C"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore::ledgerfs.errors.UnreadableObjectsWarning")
def test_what_is_refused_is_an_error_or_left_out_on_request(
    name: str, some: Path, truth: dict[str, Any], tmp_path: Path
) -> None:
    """No row is missing unseen; once the store answers, nothing of the refusal is left in any cache."""
    refused = REFUSED[name]
    is_left = {one: not refused.is_meant(key_of(one), "GET") for one in {row["ledger_id"] for row in truth["rows"]}}
    rest = [row for row in truth["rows"] if is_left[row["ledger_id"]]]
    with OddS3.of_golden(some, refuses=refused.of) as odd:
        strict, lax = (Ways("s3://tier", odd.options, tmp_path / one, one) for one in ("raise", "skip"))
        outcomes = strict.outcomes()
        for way, outcome in outcomes.items():
            if way in {"count", "rows", "message", "export"} or isinstance(outcome, LedgerfsError):
                assert isinstance(outcome, refused.error), way
                assert refused.words in outcome.reason
        assert strict.bucket.stats().retries == 0
        outcomes = lax.outcomes()
        assert (outcomes["count"], outcomes["rows"], outcomes["export"]) == (len(rest), rest, len(rest))
        assert isinstance(outcomes["message"], LedgerfsError)
        report = ScanReport()
        assert lax.bucket.topic(TOPIC).scan().count(report) == len(rest)
        assert report.skipped or report.missing or lax.bucket.catalog.refused()
        odd.refuses = lambda request: None
        for ways in (strict, lax):
            ways.bucket.refresh()
            ways.tree.invalidate_cache()
            assert ways.outcomes() == truth


CLASS, RESTORE, STATUS = "x-amz-storage-class", "x-amz-restore", "x-amz-archive-status"
RESTORED = 'ongoing-request="false", expiry-date="Fri, 21 Dec 2040 00:00:00 GMT"'


def archive(odd: OddS3, headers: dict[str, str]) -> str:
    """Put the first data object of `TOPIC` into an archive; its index stays, as S3 leaves small objects in their class."""
    (key,) = (one for one in odd.objects if first_data(one, ""))
    odd.archives = {key: headers}
    return key


@for_each(
    ("headers", "words"),
    [
        ({CLASS: "GLACIER"}, "archived (storage class GLACIER): restore it"),
        ({CLASS: "DEEP_ARCHIVE", RESTORE: 'ongoing-request="true"'}, "archived (storage class DEEP_ARCHIVE)"),
        ({CLASS: "INTELLIGENT_TIERING", STATUS: "ARCHIVE_ACCESS"}, "archived (storage class ARCHIVE_ACCESS)"),
        ({CLASS: "GLACIER", RESTORE: RESTORED}, ""),
        ({CLASS: "INTELLIGENT_TIERING"}, ""),
        ({CLASS: "GLACIER_IR"}, ""),
    ],
)
def test_a_quick_verify_names_archived_data_that_is_not_restored(
    headers: dict[str, str], words: str, some: Path
) -> None:
    with OddS3.of_golden(some) as odd:
        key = archive(odd, headers)
        report = verify(open_bucket("s3://tier", odd.options), quick=True)
        found = [(one.severity.value, one.kind, one.key, one.ledger_id, one.topic) for one in report.findings]
        assert found == ([("unchecked", "unreadable-object", key, 26, TOPIC)] if words else [])
        assert report.is_complete == (not words)
        assert not words or words in report.findings[0].message
        asked = [one.method for one in odd.seen if one.key == key]
        assert asked == ([] if headers[CLASS] == "GLACIER_IR" else ["HEAD"])


def test_commands_on_archived_data_exit_with_3(some: Path) -> None:
    with OddS3.of_golden(some) as odd:
        key = archive(odd, {CLASS: "GLACIER"})
        of_store = {**ENVIRONMENT, "AWS_ENDPOINT_URL": odd.endpoint, "AWS_DEFAULT_REGION": "us-east-1"}
        odd.refuses = lambda request: ARCHIVED if (request.key, request.method) == (key, "GET") else None
        for arguments in (("count", "s3://tier", TOPIC), ("head", "s3://tier", TOPIC)):
            assert b"restore it" in run(*arguments, code=3, env=of_store).stderr
        done = run("verify", "s3://tier", "--quick", code=3, env=of_store)
        assert f"unchecked  unreadable-object  {key}: the object is archived".encode() in done.stdout
        # Nothing is known of an object whose HEAD is refused.
        odd.refuses = lambda request: DENIED if request.key == key else None
        done = run("verify", "s3://tier", "--quick", code=3, env=of_store)
        assert f"unchecked  unreadable-object  {key}: access denied".encode() in done.stdout


def without_header(name: str, refusal: Refusal, *, of_objects: bool) -> Callable[[Request], Refusal | None]:
    """Return a server's refusal of requests that lack a header: of all, or of those for objects."""
    return lambda request: refusal if name not in request.headers and (request.key or not of_objects) else None


CUSTOMER_KEY = "k" * 32
WITH_OPTIONS = {
    "requester pays": (
        without_header("x-amz-request-payer", DENIED, of_objects=False),
        "requester_pays=true",
        {"requester_pays": True},
    ),
    "customer key": (
        without_header("x-amz-server-side-encryption-customer-key", SSE_C, of_objects=True),
        "customer key",
        {"s3_additional_kwargs": {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": CUSTOMER_KEY}},
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_the_error_names_what_the_options_lack_and_with_them_all_is_read(
    name: str, some: Path, truth: dict[str, Any], tmp_path: Path
) -> None:
    refuses, words, options = WITH_OPTIONS[name]
    with OddS3.of_golden(some, refuses=refuses) as odd:
        with pytest.raises(AccessDeniedError, match=words):
            open_bucket("s3://tier", odd.options).topics()
        assert Ways("s3://tier", {**odd.options, **options}, tmp_path).outcomes() == truth


class CredentialsFile:
    """``~/.aws/credentials``, which is rewritten while a bucket is open; `refuses` knows the newest access key only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.accepted = ""
        self.write("first")

    def write(self, access_key: str) -> None:
        secrets = f"aws_access_key_id={access_key}\naws_secret_access_key=hidden\naws_session_token=of-{access_key}\n"
        self.path.write_text(f"[default]\n{secrets}")
        self.accepted = access_key

    def refuses(self, request: Request) -> Refusal | None:
        is_known = (
            request.access_key == self.accepted and request.headers["x-amz-security-token"] == f"of-{self.accepted}"
        )
        return None if is_known else EXPIRED


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CredentialsFile:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return CredentialsFile(tmp_path / "credentials")


@pytest.mark.long
def test_credentials_that_are_rewritten_while_a_bucket_is_open_are_used(
    credentials: CredentialsFile, some: Path, truth: dict[str, Any], tmp_path: Path
) -> None:
    with OddS3.of_golden(some, refuses=credentials.refuses) as odd:
        ways = Ways("s3://tier", {"endpoint_url": odd.endpoint}, tmp_path / "out")
        assert [one.name for one in ways.bucket.topics()] == [name for name, *_ in truth["topics"]]
        credentials.write("second")
        assert ways.outcomes() == truth


ARN = "arn:aws:s3:us-east-1:123456789012:accesspoint"


@for_each(
    ("root", "url"),
    [
        (f"{ARN}/tier-ap", f"s3://{ARN}/tier-ap"),
        (f"{ARN}/tier-ap/", f"s3://{ARN}/tier-ap"),
        (f"{ARN}:tier-ap", f"s3://{ARN}:tier-ap"),
        (f"{ARN}/tier-ap/a/b/", f"s3://{ARN}/tier-ap/a/b"),
        ("tier", "s3://tier"),
        ("tier/a/b", "s3://tier/a/b"),
    ],
)
def test_the_name_of_an_access_point_is_not_split(root: str, url: str) -> None:
    store = open_store(fsspec.filesystem("s3", **CREDENTIALS), root)
    for _ in range(3):
        assert store.url == url
        store = pickle.loads(pickle.dumps(store))


class FlatFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """A store without folders, as Google's and Azure's: a prefix is there once an object is below it."""

    protocol = "flat"
    buckets = frozenset({"tier"})

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        if path in self.buckets:
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        if path in self.buckets:
            return []
        raise FileNotFoundError(path)


class GCSFileSystem(FlatFileSystem):
    """gcsfs's, by its name."""


class AzureBlobFileSystem(FlatFileSystem):
    """adlfs's, by its name."""


GCSFileSystem.__module__ = "gcsfs.core"
AzureBlobFileSystem.__module__ = "adlfs.spec"


@for_each("cls", [GCSFileSystem, AzureBlobFileSystem])
def test_a_new_prefix_of_a_store_without_folders_is_an_empty_bucket(cls: type[AbstractFileSystem]) -> None:
    assert Bucket(open_store(cls(), "tier/new/prefix")).topics() == []
    for missing in ("nowhere/new", "nowhere"):
        with pytest.raises(BucketNotFoundError):
            Bucket(open_store(cls(), missing)).topics()


def test_a_folder_of_another_store_has_to_exist() -> None:
    with pytest.raises(BucketNotFoundError):
        Bucket(open_store(FlatFileSystem(), "tier/new")).topics()
