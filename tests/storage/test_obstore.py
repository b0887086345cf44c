"""Bytes of S3 come through obstore, with all that the options of s3fs mean; what it lacks is read through s3fs, and a log line says so."""

import asyncio
import datetime as dt
import ipaddress
import json
import logging
import os
import ssl
import sys
import threading
import time
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ledgerfs.errors import StaleObjectError, StoreUnreachableError
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.s3 import store as store_module
from ledgerfs.storage.s3.obstore_client import _make_client
from ledgerfs.storage.s3.store import S3Store
from tests.support.children import is_true_in_child
from tests.support.each import for_each
from tests.support.odd_s3 import OddS3, etag_of
from tests.support.s3 import CREDENTIALS, Fault, FaultProxy, S3Server
from tests.support.tries import without_pauses

BODY = bytes(range(256)) * 8
PART = ReadRequest("k", 10, 1000, etag_of(BODY))


@pytest.fixture
def odd() -> Any:
    with OddS3({"k": BODY}, {}) as made:
        yield made


def store_of(odd: OddS3, **options: Any) -> S3Store:
    store = open_store(fsspec.filesystem("s3", **{**odd.options, **options}), "tier")
    assert isinstance(store, S3Store)
    return store


def read_all(store: S3Store, request: ReadRequest = PART) -> set[bytes]:
    """Read in each way; the bytes are the same."""
    (many,) = store.read_many([request])
    assert isinstance(many, bytes)
    return {store.read(request), many, bytes(store.start(request).result(timeout=300))}


def test_any_key_is_found_by_its_name(odd: OddS3) -> None:
    for key in ("a folder/é+&=~%41", "100%", "x*y?z#1", "{a}[b]", "a//b", "./a", "tab\tkey"):
        odd.objects[key] = key.encode() * 9
        assert read_all(store_of(odd), ReadRequest(key, 1, 9)) == {odd.objects[key][1:9]}, key
        assert {request.key for request in odd.seen} == {key}
        odd.seen.clear()


SSE_C = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}
PAYER, SIGNED = "x-amz-request-payer", "authorization"
OF_CUSTOMER = "x-amz-server-side-encryption-customer-key"


