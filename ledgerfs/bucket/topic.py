"""One topic of a bucket: its ledgers, and its messages as a table. A partitioned topic is one topic, too."""

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
        The bucket. Each method looks into its catalog once, so it sees all partitions at one moment.
    managed_ledger
        Name of its managed ledger. A partitioned topic has none: then the beginning of its partitions' names.
    is_partitioned
        Whether this is a partitioned topic: all partitions of which the bucket has ledgers at the time of the call.

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
        """Return a table of its ledgers by the last listing."""
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
        """The partitions of a partitioned topic that have ledgers in the bucket, by their numbers; empty for other topics.

        Among them are those whose ledgers are all `missing`, or just being uploaded.
        """
        return [Topic(self.bucket, name) for name in self.managed_ledgers] if self.is_partitioned else []

    @property
    def managed_ledgers(self) -> list[str | None]:
        """Its managed ledger, or those of its partitions."""
        return self._managed_ledgers(self.bucket.catalog)

    @property
    def ledgers(self) -> list[LedgerReader]:
        """Its ledgers, ascending by id, which is their order in time; partition by partition."""
        catalog = self.bucket.catalog
        names = self._managed_ledgers(catalog)
        return [reader for name in names for reader in self.bucket.readers_of(name, catalog)]

    def ledger(self, ledger_id: int) -> LedgerReader:
        """Return one of its ledgers.

        Raises `NotFoundError`, `MissingLedgerError` for one of those that are `missing`, and `AmbiguousLedgerError` if several partitions
        have one of this id.
        """
        catalog = self.bucket.catalog
        name = self._holder(catalog, ledger_id, self._managed_ledgers(catalog))
        return self.bucket.reader(catalog.find(ledger_id, [name]))

    @property
    def missing(self) -> tuple[MissingLedger, ...]:
        """Its ledgers of which the bucket has only a part, ascending by id; partition by partition."""
        catalog = self.bucket.catalog
        return tuple(one for name in self._managed_ledgers(catalog) for one in catalog.missing_of(name))

    def scan(
        self, columns: Sequence[str] | None = None, options: ScanOptions | None = None, **keywords: Unpack[ScanKeywords]
    ) -> "Scan":
        """Return the topic as a table that streams: iterate it, or hand it to pyarrow, pandas, Polars or DuckDB.

        Options are those of `ScanOptions`, given whole or as keywords: ``topic.scan(["key"], start_time="-1h", limit=10)``.

        A read raises `MissingLedgerError` before its first row if the topic has ledgers that are `missing`, unless ``on_corrupt`` is
        ``skip``. Warns (`UnplacedLedgersWarning`) if the bucket has ledgers that may belong to any topic, or that are just being uploaded
        to this one. Raises `InvalidOptionError` for an invalid column, time or choice; and as a read if the type of JSON documents is
        inferred.
        """
        # This imports pyarrow and numba, which listing and copying do not need.
        from ledgerfs.scan.scan import make_scan, scan_of, shown_values

        wanted = _options_of(columns, options, keywords)
        shown = shown_values(self.name, wanted, lambda: self.bucket.schemas_of(self.name))
        awaits_values = shown is not None and shown.source.awaits_values
        # Before anything is listed: this raises for an invalid column or condition.
        scan = None if awaits_values else scan_of(self.name, (), wanted, shown)
        catalog = self.bucket.catalog
        self.bucket.warn_of_unplaced(self._named.warned_of(catalog), catalog)
        parts = self._parts(catalog)
        if scan is not None:
            return replace(scan, parts=tuple(parts))
        return make_scan(self.name, parts, wanted, lambda: self.bucket.schemas_of(self.name))

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
        """Return an iterator over the topic's record batches that goes on for ever: messages come within a second of being confirmed.

        For topics of a live cluster, of which nothing is changed: there is no subscription. Each message comes once, those of a partition
        in their order, also while ledgers are rolled over, offloaded and deleted from BookKeeper. It ends when the topic is terminated, and
        when it is closed. Messages after one of an open transaction wait until that is committed or aborted.

        Parameters
        ----------
        columns, options, keywords
            As in `scan`, without ``start_time``, ``end_time``, ``limit`` and ``order``. ``committed`` and ``readable`` transactions are the
            same; with ``all`` nothing waits, and an outcome that is not known yet is ``open``. ``on_corrupt="skip"`` reports damage, too
            large messages, and ledgers that were trimmed before they were read, in ``skipped``. ``values="json"`` needs a
            ``schema_version``; schemas that are registered later are resolved to the columns of the moment of the call.
        start
            ``latest``: from now on; ``earliest``: all that is there, first; a time: messages published from then on; or the id of the first
            message (as in `message`).
        after
            Instead of a start, the id of a message: begin with the next one, such as after the last row that another process has handled.
        poll_s
            Time between two looks at the cluster, s; up to 0.8 while nothing comes.
        patience_s
            For how long ZooKeeper or bookies may be away, s: no message is lost or comes twice after that.

        Raises
        ------
        InvalidOptionError
            An invalid option; the topic is in a bucket, where nothing grows.
        NotFoundError
            There is no such message to begin with.
        MissingLedgerError
            From the iterator: ledgers were trimmed before they were read, which it names.
        ObjectNotFoundError, StaleObjectError
            From the iterator: the topic was deleted; and made again.
        StoreUnreachableError
            From the iterator: ZooKeeper or bookies did not answer for ``patience_s``. Asking for the next batch tries again.

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
        """Return the type that `scan` with ``values="json"`` infers, over the first ``rows`` values; None for all.

        As ``schema_version`` it spares a scan the reading of all values for their type; then fields that the type lacks are left out. The
        options are those of `scan`.
        """
        wanted = ScanOptions.of(
            options, **{**keywords, "columns": ("value",), "values": "json", "flatten": False, "limit": rows}
        )
        return self.scan(options=wanted).schema.field("value").type

    def count(self, options: ScanOptions | None = None, **keywords: Unpack[ScanKeywords]) -> int:
        """Return the number of messages; the options are those of `scan`, and `Scan.count` says what is read for it.

        `UnreadableObjectsWarning` reports what ``on_unreadable="skip"`` leaves out, since a number has no report.
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
        """Return one message by its id; costs the requests for its entry, more for a chunked message.

        Parameters
        ----------
        message_id
            ``ledger:entry``, ``ledger:entry:index``, or what Pulsar prints, ``ledger:entry:partition`` and
            ``ledger:entry:partition:index``, as text or tuple (`ledgerfs.scan.message_id`). A chunked message is found by any of its parts,
            and by ``first;last``.
        options, keywords
            As in `scan`; of keywords ``private_keys``, ``on_encrypted``, ``include_markers``, ``check_checksums`` and
            ``max_message_bytes``.

        Raises
        ------
        NotFoundError
            No such ledger, entry or message of the batch; a marker; a part of a chunked message whose other parts are not near.
        InvalidNameError
            An invalid id, or the id of an entry that is a batch of several messages.
        AmbiguousLedgerError
            Several partitions have this ledger (two clusters may share a bucket), and the id names no partition.
        MissingLedgerError
            The ledger is one of those that are `missing`.
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

        They are those that are saved in the bucket, or given by hand; of a live cluster all that it has, also those that were deleted
        softly. Raises as `ledgerfs.bucket.known_schemas.KnownSchemas.versions`.
        """
        return self.bucket.schemas_of(self.name).versions

    def _parts(self, catalog: "Catalog") -> "list[TopicPart]":
        """Return the topic, or its partitions, with the ledgers that a catalog has."""
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
        """Return which of some managed ledgers has a ledger of this id, even a missing one; None if none has."""
        found = [
            name
            for name in names
            if catalog.copies_of(name, ledger_id) or any(one.ledger_id == ledger_id for one in catalog.missing_of(name))
        ]
        if len(found) > 1:
            reason = f"several partitions have this ledger id, name one: {', '.join(map(topic_of, found))}"
            raise AmbiguousLedgerError(reason, key=f"ledger {ledger_id}")
        return found[0] if found else catalog.find(ledger_id, names).managed_ledger


def _number_of(managed_ledger: str | None) -> int | None:
    _, number = split_partition(managed_ledger or "")
    return None if number is None else int(number)


def _options_of(columns: Sequence[str] | None, options: ScanOptions | None, keywords: Mapping[str, Any]) -> ScanOptions:
    if columns is None:
        return ScanOptions.of(options, **keywords)
    return ScanOptions.of(options, columns=columns, **keywords)
