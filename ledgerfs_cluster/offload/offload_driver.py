"""What a broker notes of an offload and of its objects, so that any broker of the cluster accepts them (PIP-17's driver metadata).

A broker reads the bucket from the ledger's own note; region, endpoint and credentials are those of its configuration, which has to reach
the same bucket. A filesystem's broker does not even read the path.
"""

from dataclasses import dataclass

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.pulsar_blob.user_metadata import FORMAT_VERSION, OffloadUserMetadata, build_user_metadata
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Properties

FILESYSTEM = "filesystem"
_CONSTANTS = {
    "aws-s3": "AWS_S3",
    "S3": "S3",
    "google-cloud-storage": "GOOGLE_CLOUD_STORAGE",
    "azureblob": "AZURE_BLOB",
    "aliyun-oss": "ALIYUN_OSS",
}
"""{driver: the name of it that Pulsar notes (``JCloudBlobStoreProvider``)}."""
_DRIVERS = {
    **dict.fromkeys(("s3", "s3a"), ("aws-s3", "S3", "aliyun-oss")),
    **dict.fromkeys(("gs", "gcs"), ("google-cloud-storage",)),
    **dict.fromkeys(("abfs", "abfss", "az"), ("azureblob",)),
    "oss": ("aliyun-oss",),
}
"""{protocol of an object store's URL: brokers' drivers for it, the one that is meant first}."""


def folder_in_bucket(url: str) -> str:
    """Return the folder that a URL names in the bucket of an object store, "" for none; brokers' drivers know buckets only."""
    protocol, _, rest = url.partition("://")
    return rest.strip("/").partition("/")[2] if protocol in _DRIVERS else ""


def driver_for(url: str) -> str:
    """Return the driver with which brokers offload to a bucket, unless it is told; ``aws-s3`` for what is no object store."""
    return _DRIVERS.get(url.partition("://")[0], ("aws-s3",))[0]


def bucket_in(url: str) -> str:
    """Return the name of the bucket of a URL, which is the last part of a folder's path; "" if it has none."""
    protocol, _, rest = url.partition("://")
    if protocol in _DRIVERS:
        return rest.partition("/")[0].partition("@")[0]
    return rest.rstrip("/").rpartition("/")[2]


def require_place(url: str, driver: str, bucket: str, endpoint: str) -> None:
    """Raise `InvalidOptionError` if brokers would look for objects elsewhere than in a URL that is an object store's.

    Another name, or another store's driver, is right only where brokers have an endpoint of their own: that of a gateway, say.
    """
    driver_of_bucket(driver, bucket, endpoint=endpoint)
    known = _DRIVERS.get(url.partition("://")[0])
    if known is None:
        return
    if bucket != bucket_in(url) and not endpoint:
        reason = f"without an endpoint brokers would look for the objects in bucket {bucket}, and {url} is another one"
        raise InvalidOptionError(reason, key="bucket")
    if _spelled(driver) not in known and not endpoint:
        reason = f"brokers reach {url} with {' or '.join(known)}; with {driver} only by an endpoint"
        raise InvalidOptionError(reason, key="driver")


@dataclass(frozen=True, slots=True)
class OffloadDriver:
    """An offloader's driver and place, as an offload context has them.

    Attributes
    ----------
    name
        Such as ``aws-s3``, as Pulsar spells it.
    properties
        In the order of the broker's hash map.

    """

    name: str
    properties: Properties


def driver_of_bucket(driver: str, bucket: str, region: str = "", endpoint: str = "") -> OffloadDriver:
    """Return what a broker notes of a bucket; region and endpoint are empty where its configuration has none.

    Raises `InvalidOptionError` for an unknown driver, and without a bucket.
    """
    name = _spelled(driver)
    if name is None or name == FILESYSTEM:
        raise InvalidOptionError(f"ledgers are offloaded with one of {', '.join(_CONSTANTS)}", key=f"driver={driver}")
    if not bucket:
        raise InvalidOptionError("an offload needs the name of a bucket", key=f"driver={driver}")
    properties = (
        ("bucket", bucket),
        ("managedLedgerOffloadDriver", _CONSTANTS[name]),
        ("serviceEndpoint", endpoint),
        ("region", region),
    )
    return OffloadDriver(name, properties)


def user_metadata(cluster: str | None) -> dict[str, str]:
    """Return the user metadata that all objects of a cluster have.

    The writer adds what is of one object: the managed ledger's name, its role, and which software wrote it.
    """
    return build_user_metadata(OffloadUserMetadata(FORMAT_VERSION, cluster=cluster))


def _spelled(driver: str) -> str | None:
    """Return a driver's name as Pulsar spells it, which takes any case; None for an unknown one."""
    return next((one for one in (*_CONSTANTS, FILESYSTEM) if one.lower() == driver.lower()), None)
