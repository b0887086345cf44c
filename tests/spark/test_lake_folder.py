"""The folder of a lake export is that folder, also where its name would be a pattern."""

import pytest

from ledgerfs.spark.lake.target import Lake
from ledgerfs.spark.runtime.storage import Storage
from tests.support.s3 import S3Server


@pytest.mark.parametrize("name", ["out*", "out[1]", "out?", "out"])
def test_a_folder_is_removed_and_no_other(name: str, s3: S3Server, s3_bucket: str) -> None:
    keys = [f"{folder}/staged/{file}" for folder in (name, "out-eu", "out1", "out11") for file in "ab"]
    for key in keys:
        s3.client.put_object(Bucket=s3_bucket, Key=key, Body=b"x")
    lake = Lake.of(Storage(f"s3://{s3_bucket}/{name}", s3.options))
    assert set(lake.files("staged")) == {"staged/a", "staged/b"}
    lake.remove_folder("staged")
    left = {one["Key"] for one in s3.client.list_objects_v2(Bucket=s3_bucket)["Contents"]}
    assert left == {key for key in keys if not key.startswith(f"{name}/")}
