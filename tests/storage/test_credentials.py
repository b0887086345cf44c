"""What is a credential, told by one table: what shows texts hides it, and what must not be given one refuses it."""

import json
from typing import Any

from ledgerfs.storage.credentials import find_credential, is_credential, without_credentials
from tests.support.each import for_each

SECRET = "hidden-thing"

_SECRET_TEXT = """
    key KEY secret token password passphrase sas_token account_key connection_string username client_secret credential auth
    storage.access_token storage.shared_key storage.key fs.s3a.access.key fs.s3a.secret.key fs.s3a.session.token fs.s3a.proxy.password
    fs.s3a.bucket.tier.secret.key fs.s3a.encryption.key spark.hadoop.fs.s3a.secret.key fs.azure.account.key.mine.dfs.core.windows.net
    aws_access_key_id aws_secret_access_key aws_session_token AWSAccessKeyId X-Amz-Signature X-Amz-Credential X-Amz-Security-Token sig
    Signature SSECustomerKey AccountKey SharedAccessSignature private_key Authorization api_key
"""
SECRET_NAMES = _SECRET_TEXT.split()

_OPEN_TEXT = """
    anon endpoint_url region region_name account_name profile project key_prefix path use_ssl requester_pays follow_links client_kwargs
    config_kwargs default_block_size version_aware use_listings_cache SSEKMSKeyId ServerSideEncryption token_url password_file bypass
    compass sasl author monkey keyspace partition_key fs.s3a.endpoint fs.s3a.aws.credentials.provider fs.s3a.path.style.access
    fs.s3a.bucket.secret-plans.path.style.access fs.s3a.bucket.token.endpoint cachedir catalogmaxage
"""
OPEN_NAMES = _OPEN_TEXT.split()


@for_each("name", SECRET_NAMES)
def test_names_of_credentials(name: str) -> None:
    assert is_credential(name)
    assert find_credential({name: SECRET}) == name
    assert find_credential({"outer": [1, {"within": json.dumps({"deep": [{name: SECRET}]})}]}) == name
    for text in (
        f"{name}={SECRET}",
        f'{{"{name}": "{SECRET}"}}',
        f"{{'{name}':'{SECRET} too'}}",
        f"x; {name}='{SECRET}'",
        f'{{"a":{{"{name}":{{"b": ["{SECRET}"]}}}}}}',
    ):
        hidden = without_credentials(text)
        assert SECRET not in hidden
        assert name in hidden
        assert "too" not in hidden


@for_each("name", OPEN_NAMES)
def test_names_of_nothing_secret(name: str) -> None:
    assert not is_credential(name)
    assert find_credential({name: "value", "list": [{name: "value"}]}) is None
    assert without_credentials(f'{name}=value, "{name}": "value"') == f'{name}=value, "{name}": "value"'


URLS_WITH_CREDENTIALS = {
    f"http://user:{SECRET}@host:9000/x": "http://***@host:9000/x",
    f"http://user:p@{SECRET}@host/x": "http://***@host/x",
    f"http://user:p/{SECRET}@host/x": "http://***@host/x",
    f"http://user:p'{SECRET}@host": "http://***@host",
    f"https://{SECRET}@host": "https://***@host",
    f"https://:{SECRET}@host": "https://***@host",
    f"http://user:{SECRET}@[::1]:9000/x@y": "http://***@[::1]:9000/x@y",
    f"s3://k:{SECRET}@tier": "s3://***@tier",
    f"abfss://c:{SECRET}@account.dfs.core.windows.net/x": "abfss://***@account.dfs.core.windows.net/x",
    f"simplecache::ftp://u:{SECRET}@host/x": "simplecache::ftp://***@host/x",
    f"blockcache::http://u:{SECRET}@one::http://u:{SECRET}@two": "blockcache::http://***@one::http://***@two",
    f"user:{SECRET}@host/x": "***@host/x",
    f"https://host/x?sv=1&sig={SECRET}&x=1": "https://host/x?***",
    f"https://host/x?X-Amz-Signature={SECRET}": "https://host/x?***",
    f"https://host/x?%73ig={SECRET}": "https://host/x?***",
    f"AccountName=a;AccountKey={SECRET}==;EndpointSuffix=b": "AccountName=a;AccountKey=***;EndpointSuffix=b",
}


@for_each("url", URLS_WITH_CREDENTIALS)
def test_urls_with_credentials(url: str) -> None:
    assert find_credential({"path": url}) == "path"
    assert find_credential({"client_kwargs": json.dumps({"proxies": [{"https": url}]})}) == "https"
    assert without_credentials(url) == URLS_WITH_CREDENTIALS[url]
    for text in (f"cannot open {url} now", f"('{url}', 5)", json.dumps({"endpoint_url": url})):
        assert SECRET not in without_credentials(text)


@for_each(
    "url",
    [
        "s3://tier/a@b",
        "s3://tier/a:b@c",
        "http://host:9000/a@b",
        "http://[::1]:9000/x",
        "abfss://container@account.dfs.core.windows.net/x",
        "/data/what?a",
        "/data/aa:b@c",
        "/data/key=5/x",
        "file:///data/what?a",
        "s3://tier/key=5/x",
        "persistent://public/default/a?b@c",
        "simplecache::s3://tier/x",
        "jceks://hdfs@nn1:9001/user/keys.jceks",
    ],
)
def test_urls_without_credentials(url: str) -> None:
    assert find_credential({"path": url}) is None
    assert without_credentials(url) == url


def test_a_query_that_is_no_credential_may_be_given_but_is_not_shown() -> None:
    assert find_credential({"path": "https://host/x?versionId=1"}) is None
    assert without_credentials("GET 'https://host/x?versionId=1', twice") == "GET 'https://host/x?***', twice"


def test_headers() -> None:
    text = f"sent Authorization: Basic {SECRET} and Accept: all"
    assert without_credentials(text) == "sent Authorization: *** and Accept: all"
    assert find_credential({"headers": ["Cookie: a"]}) == "headers"


def test_what_errors_say_stays_readable() -> None:
    text = "secret: no such bucket; check the credentials (for S3: AWS_* environment, options key and secret, or anon=true)"
    assert without_credentials(text) == text


@for_each("value", [None, 5, b"x", "{", '["a"', '"text"', object(), [], {}])
def test_values_of_any_kind(value: Any) -> None:
    assert find_credential({"x": value, "y": [value]}) is None


def test_hiding_takes_time_in_proportion() -> None:
    for text in ("a" * 200_000, "a:" * 20_000, "http://" * 30_000, "sig=" * 50_000, "@" * 200_000, '"sig":' * 30_000):
        without_credentials(text)
        find_credential({"x": text})
