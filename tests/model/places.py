"""The two buckets of a machine, in folders or on S3, and what the world outside does to their objects, past all of ledgerfs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.layouts.pulsar_blob.new_ledger import made_up_user_metadata
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.store_identity import identity_of
from ledgerfs.storage.url_filesystem import filesystem_of
from tests.support.s3 import S3Server


class Place(Protocol):
    """A bucket."""

    @property
    def url(self) -> str: ...

    @property
    def options(self) -> dict[str, Any]: ...

    def put(self, objects: Mapping[str, bytes], topic: str) -> None:
        """Put objects of a ledger as they are, as a broker does; one that is there is replaced."""

    def delete(self, key: str) -> None:
        """Delete one, if it is there."""


@dataclass(frozen=True)
class Folder:
    """A bucket in a folder."""

    path: Path
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def put(self, objects: Mapping[str, bytes], topic: str) -> None:
        for key, data in objects.items():
            path = self.path / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def delete(self, key: str) -> None:
        path = self.path / key
        path.unlink(missing_ok=True)
        if path.parent != self.path and path.parent.exists() and not any(path.parent.iterdir()):
            path.parent.rmdir()


@dataclass(frozen=True)
class S3Bucket:
    """A bucket of a real server."""

    server: S3Server
    name: str

    @classmethod
    def new(cls, server: S3Server) -> "S3Bucket":
        name = f"model-{uuid4()}"
        server.make_bucket(name, {})
        return cls(server, name)

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    @cached_property
    def options(self) -> dict[str, Any]:
        return self.server.options

    def put(self, objects: Mapping[str, bytes], topic: str) -> None:
        metadata = made_up_user_metadata(managed_ledger_of(topic))
        for key, data in objects.items():
            self.server.client.put_object(Bucket=self.name, Key=key, Body=data, Metadata=metadata)

    def delete(self, key: str) -> None:
        self.server.client.delete_object(Bucket=self.name, Key=key)


def store_of(place: Place) -> tuple[RawStore, str | None]:
    """Return a place's store, and its identity."""
    fs, root = filesystem_of(place.url, place.options)
    return open_store(fs, root), identity_of(fs, root)
