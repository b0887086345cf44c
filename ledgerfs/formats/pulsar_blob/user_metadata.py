"""User metadata of the objects, as Pulsar's broker writes and checks it (``docs/formats/pulsar-blob.md``).

The broker refuses objects without the version key: ledgerfs can read a copy that lost its user metadata, the broker cannot.
Stores differ in the case of the keys, so their case is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass

FORMAT_VERSION = "1"

_VERSION_KEY = "s3managedledgeroffloaderformatversion"
_SOFTWARE_VERSION_KEY = "s3managedledgeroffloadersoftwareversion"
_SOFTWARE_COMMIT_KEY = "s3managedledgeroffloadersoftwaregitsha"
_ROLE_KEY = "role"
_MANAGED_LEDGER_KEY = "managedledgername"

CLUSTER_KEY = "pulsarclustername"
"""Key of the name of the cluster that wrote an object, in lower case."""

GROUP_KEY = "ledgerfs-group"
"""Key in the user metadata of data objects that one job of ledgerfs wrote together (`ledgerfs.layouts.pulsar_blob.ledger_group`)."""


@dataclass(frozen=True, slots=True)
class OffloadUserMetadata:
    """The keys that Pulsar writes on both objects of a ledger; None where a key is missing."""

    format_version: str | None
    software_version: str | None = None
    software_commit: str | None = None
    cluster: str | None = None
    role: str | None = None
    managed_ledger: str | None = None

    @property
    def broker_refuses(self) -> str | None:
        """Reason why a broker would refuse the object; None when it would read it."""
        if self.format_version is None:
            return f"user metadata lacks {_VERSION_KEY}: a broker refuses this object"
        if self.format_version != FORMAT_VERSION:
            return f"user metadata has {_VERSION_KEY}={self.format_version!r}, a broker accepts {FORMAT_VERSION!r} only"
        return None


def parse_user_metadata(metadata: Mapping[str, str]) -> OffloadUserMetadata:
    """Pick Pulsar's keys out of an object's user metadata, whatever their case."""
    lower = {key.lower(): value for key, value in metadata.items()}
    return OffloadUserMetadata(
        format_version=lower.get(_VERSION_KEY),
        software_version=lower.get(_SOFTWARE_VERSION_KEY),
        software_commit=lower.get(_SOFTWARE_COMMIT_KEY),
        cluster=lower.get(CLUSTER_KEY),
        role=lower.get(_ROLE_KEY),
        managed_ledger=lower.get(_MANAGED_LEDGER_KEY) or None,
    )


def group_of(metadata: Mapping[str, str]) -> str | None:
    """Return the name of the group that an object was written in (`GROUP_KEY`); None if it has none."""
    return {key.lower(): value for key, value in metadata.items()}.get(GROUP_KEY) or None


def build_user_metadata(metadata: OffloadUserMetadata) -> dict[str, str]:
    """Return the keys as Pulsar stores them on S3, without those that are None."""
    fields = {
        _VERSION_KEY: metadata.format_version,
        _SOFTWARE_VERSION_KEY: metadata.software_version,
        _SOFTWARE_COMMIT_KEY: metadata.software_commit,
        CLUSTER_KEY: metadata.cluster,
        _ROLE_KEY: metadata.role,
        _MANAGED_LEDGER_KEY: metadata.managed_ledger,
    }
    return {key: value for key, value in fields.items() if value is not None}
