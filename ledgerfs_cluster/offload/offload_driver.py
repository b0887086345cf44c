"""Driver metadata of an offload and its objects, so that any broker of the cluster accepts them (PIP-17).

A broker reads the bucket from the ledger's own metadata; region, endpoint and credentials come from its configuration, which has to reach
the same bucket. With the filesystem driver a broker does not even read the path.
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
"""{driver: its name in Pulsar's object metadata (``JCloudBlobStoreProvider``)}."""
_DRIVERS = {
    **dict.fromkeys(("s3", "s3a"), ("aws-s3", "S3", "aliyun-oss")),
    **dict.fromkeys(("gs", "gcs"), ("google-cloud-storage",)),
    **dict.fromkeys(("abfs", "abfss", "az"), ("azureblob",)),
    "oss": ("aliyun-oss",),
}
"""{protocol of an object store's URL: brokers' drivers for it, the default first}."""


def folder_in_bucket(url: str) -> str:
    """Return the folder of a URL within an object store's bucket, "" for none; brokers' drivers accept buckets only."""
    protocol, _, rest = url.partition("://")
    return rest.strip("/").partition("/")[2] if protocol in _DRIVERS else ""


def driver_for(url: str) -> str:
    """Return the default driver for a bucket; ``aws-s3`` for anything other than an object store."""
    return _DRIVERS.get(url.partition("://")[0], ("aws-s3",))[0]


def bucket_in(url: str) -> str:
    """Return the bucket's name in a URL, for a folder the last part of its path; "" without one."""
    protocol, _, rest = url.partition("://")
    if protocol in _DRIVERS:
        return rest.partition("/")[0].partition("@")[0]
    return rest.rstrip("/").rpartition("/")[2]


def require_place(url: str, driver: str, bucket: str, endpoint: str) -> None:
    """Raise `InvalidOptionError` if brokers would look for the objects outside of an object store's URL.

    Another name, or another store's driver, is right only if brokers have their own endpoint, such as that of a gateway.
    """
    driver_of_bucket(driver, bucket, endpoint=endpoint)
    known = _DRIVERS.get(url.partition("://")[0])
    if known is None:
        return
    if bucket != bucket_in(url) and not endpoint:
        reason = f"brokers would read the objects from bucket {bucket}, but they are written to {url}: set endpoint, or the same bucket"
        raise InvalidOptionError(reason, key="bucket")
    if _spelled(driver) not in known and not endpoint:
        reason = f"brokers read {url} with driver {' or '.join(known)}; for driver {driver}, set endpoint"
        raise InvalidOptionError(reason, key="driver")


@dataclass(frozen=True, slots=True)
class OffloadDriver:
    """Driver name and properties, as in an offload context.

    Attributes
    ----------
    name
        Pulsar's spelling, such as ``aws-s3``.
    properties
        In the order of the broker's hash map.

    """

    name: str
    properties: Properties


def driver_of_bucket(driver: str, bucket: str, region: str = "", endpoint: str = "") -> OffloadDriver:
    """Return the driver and properties that a broker records for a bucket; region and endpoint are empty if not configured.

    Raises `InvalidOptionError` for an unknown driver, and without a bucket.
    """
    name = _spelled(driver)
    if name is None or name == FILESYSTEM:
        raise InvalidOptionError(
            f"unknown offload driver; expected one of {', '.join(_CONSTANTS)}", key=f"driver={driver}"
        )
    if not bucket:
        raise InvalidOptionError("the name of the bucket is missing", key=f"driver={driver}")
    properties = (
        ("bucket", bucket),
        ("managedLedgerOffloadDriver", _CONSTANTS[name]),
        ("serviceEndpoint", endpoint),
        ("region", region),
    )
    return OffloadDriver(name, properties)


def user_metadata(cluster: str | None) -> dict[str, str]:
    """Return the user metadata that all objects of a cluster share.

    The writer adds the managed ledger's name, the object's role, and the name of the software.
    """
    return build_user_metadata(OffloadUserMetadata(FORMAT_VERSION, cluster=cluster))


def _spelled(driver: str) -> str | None:
    """Return a driver's name in Pulsar's spelling (Pulsar ignores case); None for an unknown one."""
    return next((one for one in (*_CONSTANTS, FILESYSTEM) if one.lower() == driver.lower()), None)
