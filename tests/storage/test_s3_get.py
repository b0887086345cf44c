"""Lean GETs: signed as botocore signs them, sent where its client would send them, and left to the client where they are not plain."""

from typing import Any

import pytest
from botocore import UNSIGNED
from botocore.auth import S3SigV4Auth
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.session import Session

from ledgerfs.storage.s3.direct_get import LeanGet
from tests.support.each import for_each
from tests.support.s3 import CREDENTIALS, Fault, FaultProxy, S3Server


def client(endpoint: str, **config: Any) -> Any:
    return Session().create_client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=CREDENTIALS["key"],
        aws_secret_access_key=CREDENTIALS["secret"],
        region_name="eu-west-2",
        config=Config(retries={"total_max_attempts": 1}, **config),
    )


def arguments(bucket: str, key: str, **others: str) -> dict[str, str]:
    return {"Bucket": bucket, "Key": key, "Range": "bytes=2-5", **others}


def test_the_signature_is_the_one_that_the_client_makes(
    s3: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "a folder/é+&=~%41"
    s3.client.put_object(Bucket=s3_bucket, Key=key, Body=b"0123456789")
    signed: list[str] = []
    sign = S3SigV4Auth.canonical_request

    def remember(auth: Any, request: Any) -> str:
        canonical: str = sign(auth, request)
        # Times differ, and each names itself in its own way.
        signed.append(
            "\n".join(line for line in canonical.split("\n") if not line.startswith(("x-amz-date", "amz-sdk")))
        )
        return canonical

    monkeypatch.setattr(S3SigV4Auth, "canonical_request", remember)
    one = client(s3.endpoint)
    body = one.get_object(**arguments(s3_bucket, key))["Body"].read()
    answer = LeanGet(one).get_object(arguments(s3_bucket, key))
    assert answer["Body"].read() == body == b"2345"
    assert (answer["ContentRange"], answer["ContentLength"]) == ("bytes 2-5/10", 4)
    theirs, ours = (text.split("\n") for text in signed)
    # Method, path and host alike; what else is signed is the range, and headers of the client's own.
    assert theirs[:3] == ours[:3]
    assert {line for line in ours if line.startswith(("host:", "range:", "x-amz-content-sha256:"))} <= set(theirs)


@for_each(("kind", "status"), [("404", 404), ("403", 403), ("500", 500), ("503", 503), ("429", 429)])
def test_errors_are_those_of_the_client_for_one_request(
    kind: str, status: int, proxy: FaultProxy, s3: S3Server, s3_bucket: str
) -> None:
    s3.client.put_object(Bucket=s3_bucket, Key="k", Body=b"0123456789")
    lean = LeanGet(client(proxy.endpoint))
    proxy.faults = [Fault(kind)]
    proxy.seen.clear()
    with pytest.raises(ClientError) as caught:
        lean.get_object(arguments(s3_bucket, "k"))
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert caught.value.response["Error"]["Code"]
    assert len(proxy.seen) == 1


def test_what_is_not_plain_is_left_to_the_client(proxy: FaultProxy, s3: S3Server, s3_bucket: str) -> None:
    s3.client.put_object(Bucket=s3_bucket, Key="k", Body=b"0123456789")
    lean = LeanGet(client(proxy.endpoint))
    assert lean.get_object(arguments(s3_bucket, "k", RequestPayer="requester"))["Body"].read() == b"2345"
    old = LeanGet(client(proxy.endpoint, signature_version="s3"))
    assert old.get_object(arguments(s3_bucket, "k"))["Body"].read() == b"2345"
    # An answer that only the client understands is asked for by the client, from then on.
    proxy.faults = [Fault("400", times=1)]
    proxy.seen.clear()
    assert lean.get_object(arguments(s3_bucket, "k"))["Body"].read() == b"2345"
    assert lean.get_object(arguments(s3_bucket, "k"))["Body"].read() == b"2345"
    assert len(proxy.seen) == 3


def test_anonymous_requests_are_not_signed(proxy: FaultProxy, s3: S3Server, s3_bucket: str) -> None:
    s3.client.put_object(Bucket=s3_bucket, Key="k", Body=b"0123456789")
    s3.client.put_bucket_acl(Bucket=s3_bucket, ACL="public-read")
    s3.client.put_object_acl(Bucket=s3_bucket, Key="k", ACL="public-read")
    one = Session().create_client(
        "s3", endpoint_url=proxy.endpoint, region_name="us-east-1", config=Config(signature_version=UNSIGNED)
    )
    seen: list[bool] = []
    proxy.faults = [Fault("", matches=lambda method, path, headers: bool(seen.append("authorization" in headers)))]
    assert LeanGet(one).get_object(arguments(s3_bucket, "k"))["Body"].read() == b"2345"
    assert seen == [False]