@for_each(
    ("options", "sent", "missing"),
    [
        ({}, {SIGNED}, {PAYER, OF_CUSTOMER, "x-amz-security-token"}),
        ({"token": "of a session"}, {SIGNED, "x-amz-security-token"}, set()),
        ({"anon": True, "key": None, "secret": None}, set(), {SIGNED}),
        ({"requester_pays": True}, {PAYER}, set()),
        ({"s3_additional_kwargs": SSE_C}, {OF_CUSTOMER, f"{OF_CUSTOMER}-md5"}, set()),
    ],
)
def test_options_are_in_the_request(
    options: dict[str, Any], sent: set[str], missing: set[str], odd: OddS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only they: obstore reads the environment, in words of its own, which s3fs ignores."""
    for name, value in {
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_REQUEST_PAYER": "requester",
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
        "AWS_SERVER_SIDE_ENCRYPTION": "aws:kms",
        "AWS_SESSION_TOKEN": "of another",
        "AWS_ACCESS_KEY_ID": "another",
        "AWS_SECRET_ACCESS_KEY": "another",
    }.items():
        if not (name == "AWS_REQUEST_PAYER" and options.get("requester_pays")):
            monkeypatch.setenv(name, value)
    odd.seen.clear()
    assert read_all(store_of(odd, **options)) == {BODY[10:1000]}
    for request in odd.seen:
        assert request.is_of_obstore
        assert sent <= set(request.headers)
        assert not missing & set(request.headers)
        assert request.access_key in {CREDENTIALS["key"], ""}


@for_each(
    ("options", "reason"),
    [
        ({"config_kwargs": {"signature_version": "s3"}}, "signature version s3"),
        ({"config_kwargs": {"connector_args": {"use_dns_cache": False}}}, "options of aiohttp"),
        ({"s3_additional_kwargs": {"ChecksumMode": "ENABLED"}}, "other arguments of a GET"),
    ],
)
def test_what_obstore_lacks_is_read_through_s3fs(
    options: dict[str, Any], reason: str, odd: OddS3, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ledgerfs.store")
    odd.seen.clear()
    assert read_all(store_of(odd, **options)) == {BODY[10:1000]}
    assert not any(request.is_of_obstore for request in odd.seen)
    assert f"through s3fs and not through obstore: {reason}" in caplog.text


@for_each(
    ("bucket", "options", "endpoint", "region"),
    [
        ("tier", {"endpoint_url": "http://127.0.0.1:9/base"}, "http://127.0.0.1:9/base", "us-east-1"),
        ("tier", {"client_kwargs": {"region_name": "eu-west-2"}}, "https://tier.s3.eu-west-2.amazonaws.com", "eu-west-2"),
        ("tier.x", {"client_kwargs": {"region_name": "eu-west-2"}}, "https://s3.eu-west-2.amazonaws.com", "eu-west-2"),
        (
            "tier",
            {"config_kwargs": {"s3": {"addressing_style": "virtual"}}, "endpoint_url": "https://store.example"},
            "https://tier.store.example",
            "us-east-1",
        ),
        (
            "tier",
            {"config_kwargs": {"s3": {"use_dualstack_endpoint": True}}, "client_kwargs": {"region_name": "eu-west-2"}},
            "https://tier.s3.dualstack.eu-west-2.amazonaws.com",
            "eu-west-2",
        ),
    ],
)  # fmt: skip
def test_the_address_is_that_of_botocore(
    bucket: str, options: dict[str, Any], endpoint: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    fs = fsspec.filesystem("s3", **CREDENTIALS, **options)

    async def made() -> Any:
        await fs.set_session()
        return await _make_client(fs, bucket, fs.storage_options)

    config = asyncio.run_coroutine_threadsafe(made(), fs.loop).result().config
    assert (config["endpoint"], config["region"]) == (endpoint, region)
    assert config["virtual_hosted_style_request"] == str(f"//{bucket}." in endpoint).lower()


def test_a_proxy_is_used(odd: OddS3) -> None:
    proxied = {"endpoint_url": "http://store.invalid", "config_kwargs": {"proxies": {"http": odd.endpoint}}}
    assert read_all(store_of(odd, **proxied)) == {BODY[10:1000]}
    assert {request.headers["host"] for request in odd.seen if request.is_of_obstore} == {"store.invalid"}


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "odd")])
    now = dt.datetime.now(dt.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    signed = (
        builder.not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    (tmp_path / "key.pem").write_bytes(secret)
    (tmp_path / "ca.pem").write_bytes(signed.public_bytes(pem))
    return tmp_path / "ca.pem"


def test_certificates_are_checked_as_the_options_say(
    odd: OddS3, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    odd._server.socket = context.wrap_socket(odd._server.socket, server_side=True)
    endpoint = odd.endpoint.replace("http:", "https:")
    without_pauses(monkeypatch)
    with pytest.raises(StoreUnreachableError):
        store_of(odd, endpoint_url=endpoint).read(PART)
    for verify in (False, str(certificate)):
        store = store_of(odd, endpoint_url=endpoint, client_kwargs={"verify": verify})
        assert read_all(store) == {BODY[10:1000]}
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    assert read_all(store_of(odd, endpoint_url=endpoint, default_block_size=6 << 20)) == {BODY[10:1000]}
    assert all(request.is_of_obstore for request in odd.seen)


@pytest.mark.process
def test_credentials_are_of_one_moment_and_renewed_before_they_end(
    odd: OddS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process makes other credentials at each call, which end so soon that they are never good for another 0.1 s."""
    script = tmp_path / "credentials.py"
    count = tmp_path / "count"
    count.write_text("0")
    script.write_text(
        f"""
import datetime, json, pathlib
count = pathlib.Path({str(count)!r})
number = int(count.read_text()) + 1
count.write_text(str(number))
ends = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=4)
made = {{"AccessKeyId": f"key-{{number}}", "SecretAccessKey": "s", "SessionToken": f"token-{{number}}"}}
print(json.dumps({{"Version": 1, **made, "Expiration": ends.isoformat()}}))
"""
    )
    (tmp_path / "config").write_text(f"[profile rotating]\ncredential_process = {sys.executable} {script}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    store = store_of(odd, key=None, secret=None, profile="rotating")
    for _ in range(3):
        assert store.read(PART) == BODY[10:1000]
        time.sleep(0.15)
    used = [(one.access_key, one.headers["x-amz-security-token"]) for one in odd.seen if one.is_of_obstore]
    assert len(set(used)) == len(used) == 3
    assert all(key.removeprefix("key-") == token.removeprefix("token-") for key, token in used)


def test_bytes_of_another_version_are_stale_whatever_the_store_makes_of_if_match(
    s3: S3Server, s3_bucket: str, proxy: FaultProxy
) -> None:
    s3.client.put_object(Bucket=s3_bucket, Key="k", Body=BODY)
    store = open_store(fsspec.filesystem("s3", **proxy.options), s3_bucket)
    assert isinstance(store, S3Store)
    for faults, request in (
        ([Fault("replaced")], PART),
        ([], ReadRequest("k", 10, 1000, '"another"')),
        (
            [Fault("501", matches=lambda method, path, headers: "if-match" in headers)],
            ReadRequest("k", 10, 1000, '"x"'),
        ),
    ):
        proxy.faults = faults
        with pytest.raises(StaleObjectError):
            store.read(request)


def test_a_whole_object_that_was_requested_may_come_as_such(s3: S3Server, s3_bucket: str, proxy: FaultProxy) -> None:
    """obstore accepts no answer 200 to a range, s3fs's client does; it reads the rest, too."""
    s3.client.put_object(Bucket=s3_bucket, Key="k", Body=BODY)
    store = open_store(fsspec.filesystem("s3", **proxy.options), s3_bucket)
    proxy.faults = [Fault("unranged")]
    for requests in (2, 3):
        assert store.read(ReadRequest("k", 0, len(BODY))) == BODY
        assert store.traffic.stats().requests == requests


def test_a_child_of_a_process_that_used_obstore_reads_through_s3fs(odd: OddS3) -> None:
    """obstore's event loop is not in the child: there it would wait for ever."""
    store = store_of(odd)
    assert read_all(store) == {BODY[10:1000]}
    assert all(request.is_of_obstore for request in odd.seen)
    for _ in range(2):
        odd.seen.clear()
        assert is_true_in_child(lambda: read_all(store) == read_all(store_of(odd)) == {BODY[10:1000]})
        assert len(odd.seen) == 6
        assert not any(request.is_of_obstore for request in odd.seen)
    odd.seen.clear()
    assert read_all(store) == {BODY[10:1000]}
    assert all(request.is_of_obstore for request in odd.seen)


def test_reads_are_counted_and_logged(odd: OddS3, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ledgerfs.store")
    store = store_of(odd)
    assert len(read_all(store)) == 1
    stats = store.traffic.stats()
    assert (stats.requests, stats.bytes_asked, stats.bytes_received, stats.retries) == (3, 2970, 2970, 0)
    lines = [one.getMessage() for one in caplog.records if "GET k 10-1000: 990 bytes" in one.getMessage()]
    assert len(lines) == 3
    assert CREDENTIALS["secret"] not in json.dumps(caplog.text)


def test_no_thread_that_hears_ctrl_c_is_inside_of_obstore(odd: OddS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, Ctrl-C would wait until the store answers."""
    threads = []
    fetch = store_module.fetch

    def noted(*arguments: Any, **named: Any) -> memoryview:
        threads.append(threading.current_thread())
        return fetch(*arguments, **named)

    store = store_of(odd)
    read_all(store)
    monkeypatch.setattr(store_module, "fetch", noted)
    read_all(store)
    with Path(os.devnull).open("wb") as file:
        store.send(PART, file.fileno())
    assert threads
    assert threading.main_thread() not in threads
