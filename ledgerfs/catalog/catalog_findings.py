"""Catalog findings of all layouts: contradicting copies, foreign keys, unlistable folders."""

from collections.abc import Iterator

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.partitioned_names import partitions_of
from ledgerfs.catalog.same_messages import SameMessages, out_of_order
from ledgerfs.errors import AccessDeniedError, LedgerfsError, ObjectNotFoundError, StoreError
from ledgerfs.formats.topic_names import topic_of

_NAMES_SHOWN = 5


def check_copies(catalog: Catalog) -> Iterator[Finding]:
    """Yield a finding for each copy that readers do not use."""
    for row in np.flatnonzero(catalog.ledgers["copy"] > 0):
        yield _copy(catalog, int(row))


def check_messages_twice(catalog: Catalog) -> Iterator[Finding]:
    """Yield a finding for each ledger that was made of another one, if the bucket has its messages under another id, too."""
    same_messages = SameMessages(catalog)
    for ref in same_messages.made():
        others = same_messages.others_of(ref)
        # Of several that were made of one, each names an earlier one.
        other = next((one for one in others if one.origin is None or one.ledger_id < ref.ledger_id), None)
        if other is not None:
            message = f"{other.key} has the same messages, under the id {other.ledger_id}; remove one of the two"
            yield about(ref, Severity.DAMAGE, "messages-twice", message)


def check_read_order(catalog: Catalog) -> Iterator[Finding]:
    """Yield a finding for each ledger that was made of another one and is out of order in its topic."""
    for ref in SameMessages(catalog).made():
        other = out_of_order(catalog, ref.managed_ledger, ref.ledger_id, ref.root.ledger_id)
        if other is not None:
            message = (
                f"read in the wrong order: this ledger has the messages of ledger {ref.root.ledger_id}, and {other.key} "
                f"(ledger {other.ledger_id}) those of ledger {other.root.ledger_id}; transactions and chunked messages may be incomplete"
            )
            yield about(ref, Severity.DAMAGE, "wrong-order", message)


def check_hidden_partitions(catalog: Catalog) -> Iterator[Finding]:
    """Yield a remark for each topic whose own ledgers hide its partitions."""
    for name in catalog.managed_ledgers:
        hidden = [] if name is None else partitions_of(catalog, name)
        if hidden:
            message = (
                f"this topic name selects only the ledgers of the topic itself, not those of its {len(hidden)} partitions; "
                "select each partition by its own name"
            )
            yield Finding(Severity.REMARK, "hidden-partitions", message, topic=topic_of(name))


def check_unlisted(catalog: Catalog) -> Iterator[Finding]:
    """Yield a finding for each unlistable folder."""
    for error in (*catalog.unlisted, *catalog.closed):
        message = f"cannot list this folder, which may contain ledgers: {error.reason}"
        yield Finding(Severity.UNCHECKED, "unlisted-folder", message, error.key)


def other_keys(catalog: Catalog, kind: str, what: str) -> Iterator[Finding]:
    """Yield a remark about the keys of one kind, if any; ``what`` describes them."""
    count = catalog.others.counts.get(kind, 0)
    if count:
        names = catalog.others.names[kind]
        shown = ", ".join(repr(name) for name in names[:_NAMES_SHOWN])
        more = f" and {count - _NAMES_SHOWN} more" if count > _NAMES_SHOWN else ""
        yield Finding(Severity.REMARK, f"{kind}-keys", f"{count} {what}: {shown}{more}")


def severity_of(error: LedgerfsError) -> Severity:
    """Return the severity of an unreadable object: deleted since the listing, refused by the store, or damaged."""
    if isinstance(error, ObjectNotFoundError):
        return Severity.REMARK
    if isinstance(error, AccessDeniedError | StoreError):
        return Severity.UNCHECKED
    return Severity.DAMAGE


def severity_of_copy(catalog: Catalog, ref: LedgerRef) -> Severity:
    """Return the severity of damage to a copy: a remark if readers use another, complete one."""
    is_read = ref.copy == 0 or not catalog.copies_of(ref.managed_ledger, ref.ledger_id)[0].is_sound
    return Severity.DAMAGE if is_read else Severity.REMARK


def about(
    ref: LedgerRef, severity: Severity, kind: str, message: str, offset: int | None = None, *, role: str | None = None
) -> Finding:
    """Return a finding about a ledger, or about one of its objects by role."""
    key = ref.key if role is None else ref.object(role).key
    return Finding(severity, kind, message, key, offset, ref.ledger_id, ref.topic)


def _copy(catalog: Catalog, row: int) -> Finding:
    """Return the finding of an unused copy: a remark if its index agrees with the used copy's, otherwise damage."""
    copy, read = catalog.ref(row), catalog.ref(row - int(catalog.ledgers["copy"][row]))
    if copy.agrees_with(read):
        return about(copy, Severity.REMARK, "extra-copy", "an extra copy of this ledger; another copy is read")
    return contradicting_copy(
        copy,
        f"{_claims(copy)}; the copy that is read, {read.key}, has {_claims(read)}, so one copy hides messages of the other",
    )


def contradicting_copy(copy: LedgerRef, difference: str) -> Finding:
    """Return the finding of a copy whose entries differ from those of the used copy."""
    message = f"a copy of this ledger with {difference}; remove the wrong copy"
    return about(copy, Severity.DAMAGE, "contradicting-copy", message)


def _claims(ref: LedgerRef) -> str:
    created = "" if ref.created_ms is None else f", created at {ref.created_ms} ms"
    return f"{ref.entries} entries of {ref.length} bytes{created}"
