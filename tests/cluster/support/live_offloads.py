"""The objects of an offload, and what a broker notes of it, for clusters of ours: by ledgerfs' own writer, or as MapFiles."""

import time
from collections.abc import Sequence
from pathlib import Path

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.formats.ledger_metadata import LedgerMetadata, build_ledger_metadata
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import OffloadContext, Properties
from ledgerfs_cluster.offload.ledger_offloader import LedgerEntries, LedgerOffloader
from tests.support.ledgers import record
from tests.support.mapfile_buckets import put_file
from tests.support.mapfiles import MapFileWriter, ledger_records

BLOCK = 5 << 20
S3, FILESYSTEM = "aws-s3", "filesystem"
_CONSTANTS = {S3: "AWS_S3", "S3": "S3", "google-cloud-storage": "GOOGLE_CLOUD_STORAGE", "azureblob": "AZURE_BLOB"}


def write_objects(
    folder: Path, driver: str, ledger_id: int, uuid: str, metadata: LedgerMetadata, entries: Sequence[bytes]
) -> dict[str, Path]:
    """Write a ledger's objects into the folder of a bucket; return the ``data`` and the ``index`` file."""
    folder.mkdir(parents=True, exist_ok=True)
    name = metadata.managed_ledger
    assert name is not None
    if driver == FILESYSTEM:
        data, index = MapFileWriter().files(ledger_records(build_ledger_metadata(metadata), list(entries)))
        place = folder / name / f"{ledger_id}-{uuid}"
        put_file(place / "data", data, None)
        put_file(place / "index", index, None)
        return {"data": place / "data", "index": place / "index"}
    records = b"".join(record(i, entry) for i, entry in enumerate(entries))
    offloader = LedgerOffloader(open_bucket(f"file://{folder}"), block_size=BLOCK)
    user_metadata = {"ManagedLedgerName": name, "pulsarclustername": "ours"}
    offloader.offload(LedgerEntries(ledger_id, records, metadata), uuid, user_metadata)
    data_file = folder / f"{uuid}-ledger-{ledger_id}"
    return {"data": data_file, "index": folder / f"{data_file.name}-index"}


def remove_objects(folder: Path, driver: str | None, managed_ledger: str, ledger_id: int, uuid: str) -> None:
    """Delete what is there of an offload, as a broker that trims the ledger does."""
    place = folder / managed_ledger / f"{ledger_id}-{uuid}"
    stem = folder / f"{uuid}-ledger-{ledger_id}"
    files = [place / "index", place / "data"] if driver == FILESYSTEM else [Path(f"{stem}-index"), stem]
    for one in files:
        one.unlink(missing_ok=True)


def driver_properties(driver: str, folder: Path, *, endpoint: str, region: str) -> Properties:
    """Return what a broker notes of the place of an offload; of buckets by name, in the order of its hash map."""
    if driver == FILESYSTEM:
        return (("storageBasePath", f"file://{folder}"),)
    return (
        ("bucket", folder.name),
        ("managedLedgerOffloadDriver", _CONSTANTS[driver]),
        ("serviceEndpoint", endpoint),
        ("region", region),
    )


def context(
    uuid: str, driver: str, properties: Properties, *, is_complete: bool = True, offloaded_ms: int | None = None
) -> OffloadContext:
    """Return what a broker notes of an offload, or of one that goes on or failed; complete ones are so from now on unless told."""
    now = time.time_ns() // 1_000_000
    when = (now if offloaded_ms is None else offloaded_ms) if is_complete else None
    return OffloadContext(uuid, is_complete, False, when, driver, properties)
