"""Where Spark's processes learn how to reach S3: Hadoop's settings and options; no credential is shown on the way."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from ledgerfs.errors import InvalidOptionError
from ledgerfs.spark.runtime.hadoop_settings import s3_options, settings_of_files
from ledgerfs.spark.runtime.storage import Storage, require_no_credentials
from ledgerfs.spark.source.read_options import read_options
from tests.support.each import for_each

URL = "s3://tier"


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Storage("demo/tier").url == str(tmp_path / "demo" / "tier")
    for url in (URL, "file:///tier", "simplecache::s3://tier", "/tier", "", " "):
        assert Storage(url).url == url


def options_of(url: str = URL, **settings: str) -> dict[str, object]:
    return s3_options(url, {name.replace("_", "."): value for name, value in settings.items()})


def test_settings_become_options_of_s3fs() -> None:
    assert options_of(fs_s3a_access_key="a", fs_s3a_secret_key="b", fs_s3a_session_token="c") == {
        "key": "a",
        "secret": "b",
        "token": "c",
    }
    assert options_of(spark_hadoop_fs_s3a_endpoint="http://h:9000") == {"endpoint_url": "http://h:9000"}
    assert options_of(fs_s3a_endpoint="h:9000") == {"endpoint_url": "https://h:9000"}
    assert s3_options(URL, {"fs.s3a.endpoint": "h", "fs.s3a.connection.ssl.enabled": "false"}) == {
        "endpoint_url": "http://h"
    }
    assert options_of(fs_s3a_endpoint_region="eu-north-1") == {"client_kwargs": {"region_name": "eu-north-1"}}
    assert options_of(fs_s3a_path_style_access="true") == {"config_kwargs": {"s3": {"addressing_style": "path"}}}
    anonymous = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    assert options_of(fs_s3a_aws_credentials_provider=anonymous) == {"anon": True}
    assert options_of(fs_s3a_fast_upload="true", spark_executor_memory="1g") == {}


def test_a_buckets_own_settings_come_first() -> None:
    settings = {
        "fs.s3a.access.key": "all",
        "fs.s3a.bucket.tier.access.key": "own",
        "fs.s3a.bucket.other.access.key": "others",
    }
    assert s3_options("s3a://tier/folder", settings) == {"key": "own"}
    assert s3_options("s3://third", settings) == {"key": "all"}
    assert s3_options("gs://tier", settings) == {}
    assert s3_options("/a/folder", settings) == {}


def test_files_of_settings(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.s3a.endpoint</name><value> http://hadoop </value></property>"
        "<property><name>fs.s3a.access.key</name><value>k</value></property>"
        "<property><name>fs.defaultFS</name><value>hdfs://x</value></property></configuration>"
    )
    (tmp_path / "spark-defaults.conf").write_text(
        "# settings\n\nspark.hadoop.fs.s3a.endpoint   http://spark\nspark.hadoop.fs.s3a.secret.key=s=e\nspark.master local\n"
    )
    folder = str(tmp_path)
    assert settings_of_files({"HADOOP_CONF_DIR": folder}) == {
        "fs.s3a.endpoint": "http://hadoop",
        "fs.s3a.access.key": "k",
    }
    assert settings_of_files({"HADOOP_CONF_DIR": folder, "SPARK_CONF_DIR": folder}) == {
        "fs.s3a.endpoint": "http://spark",
        "fs.s3a.access.key": "k",
        "fs.s3a.secret.key": "s=e",
    }
    assert settings_of_files({"HADOOP_CONF_DIR": str(tmp_path / "nothing")}) == {}
    assert settings_of_files({}) == {}


def test_options_come_before_settings() -> None:
    storage = Storage(
        URL, {"endpoint_url": "http://mine"}, {"fs.s3a.endpoint": "http://theirs", "fs.s3a.access.key": "k"}
    )
    assert storage.filesystem_options == {"endpoint_url": "http://mine", "key": "k"}


def test_a_storage_shows_no_credentials() -> None:
    storage = Storage(URL, {"secret": "hidden-thing"}, {"fs.s3a.secret.key": "hidden-thing"})
    assert "hidden-thing" not in repr(storage) + str(storage) + repr([storage])
    assert "hidden-thing" not in repr(Storage("https://u:p@hidden-thing@host/x"))
    assert pickle.loads(pickle.dumps(storage)).filesystem_options == storage.filesystem_options


@for_each(
    "options",
    [
        {"secret": "hidden-thing"},
        {"KEY": "hidden-thing"},
        {"client_kwargs": {"aws_access_key_id": "hidden-thing"}},
        {"fs.s3a.session.token": "hidden-thing"},
        {"fs.s3a.bucket.tier.secret.key": "hidden-thing"},
        {"access_token": "hidden-thing"},
        {"shared_key": "hidden-thing"},
        {"fs.s3a.proxy.password": "hidden-thing"},
        {"endpoint_url": "http://user:hidden-thing@host"},
        {"client_kwargs": [{"proxies": {"https": "https://hidden-thing@host"}}]},
        {"client_kwargs": [{"session": [{"token": "hidden-thing"}]}]},
    ],
)
def test_credentials_are_refused_and_not_shown(options: dict[str, object]) -> None:
    given = {name if "." in name else f"storage.{name}": _as_text(value) for name, value in options.items()}
    for call in (lambda: require_no_credentials(options), lambda: read_options({"path": URL, **given})):
        with pytest.raises(InvalidOptionError, match="do not pass credentials") as caught:
            call()
        assert "hidden-thing" not in str(caught.value)
    with pytest.raises(InvalidOptionError, match="do not pass credentials"):
        read_options({"path": "s3://k:hidden-thing@tier"})


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def test_options_that_are_no_credentials_are_taken() -> None:
    storage = read_options(
        {
            "path": "abfss://container@account.dfs.core.windows.net/x",
            "storage.account_name": "account",
            "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
        }
    ).storage
    assert storage.options == {"account_name": "account"}


@pytest.mark.parametrize("text", ['["a", "b"]', "['a', 'b']", "a,b", " a , b "])
def test_lists(text: str) -> None:
    assert read_options({"path": URL, "topics": text}).topics == ["a", "b"]


@pytest.mark.parametrize("text", ["", "[]", "[1]", "a,,b", "[", "['a'"])
def test_lists_that_are_none(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"not a list of names|is empty"):
        read_options({"path": URL, "topics": text})


def test_what_spark_imports_everywhere_imports_nothing_else() -> None:
    """Every application with a Python data source imports `pyspark_ledgerfs`, whichever source it uses."""
    code = "import sys, pyspark_ledgerfs; print({'numpy', 'numba', 'pyarrow', 'fsspec', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
