"""One topic of a bucket, possibly partitioned: its ledgers, and its messages as a table."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from ledgerfs.bucket.wanted_topics import NamedTopic
from ledgerfs.catalog.missing_ledgers import MissingLedger
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.display import html_table, names_shown, printable
from ledgerfs.errors import AmbiguousLedgerError, InvalidOptionError, NotFoundError, UnreadableObjectsWarning
from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs.scan.options import OF_MESSAGES, ScanKeywords, ScanOptions

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.catalog.catalog import Catalog
    from ledgerfs.formats.schemas.schema_info import SchemaVersion
    from ledgerfs.scan.follow_start import FollowStart
    from ledgerfs.scan.following import Following
    from ledgerfs.scan.message_by_id import Message
    from ledgerfs.scan.message_id import MessageId
    from ledgerfs.scan.part_reading import TopicPart
    from ledgerfs.scan.report import ScanReport
    from ledgerfs.scan.scan import Scan


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of a bucket, as `Bucket.topic` returns it.

    Attributes
    ----------
    bucket
        The bucket. Each method reads its catalog once, so it has a consistent snapshot of all partitions.
    managed_ledger
        Name of its managed ledger; for a partitioned topic, the prefix of its partitions' names.
    is_partitioned
        Whether this is a partitioned topic: all partitions that have ledgers in the bucket at the time of the call.

    """

    bucket: "Bucket"
    managed_ledger: str | None
    is_partitioned: bool = False

    def __repr__(self) -> str:
        kind = "partitioned topic" if self.is_partitioned else "topic"
        return f"<{kind} {printable(self.name)} of {self.bucket!r}>"

    def __dir__(self) -> list[str]:
        return list(names_shown(self))

    def _repr_html_(self) -> str:
        """Return a table of its ledgers, from the last listing."""
        catalog = self.bucket.listed_catalog
        names = [] if catalog is None else self._managed_ledgers(catalog)
        rows = (
            (ref.topic, str(ref.ledger_id), ref.entries, ref.length, iso_time(ref.created_ms), iso_time(ref.uploaded_ms or None))
            for name in names
            for ref in (catalog.refs_of(name) if catalog is not None else ())
            if ref.copy == 0
        )  # fmt: skip
        return html_table(repr(self), ("topic", "ledger", "entries", "bytes", "created", "uploaded"), rows)

    @property
    def name(self) -> str:
        """``persistent://tenant/namespace/topic``."""
        return topic_of(self.managed_ledger)

    @property
    def partitions(self) -> "list[Topic]":
        """The partitions of a partitioned topic that have ledgers in the bucket, by number; empty for other topics.

        Includes partitions whose ledgers are all `missing`, or are being uploaded.
        """
        return [Topic(self.bucket, name) for name in self.managed_ledgers] if self.is_partitioned else []

    @property
    def managed_ledgers(self) -> list[str | None]:
        """Its managed ledger, or those of its partitions."""
        return self._managed_ledgers(self.bucket.catalog)

    @property
    def ledgers(self) -> list[LedgerReader]:
        """Its ledgers, partition by partition, ascending by id and so by time."""
        catalog = self.bucket.catalog
        names = self._managed_ledgers(catalog)
        return [reader for name in names for reader in self.bucket.readers_of(name, catalog)]

    def ledger(self, ledger_id: int) -> LedgerReader:
        """Return one of its ledgers.

        Raises `NotFoundError`, `MissingLedgerError` for one of the `missing` ledgers, and `AmbiguousLedgerError` if several partitions have
        this id.
        """
        catalog = self.bucket.catalog
        name = self._holder(catalog, ledger_id, self._managed_ledgers(catalog))
        return self.bucket.reader(catalog.find(ledger_id, [name]))

    @property
    def missing(self) -> tuple[MissingLedger, ...]:
        """Its ledgers that are incomplete in the bucket, partition by partition, ascending by id."""
        catalog = self.bucket.catalog
        return tuple(one for name in self._managed_ledgers(catalog) for one in catalog.missing_of(name))

    def scan(
        self, columns: Sequence[str] | None = None, options: ScanOptions | None = None, **keywords: Unpack[ScanKeywords]
    ) -> "Scan":
        """Return the topic as a streaming table: iterate it, or pass it to pyarrow, pandas, Polars or DuckDB.

        Accepts `ScanOptions`, or their fields as keywords: ``topic.scan(["key"], start_time="-1h", limit=10)``.

        A read raises `MissingLedgerError` before its first row if the topic has `missing` ledgers, unless ``on_corrupt`` is ``skip``. Warns
        (`UnplacedLedgersWarning`) if the bucket has ledgers that may belong to any topic, or that are being uploaded to this one. Raises
        `InvalidOptionError` for an invalid column, time or choice; and as a read if it infers the type of JSON documents.
        """
        # This imports pyarrow and numba, which listing and copying do not need.
        from ledgerfs.scan.scan import make_scan, scan_of, shown_values

        wanted = _options_of(columns, options, keywords)
        shown = shown_values(self.name, wanted, lambda: self.bucket.schemas_of(self.name))
        awaits_values = shown is not None and shown.source.awaits_values
        # Before the bucket is listed, since this raises for an invalid column or condition.
        scan = None if awaits_values else scan_of(self.name, (), wanted, shown)
        catalog = self.bucket.catalog
        self.bucket.warn_of_unplaced(self._named.warned_of(catalog), catalog)
        parts = self._parts(catalog)
        if scan is not None:
            return replace(scan, parts=tuple(parts))
        return make_scan(self.name, parts, wanted, lambda: self.bucket.schemas_of(self.name))

    def lazy(self, options: ScanOptions | None = None, **keywords: Unpack[ScanKeywords]) -> "pl.LazyFrame":
        """Return the topic as a Polars lazy frame: only its columns, rows and ledgers that a query needs are read.

        Accepts `ScanOptions`, or their fields as keywords; by default values are columns by the topic's schema.
        """
        from ledgerfs.scan.lazy_frame import lazy_frame  # an optional library, and as above

        given = keywords if options is not None or "values" in keywords else {"values": "auto", **keywords}
        return lazy_frame(self.scan(None, options, **given))

    def follow(
        self,
        columns: Sequence[str] | None = None,
        options: ScanOptions | None = None,
        *,
        start: "FollowStart" = "latest",
        after: "str | tuple[int, ...] | None" = None,
        poll_s: float = 0.25,
        patience_s: float = 60.0,
        **keywords: Unpack[ScanKeywords],
    ) -> "Following":
        """Return an endless iterator over the topic's record batches; messages arrive within a second of their confirmation.

        For topics of a live cluster; creates no subscription and changes nothing. Returns each message once, in order within a partition,
        also while ledgers are rolled over, offloaded and deleted from BookKeeper. Ends when the topic is terminated, or the iterator
        closed. Messages after one of an open transaction wait until it is committed or aborted.

        Parameters
        ----------
        columns, options, keywords
            As in `scan`, without ``start_time``, ``end_time``, ``limit`` and ``order``. ``committed`` and ``readable`` transactions are the
            same; with ``all`` nothing waits, and an unknown outcome is ``open``. ``on_corrupt="skip"`` reports damage, too large messages,
            and ledgers that were trimmed before they were read, in ``skipped``. ``values="json"`` needs a ``schema_version``; schemas that
            are registered later are resolved to the columns at the time of the call.
        start
            ``latest``: new messages only; ``earliest``: from the first message; a time: messages published from then on; or the id of the
            first message (as in `message`).
        after
            Instead of a start, the id of a message: begin with the next one, for example after the last row that another process handled.
        poll_s
            Time between two checks of the cluster, s; up to 0.8 while there are no new messages.
        patience_s
            How long ZooKeeper or bookies may be unreachable, s; no message is lost or repeated afterwards.

        Raises
        ------
        InvalidOptionError
            An invalid option; the topic is in a bucket, which cannot be followed.
        NotFoundError
            The first message does not exist.
        MissingLedgerError
            From the iterator: the named ledgers were trimmed before they were read.
        ObjectNotFoundError, StaleObjectError
            From the iterator: the topic was deleted; was deleted and created again.
        StoreUnreachableError
            From the iterator: ZooKeeper or bookies did not answer for ``patience_s``. Request the next batch to try again.

        """
        # pyarrow and numba, as above.
        from ledgerfs.bucket.following import following
        from ledgerfs.scan.follow_start import StartAt

        wanted = _options_of(columns, options, keywords)
        at = StartAt.of(start, after)
        return following(self.bucket, self._named, wanted, at, poll_s=poll_s, patience_s=patience_s)

    def json_type(
        self, rows: int | None = None, options: ScanOptions | None = None, **keywords: Unpack[ScanKeywords]
    ) -> "pa.DataType":
        """Return the type that `scan` with ``values="json"`` infers from the first ``rows`` values; None for all.

        Pass it as ``schema_version``: then a scan does not read all values to infer a type, and omits fields that the type lacks. The
        options are those of `scan`.
        """
        wanted = ScanOptions.of(
            options, **{**keywords, "columns": ("value",), "values": "json", "flatten": False, "limit": rows}
        )
        return self.scan(options=wanted).schema.field("value").type

    def count(self, options: ScanOptions | None = None, **keywords: Unpack[ScanKeywords]) -> int:
        """Return the number of messages, with the options of `scan`; `Scan.count` describes the reads.

        `UnreadableObjectsWarning` reports objects that ``on_unreadable="skip"`` omits, since a number has no report.
        """
        # pyarrow and numba, as above.
        from ledgerfs.scan.report import ScanReport

        report = ScanReport()
        messages = self.scan((), options, **keywords).count(report)
        if self.bucket.on_unreadable == "skip":
            self._warn_of_left_out(report, messages)
        return messages

    def _warn_of_left_out(self, report: "ScanReport", messages: int) -> None:
        places = [f"{one.name}: {one.why} ({one.key})" for one in report.missing]
        places += [
            f"{one.ledger_id}:{one.first_entry} to {one.ledger_id}:{one.last_entry}: {one.reason}"
            for one in report.skipped
        ]
        if places:
            more = f"; and {len(places) - 1:,} more" if len(places) > 1 else ""
            text = f"{self.name}: {messages:,} messages were counted; left out: {places[0]}{more}"
            warnings.warn(text, UnreadableObjectsWarning, stacklevel=3)

    def message(
        self, message_id: str | tuple[int, ...], options: ScanOptions | None = None, **keywords: Unpack[ScanKeywords]
    ) -> "Message":
        """Return one message by its id; reads its entry, and further ones for a chunked message.

        Parameters
        ----------
        message_id
            ``ledger:entry``, ``ledger:entry:index``, or Pulsar's forms ``ledger:entry:partition`` and ``ledger:entry:partition:index``, as
            text or tuple (`ledgerfs.scan.message_id`). For a chunked message, the id of any of its parts, or ``first;last``.
        options, keywords
            As in `scan`; only the keywords ``private_keys``, ``on_encrypted``, ``include_markers``, ``check_checksums`` and
            ``max_message_bytes``.

        Raises
        ------
        NotFoundError
            No such ledger, entry or message of the batch; a marker; a part of a chunked message without its other parts nearby.
        InvalidNameError
            An invalid id, or the id of an entry that is a batch of several messages.
        AmbiguousLedgerError
            Several partitions have this ledger (two clusters may share a bucket), and the id does not name a partition.
        MissingLedgerError
            The ledger is one of the `missing` ones.
        CorruptLedgerError, CorruptMessageError, EncryptedMessageError, KafkaEntryError
            The entry cannot be read.

        """
        # pyarrow and numba, as above.
        from ledgerfs.scan.message_by_id import read_message
        from ledgerfs.scan.message_id import MessageId

        for name in keywords:
            if name not in OF_MESSAGES:
                raise InvalidOptionError.unknown(name, OF_MESSAGES)
        identity = MessageId.of(message_id)
        topic = self._partition_of(identity) if self.is_partitioned else self
        return read_message(topic, identity, ScanOptions.of(options, **keywords).of_messages())

    def schema_versions(self) -> "tuple[SchemaVersion, ...]":
        """Return the versions of the topic's schema, in the order of their registration.

        From a bucket, the versions saved in it or given by hand; from a live cluster all, including softly deleted ones. Raises as
        `ledgerfs.bucket.known_schemas.KnownSchemas.versions`.
        """
        return self.bucket.schemas_of(self.name).versions

    def _parts(self, catalog: "Catalog") -> "list[TopicPart]":
        """Return the topic, or its partitions, with their ledgers in a catalog."""
        # As above.
        from ledgerfs.scan.part_reading import TopicPart

        names = self._managed_ledgers(catalog)
        return [TopicPart.of(name, self.bucket.readers_of(name, catalog), catalog) for name in names]

    def _managed_ledgers(self, catalog: "Catalog") -> list[str | None]:
        return self._named.managed_ledgers(catalog)

    @property
    def _named(self) -> NamedTopic:
        return NamedTopic(self.managed_ledger, self.is_partitioned)

    def _partition_of(self, identity: "MessageId") -> "Topic":
        """Return the partition of a message."""
        catalog = self.bucket.catalog
        names = self._managed_ledgers(catalog)
        if identity.partition is not None:
            names = [name for name in names if _number_of(name) == identity.partition]
            if not names:
                raise identity.not_found(f"the bucket has no ledger of partition {identity.partition} of this topic")
        try:
            return Topic(self.bucket, self._holder(catalog, identity.ledger_id, names))
        except NotFoundError as error:
            raise identity.not_found(error.reason) from error

    def _holder(self, catalog: "Catalog", ledger_id: int, names: Sequence[str | None]) -> str | None:
        """Return the managed ledger of ``names`` that has a ledger of this id, even a missing one; None without one."""
        found = [
            name
            for name in names
            if catalog.copies_of(name, ledger_id) or any(one.ledger_id == ledger_id for one in catalog.missing_of(name))
        ]
        if len(found) > 1:
            reason = f"several partitions have a ledger with this id; choose one partition: {', '.join(map(topic_of, found))}"
            raise AmbiguousLedgerError(reason, key=f"ledger {ledger_id}")
        return found[0] if found else catalog.find(ledger_id, names).managed_ledger


def _number_of(managed_ledger: str | None) -> int | None:
    _, number = split_partition(managed_ledger or "")
    return None if number is None else int(number)


def _options_of(columns: Sequence[str] | None, options: ScanOptions | None, keywords: Mapping[str, Any]) -> ScanOptions:
    if columns is None:
        return ScanOptions.of(options, **keywords)
    return ScanOptions.of(options, columns=columns, **keywords)
