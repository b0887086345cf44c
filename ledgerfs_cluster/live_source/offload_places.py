"""Where the objects of an offload are: what a broker noted of it, and what the user said of places that are elsewhere by now."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ledgerfs.errors import CorruptLedgerError, UnsupportedFormatError
from ledgerfs.formats.mapfile.names import MapFileLedger
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, OffloadContext
from ledgerfs_cluster.zookeeper.living_cluster import LiveReading

_PROTOCOLS = {"aws-s3": "s3", "s3": "s3", "aliyun-oss": "s3", "google-cloud-storage": "gs", "azureblob": "abfs"}
"""{driver, in lower case: protocol of fsspec}."""

_FILESYSTEM = "filesystem"
_LOCAL = "file:/"


@dataclass(frozen=True, slots=True)
class OffloadPlace:
    """The objects of one ledger.

    Attributes
    ----------
    url, options
        Of the bucket, or the offloader's base folder, and of its filesystem.
    layout
        Of what is there.
    data_key, index_key
        The ledger's two objects.
    needs_index
        Whether the ledger cannot be read without its index.

    """

    url: str
    options: Mapping[str, Any] = field(repr=False)
    layout: str
    data_key: str
    index_key: str
    needs_index: bool


def place_of(managed_ledger: str, info: LedgerInfo, context: OffloadContext, reading: LiveReading) -> OffloadPlace:
    """Return where a ledger's objects are; what the user said of the bucket goes before what the broker noted.

    Raises `CorruptLedgerError` for a context without the id of the objects, and `UnsupportedFormatError` for drivers that ledgerfs does
    not read, and for a folder of which only the broker's machine knows where it is.
    """
    if context.uuid is None:
        raise CorruptLedgerError("listed as offloaded, without the id of the objects", key=f"ledger {info.ledger_id}")
    driver = (context.driver or context.get("managedLedgerOffloadDriver") or "").lower().replace("_", "-")
    if driver == _FILESYSTEM:
        files = MapFileLedger(managed_ledger, info.ledger_id, context.uuid)
        url = _folder_of(context.get("storageBasePath") or "", reading)
        return OffloadPlace(url, reading.bucket_options, "mapfile", files.data_key, files.index_key, needs_index=False)
    key = LedgerKey(context.uuid, info.ledger_id, is_index=False)
    url, options = _bucket_of(driver, context, reading)
    return OffloadPlace(url, options, "pulsar_blob", key.data_key, key.index_key, needs_index=True)


def _bucket_of(driver: str, context: OffloadContext, reading: LiveReading) -> tuple[str, Mapping[str, Any]]:
    bucket = context.get("bucket") or ""
    elsewhere = reading.bucket_urls.get(bucket)
    if elsewhere is not None:
        return elsewhere, reading.bucket_options
    protocol = _PROTOCOLS.get(driver)
    if protocol is None or not bucket:
        what = f"driver {driver!r}" if driver else "an unknown driver"
        reason = f"offloaded by {what}, whose place ledgerfs cannot tell; open the folder or bucket itself"
        raise UnsupportedFormatError(reason, key=bucket or None)
    told: dict[str, Any] = {}
    endpoint, region = context.get("serviceEndpoint"), context.get("region")
    if protocol == "s3" and endpoint:
        told["endpoint_url"] = endpoint
    if protocol == "s3" and region:
        told["client_kwargs"] = {"region_name": region}
    return f"{protocol}://{bucket}", {**told, **reading.bucket_options}


def _folder_of(base: str, reading: LiveReading) -> str:
    """Return the URL of the filesystem offloader's base folder: Hadoop knows paths without a filesystem, which nobody else can resolve."""
    elsewhere = reading.bucket_urls.get(base)
    if elsewhere is not None:
        return elsewhere
    if base.startswith(_LOCAL):
        # Java writes file:/x, and the root as file://, which is the working directory to others.
        return f"file:///{base.removeprefix(_LOCAL).lstrip('/')}"
    if "://" in base:
        return base
    reason = (
        f"offloaded into the folder {base!r} of Hadoop's default filesystem, which the cluster's metadata does not name; "
        f"say where it is by the option bucket_urls, such as {{{base!r}: 'hdfs://namenode:9000/…'}}"
    )
    raise UnsupportedFormatError(reason, key=base or None)
