"""A bucket that the ledgers of a cluster are offloaded to: where we write, and how brokers find it again."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.formats.managed_ledgers.managed_ledger_info import OffloadContext, Properties

DEFAULT_BLOCK_SIZE = 64 << 20


@dataclass(frozen=True, slots=True)
class Tier:
    """A bucket.

    Attributes
    ----------
    driver, properties
        What a broker notes of an offload to it, by which it finds the objects.
    user_metadata
        Of the objects, besides the topic's name and role.
    block_size
        Bytes.

    """

    bucket: Bucket
    driver: str
    properties: Properties
    user_metadata: Mapping[str, str] = field(default_factory=dict)
    block_size: int = DEFAULT_BLOCK_SIZE

    def url_of(self, context: OffloadContext) -> str | None:
        """Return the bucket's URL if the objects of an offload are in it, by what was noted; None if they are elsewhere."""
        told, mine = dict(context.properties), dict(self.properties)
        is_here = all((told.get(one) or "") == (mine.get(one) or "") for one in ("bucket", "serviceEndpoint"))
        return self.bucket.store.url if is_here and (context.driver or "").lower() == self.driver.lower() else None

    def context(self, uuid: str, now_ms: int) -> OffloadContext:
        """Return the context of an offload to it that is complete."""
        return OffloadContext(
            uuid,
            is_complete=True,
            is_deleted_from_bookkeeper=False,
            offloaded_ms=now_ms,
            driver=self.driver,
            properties=self.properties,
        )
