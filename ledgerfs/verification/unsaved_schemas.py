"""Find schema versions that messages use and that are not saved in the bucket: without them values stay bytes.

A live cluster has its schemas itself. Versions in messages that it no longer has are lost.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.known_schemas import KnownSchemas
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import LedgerfsError, StoreUnreachableError
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, SchemaVersion
from ledgerfs.formats.schemas.schema_versions import TopicSchemas
from ledgerfs.formats.topic_names import schema_topic
from ledgerfs.messages.decode.named_versions import named_versions
from ledgerfs.storage.failures import is_refusal
from ledgerfs.storage.ordered_map import ordered_map

_SHOWN = 5
_THREADS = 8


class UnsavedSchemas:
    """Collects the schema versions in the messages of a bucket, ledger by ledger, and compares them with the saved ones."""

    def __init__(self, bucket: Bucket) -> None:
        self._schemas = KnownSchemas(bucket)
        self._is_cluster = bucket.source.keeps_schemas
        self._named: dict[str, set[int]] = {}

    def add(self, managed_ledger: str | None, versions: AbstractSet[int]) -> None:
        """Add the versions of a ledger; ignores one of unknown topic, which cannot have saved schemas."""
        topic = schema_topic(managed_ledger)
        if versions and topic is not None:
            self._named.setdefault(topic, set()).update(versions)

    def remarks(self) -> list[Finding]:
        """Return remarks: one about all topics together, and one for each topic with unreadable schemas; raises `StoreUnreachableError`."""
        unsaved: dict[str, list[int]] = {}
        unknown: list[Finding] = []
        for topic, outcome in ordered_map(self._unsaved_of, sorted(self._named), _THREADS, "ledgerfs-schemas"):
            if isinstance(outcome, LedgerfsError):
                message = f"the schemas cannot be read: {outcome.reason}"
                severity = Severity.UNCHECKED if is_refusal(outcome) else Severity.REMARK
                unknown.append(Finding(severity, "unreadable-schemas", message, outcome.key, topic=topic))
            elif outcome:
                unsaved[topic] = outcome
        remark = _lost if self._is_cluster else _unsaved
        return [*unknown, *([remark(unsaved)] if unsaved else [])]

    def _unsaved_of(self, topic: str) -> tuple[str, list[int] | LedgerfsError]:
        try:
            return topic, unsaved_versions(self._schemas.versions(topic), self._named[topic])
        except StoreUnreachableError:
            raise
        except LedgerfsError as error:
            return topic, error


def unsaved_versions(saved: Sequence[SchemaVersion], named: AbstractSet[int]) -> list[int]:
    """Return the schema versions that are neither saved, nor set by hand, nor in a cluster; ascending."""
    effective = TopicSchemas.of(saved).versions
    known = {one.version for one in effective if not (one.is_deletion or one.schema.unreadable)}
    return [] if ANY_VERSION in known else sorted(named - known)


def newest_named(ledgers: Sequence[LedgerReader]) -> set[int]:
    """Return the schema version of the newest message, if it has one. Reads the last entry of the last ledger that has any."""
    for ledger in reversed(ledgers):
        if ledger.last_entry >= 0:
            return set().union(*map(named_versions, ledger.batches(ledger.last_entry, ledger.last_entry)))
    return set()


def numbers_text(numbers: Sequence[int]) -> str:
    """Return numbers in a short form: ``0-3, 7``."""
    return ", ".join(_runs(numbers))


def _unsaved(unsaved: dict[str, list[int]]) -> Finding:
    message = (
        f"messages of {len(unsaved)} topics have schema versions that are not saved in the bucket ({_shown(unsaved)}). "
        "Save them while the cluster is running (ledgerfs schemas save), or set them by hand (ledgerfs schemas set)"
    )
    return Finding(Severity.REMARK, "unsaved-schemas", message)


def _lost(lost: dict[str, list[int]]) -> Finding:
    message = (
        f"messages of {len(lost)} topics have schema versions that the cluster no longer has ({_shown(lost)}): they were deleted "
        "by force, or their ledgers are lost. `ledgerfs schemas ls` lists the others; the values of these messages stay bytes"
    )
    return Finding(Severity.REMARK, "lost-schemas", message)


def _shown(versions: dict[str, list[int]]) -> str:
    shown = "; ".join(f"{topic}: {numbers_text(numbers)}" for topic, numbers in list(versions.items())[:_SHOWN])
    return shown + (f"; and {len(versions) - _SHOWN} more topics" if len(versions) > _SHOWN else "")


def _runs(numbers: Sequence[int]) -> Iterator[str]:
    first = last = None
    for number in [*numbers, None]:
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None:
            yield str(first) if first == last else f"{first}-{last}"
        first = last = number
