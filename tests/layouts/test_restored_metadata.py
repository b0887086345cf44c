"""What an object has besides its bytes, when its user metadata is restored: all of it stays, or nothing is done."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import AccessDeniedError, LedgerfsError, StaleObjectError, StoreError, UnsupportedWriteError
from ledgerfs.repair import plan_repair
from ledgerfs.storage.s3 import writes as s3_writes
from tests.support.entries import frame, metadata
from tests.support.ledgers import Offload, offload
from tests.support.s3 import Fault, FaultProxy, S3Server

KMS_KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
TAGS = {"team": "data + more", "until": "2031=ok", "empty": ""}
GIVEN: dict[str, Any] = {
    "ServerSideEncryption": "aws:kms",
    "SSEKMSKeyId": KMS_KEY,
    "BucketKeyEnabled": True,
    "CacheControl": "no-store",
    "ContentType": "application/x-pulsar",
    "ContentDisposition": "attachment",
    "ContentEncoding": "identity",
    "ContentLanguage": "de",
    "StorageClass": "STANDARD_IA",
    "Expires": datetime(2035, 1, 2, 3, 4, 5, tzinfo=UTC),
}


@pytest.fixture(params=["copied at once", "copied in parts"])
def copied(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "copied in parts":
        monkeypatch.setattr(s3_writes, "_LARGEST_COPY", 100)


def ledger() -> Offload:
    return offload([frame(metadata(sequence_id=i), b"%d" % i) for i in range(5)])


def put(s3: S3Server, bucket: str, made: Offload, **given: Any) -> None:
    for key, data in made.objects.items():
        s3.client.put_object(Bucket=bucket, Key=key, Body=data, **given)
        if given:
            s3.client.put_object_tagging(
                Bucket=bucket, Key=key, Tagging={"TagSet": [{"Key": k, "Value": v} for k, v in TAGS.items()]}
            )


def errors_of_repair(bucket: str, options: dict[str, Any]) -> list[LedgerfsError | None]:
    plan = plan_repair(open_bucket(f"s3://{bucket}", options))
    assert [item.action_name for item in plan.to_do] == ["restore-metadata"] * 2
    return [outcome.error for outcome in plan.carry_out()]


@pytest.mark.usefixtures("copied")
def test_encryption_headers_storage_class_and_tags_stay(s3: S3Server, s3_bucket: str) -> None:
    made = ledger()
    put(s3, s3_bucket, made, **GIVEN)
    assert errors_of_repair(s3_bucket, s3.options) == [None, None]
    for key, data in made.objects.items():
        head = s3.client.head_object(Bucket=s3_bucket, Key=key)
        assert head["Metadata"]["managedledgername"]
        # moto drops it from uploads in parts, whatever it is told.
        assert {"BucketKeyEnabled": True, **{name: head.get(name) for name in GIVEN if name in head}} == GIVEN
        tags = s3.client.get_object_tagging(Bucket=s3_bucket, Key=key)["TagSet"]
        assert {tag["Key"]: tag["Value"] for tag in tags} == TAGS
        assert s3.client.get_object(Bucket=s3_bucket, Key=key)["Body"].read() == data


@pytest.mark.usefixtures("copied")
def test_a_locked_object_is_left_alone(s3: S3Server, s3_bucket: str) -> None:
    bucket = f"{s3_bucket}-locked"
    s3.client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    made = ledger()
    until = datetime.now(UTC) + timedelta(days=1)
    put(s3, bucket, made, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    errors = errors_of_repair(bucket, s3.options)
    assert all(isinstance(error, UnsupportedWriteError) and "object lock" in str(error) for error in errors)
    assert all(s3.client.head_object(Bucket=bucket, Key=key)["Metadata"] == {} for key in made.objects)


def is_tagging(method: str, path: str, _: Any) -> bool:
    return method == "GET" and "tagging" in path


@pytest.mark.usefixtures("copied")
def test_tags_that_nobody_may_read_are_a_reason_to_leave_an_object_alone(
    s3: S3Server, s3_bucket: str, proxy: FaultProxy
) -> None:
    made = ledger()
    put(s3, s3_bucket, made, **GIVEN)
    proxy.faults.append(Fault("403", matches=is_tagging))
    errors = errors_of_repair(s3_bucket, proxy.options)
    assert all(isinstance(error, AccessDeniedError) and "s3:GetObjectTagging" in str(error) for error in errors)
    assert all(s3.client.head_object(Bucket=s3_bucket, Key=key)["Metadata"] == {} for key in made.objects)


@pytest.mark.usefixtures("copied")
def test_a_store_that_knows_no_tags_has_none_to_lose(s3: S3Server, s3_bucket: str, proxy: FaultProxy) -> None:
    put(s3, s3_bucket, ledger())
    proxy.faults.append(Fault("501", matches=is_tagging))
    assert errors_of_repair(s3_bucket, proxy.options) == [None, None]


def test_an_object_with_a_key_of_its_owner_is_left_alone(s3: S3Server, s3_bucket: str) -> None:
    made = ledger()
    put(s3, s3_bucket, made)
    store = open_bucket(f"s3://{s3_bucket}", s3.options).store.store
    for head, reason in (
        ({"SSECustomerAlgorithm": "AES256"}, "SSE-C"),
        ({"ObjectLockLegalHoldStatus": "ON"}, "object lock"),
        ({"MissingMeta": 2}, "2 of its user metadata"),
        ({"ExpiresString": "soon"}, "Expires"),
    ):
        with pytest.raises(UnsupportedWriteError, match=reason):
            s3_writes.S3Writes(Lying(store, head)).set_metadata(store.head(next(iter(made.objects))).stat, {})


class Lying:
    """A store whose HEADs claim more than it does, or whose copies leave out what is asked for."""

    def __init__(self, store: Any, head: dict[str, Any], ignored: Sequence[str] = ()) -> None:
        self._store, self._head, self._ignored = store, head, ignored

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def request(self, asked: Any, operation: str, **arguments: Any) -> dict[str, Any]:
        if operation == "copy_object":
            arguments = {name: one for name, one in arguments.items() if name not in self._ignored}
        answer: dict[str, Any] = self._store.request(asked, operation, **arguments)
        return {**answer, **self._head} if operation == "head_object" else answer


@pytest.mark.usefixtures("copied")
def test_only_the_version_that_was_looked_at_is_copied(s3: S3Server, s3_bucket: str, proxy: FaultProxy) -> None:
    """moto does not obey the condition, so it is the request that is looked at."""
    made = ledger()
    put(s3, s3_bucket, made)
    conditions: list[str] = []

    def is_copy(method: str, path: str, headers: Any) -> bool:
        if "x-amz-copy-source" in headers:
            conditions.append(headers.get("x-amz-copy-source-if-match"))
        return False

    proxy.faults.append(Fault("500", matches=is_copy))
    assert errors_of_repair(s3_bucket, proxy.options) == [None, None]
    assert conditions == etags(s3, s3_bucket, made)


def etags(s3: S3Server, bucket: str, made: Offload) -> list[str]:
    scratch = f"{bucket}-etags"
    s3.client.create_bucket(Bucket=scratch)
    return [s3.client.put_object(Bucket=scratch, Key=key, Body=data)["ETag"] for key, data in made.objects.items()]


def test_an_object_that_is_replaced_while_parts_are_copied_stays_the_other_one(
    s3: S3Server, s3_bucket: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_writes, "_LARGEST_COPY", 100)
    made = ledger()
    put(s3, s3_bucket, made)
    key = next(iter(made.objects))
    copy_part = s3_writes.S3Writes._put_in_place_of

    def replace_first(self: Any, stat: Any, parts: dict[str, Any]) -> None:
        if stat.key == key:
            s3.client.put_object(Bucket=s3_bucket, Key=key, Body=b"other" * 50)
        copy_part(self, stat, parts)

    monkeypatch.setattr(s3_writes.S3Writes, "_put_in_place_of", replace_first)
    errors = errors_of_repair(s3_bucket, proxy.options)
    assert [type(error) for error in errors] == [StaleObjectError, type(None)]
    assert s3.client.get_object(Bucket=s3_bucket, Key=key)["Body"].read() == b"other" * 50
    assert "Uploads" not in s3.client.list_multipart_uploads(Bucket=s3_bucket)


def test_a_store_that_keeps_less_than_it_is_reported_is_an_error(
    s3: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(s3, s3_bucket, ledger(), **GIVEN)
    made = s3_writes.S3Writes.__init__
    ignored = ("CacheControl", "Tagging")
    monkeypatch.setattr(s3_writes.S3Writes, "__init__", lambda self, store: made(self, Lying(store, {}, ignored)))
    errors = errors_of_repair(s3_bucket, s3.options)
    assert all(isinstance(error, StoreError) and "CacheControl, tags" in str(error) for error in errors)
