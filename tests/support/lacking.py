"""Buckets that have lost objects: topics of small ledgers, in a folder and on S3, and what takes objects away behind everybody's back."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, NAME, Offload, offload
from tests.support.s3 import S3Server, environment_of

TOPIC = "persistent://public/default/orders"
OTHER = "persistent://public/default/payments"
OTHER_NAME = "public/default/persistent/payments"
MESSAGES = 80


def ledger(
    ledger_id: int,
    *,
    uuid: int | None = None,
    messages: int = MESSAGES,
    name: str = NAME,
    created_ms: int | None = CREATED_MS,
    first_ms: int = CREATED_MS,
) -> Offload:
    """Return a ledger of so many messages, published from ``first_ms`` on: of another one, it has as many other bytes."""
    entries = [
        frame(metadata(sequence_id=i, publish_time_ms=first_ms + 1000 * ledger_id + i), b"%d:%d" % (ledger_id, i))
        for i in range(messages)
    ]
    return offload(entries, ledger_id, uuid=uuid or ledger_id, name=name, created_ms=created_ms)


@dataclass
class LossyBucket:
    """A bucket in a folder, or on S3 with the user metadata that Pulsar writes.

    Attributes
    ----------
    env
        What a command needs to open it.

    """

    url: str
    options: dict[str, Any]
    env: dict[str, str]
    folder: Path | None = None
    s3: S3Server | None = None

    def put(self, made: Offload, *, name: str | None = NAME, **extra: str) -> None:
        for key, data in made.objects.items():
            self.put_object(key, data, name, **extra)

    def put_object(self, key: str, data: bytes, name: str | None = NAME, **extra: str) -> None:
        if self.s3 is None:
            assert self.folder is not None
            (self.folder / key).write_bytes(data)
            return
        reported = {
            "s3managedledgeroffloaderformatversion": "1",
            **({"managedledgername": name} if name else {}),
            **extra,
        }
        self.s3.client.put_object(Bucket=self._bucket, Key=key, Body=data, Metadata=reported)

    def lose(self, key: str) -> None:
        if self.s3 is None:
            assert self.folder is not None
            (self.folder / key).unlink()
        else:
            self.s3.client.delete_object(Bucket=self._bucket, Key=key)

    def open(self, **options: Any) -> Bucket:
        return open_bucket(self.url, self.options, **options)

    @property
    def _bucket(self) -> str:
        return self.url.removeprefix("s3://")


def lossy_folder(folder: Path) -> LossyBucket:
    folder.mkdir(exist_ok=True)
    return LossyBucket(f"file://{folder}", {}, {}, folder=folder)


def lossy_s3(s3: S3Server, bucket: str) -> LossyBucket:
    return LossyBucket(f"s3://{bucket}", s3.options, environment_of(s3), s3=s3)


def key_of(made: Offload, ending: str = "") -> str:
    return f"{made.uuid}-ledger-{made.ledger_id}{ending}"
