"""One topic of a bucket: its ledgers, and its messages as a table. A partitioned topic is one topic, too."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from ledgerfs.bucket.wanted_topics import NamedTopic
from ledgerfs.catalog.missing_ledgers import MissingLedger
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.catalog.time_arguments import CLOCK_SLACK_MS, Moment, iso_time
from ledgerfs.display import html_table, names_shown, printable
from ledgerfs.errors import AmbiguousLedgerError, InvalidOptionError, NotFoundError, UnreadableObjectsWarning
from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs.messages.codecs.size_limits import DEFAULT_MAX_MESSAGE_BYTES
from ledgerfs.scan.options import (
    ORDERS,
    OnCorrupt,
    OnEncrypted,
    OnUndecodable,
    Order,
    PrivateKeys,
    ScanOptions,
    Transactions,
    Values,
    of_bytes,
    require_choices,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.catalog.catalog import Catalog
    from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
    from ledgerfs.scan.follow_start import FollowStart
    from ledgerfs.scan.following import Following
    from ledgerfs.scan.message_by_id import Message
    from ledgerfs.scan.message_id import MessageId
    from ledgerfs.scan.partitioned_scan import PartitionedScan
    from ledgerfs.scan.scan import Scan
    from ledgerfs.scan.value_bytes import TopicLedgers


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
        self,
        columns: Sequence[str] | None = None,
        *,
        start_time: Moment = None,
        end_time: Moment = None,
        clock_slack_ms: int = CLOCK_SLACK_MS,
        transactions: Transactions = "committed",
        on_corrupt: OnCorrupt = "raise",
        private_keys: PrivateKeys | None = None,
        on_encrypted: OnEncrypted = "raise",
        include_markers: bool = False,
        check_checksums: bool = True,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        values: Values = "bytes",
        schema_version: "int | str | SchemaInfo | dict[str, Any] | pa.DataType | pa.Schema" = "latest",
        flatten: bool = False,
        on_undecodable: OnUndecodable = "raise",
        order: Order = "partition",
    ) -> "Scan | PartitionedScan":
        """Return the topic as a table that streams: iterate it, or hand it to pyarrow, pandas, Polars or DuckDB.

        The scan raises `MissingLedgerError` before its first row if the topic has ledgers that are `missing`, unless ``on_corrupt`` is
        "skip". Warns (`UnplacedLedgersWarning`) if the bucket has ledgers that may belong to any topic, or that are just being uploaded to
        this one. Raises `InvalidOptionError` for an invalid column, time or choice.

        Parameters
        ----------
        columns
            Names, in the wanted order (`ledgerfs.messages.decode.table_schema`); other columns are not built.
        start_time, end_time
            Messages published from here on, and before this: ISO 8601 text, datetime, date, or ms since 1970; UTC unless they say
            otherwise.
        clock_slack_ms
            How many ms earlier than a message before it a message may be published.
        transactions
            ``committed``; ``readable``, which ends where Pulsar's reader would stop, in each partition; ``all``, with their state.
        on_corrupt
            ``skip`` leaves out damage, too large messages, entries in Kafka's format and missing ledgers, and reports them.
        private_keys, on_encrypted
            Keys for decryption; for messages without a key ``null`` leaves out the value, ``skip`` the message.
        include_markers
            Whether the broker's own markers are rows, too.
        check_checksums
            Whether the CRC32C of every entry that has one is compared.
        max_message_bytes
            The largest message to decompress, or to join from chunks.
        values
            ``bytes``, as they are; ``typed``: columns, by the schemas that are saved of the topic (`schema_versions`); ``auto``: columns
            where there are any; ``json``: columns of JSON documents, whatever schemas there are. Their type is inferred before this
            returns, by reading all that the scan reads, unless ``schema_version`` gives it.
        schema_version
            As what values are read: ``latest``; a number; a schema (an Avro one as in JSON, or a `SchemaInfo`); or ``each``, a struct
            with a field for each version, as it was written. For JSON an Avro schema, or an Arrow type or schema: fields that it lacks
            are left out.
        flatten
            Whether the fields of values are columns beside the others; those that have the name of another are ``value_…``.
        on_undecodable
            For values that contradict their schema, are no JSON, or whose schema is not known: ``raise``, ``null``, or ``skip`` the
            message. They are counted in ``undecodable`` of the scan.
        order
            Of a partitioned topic: ``partition``, one after the other; or ``publish_time``, where of the partitions' next messages the one
            published first comes next. The messages of a partition keep their order in both.
        """
        whole = self._of_no_ledgers(
            columns, start_time=start_time, end_time=end_time, clock_slack_ms=clock_slack_ms,
            transactions=transactions, on_corrupt=on_corrupt, private_keys=private_keys, on_encrypted=on_encrypted,
            include_markers=include_markers, check_checksums=check_checksums, max_message_bytes=max_message_bytes,
            values=values, schema_version=schema_version, flatten=flatten, on_undecodable=on_undecodable, order=order,
        )  # fmt: skip
        catalog = self.bucket.catalog
        self.bucket.warn_of_unplaced(self._named.warned_of(catalog), catalog)
        topics = self._to_read(catalog)
        if whole.values is not None and whole.values.await_values(whole.message_columns):
            # This imports pyarrow and numba, which listing and copying do not need.
            from ledgerfs.scan.value_bytes import value_bytes

            whole = replace(whole, values=whole.values.learned(value_bytes(whole, topics)))
        return self._table(whole, topics, order)

    def follow(
        self,
        columns: Sequence[str] | None = None,
        *,
        start: "FollowStart" = "latest",
        after: "str | tuple[int, ...] | None" = None,
        poll_s: float = 0.25,
        patience_s: float = 60.0,
        clock_slack_ms: int = CLOCK_SLACK_MS,
        transactions: Transactions = "committed",
        on_corrupt: OnCorrupt = "raise",
        private_keys: PrivateKeys | None = None,
        on_encrypted: OnEncrypted = "raise",
        include_markers: bool = False,
        check_checksums: bool = True,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        values: Values = "bytes",
        schema_version: "int | str | SchemaInfo | dict[str, Any] | pa.DataType | pa.Schema" = "latest",
        flatten: bool = False,
        on_undecodable: OnUndecodable = "raise",
    ) -> "Following":
        """Return an iterator over the topic's record batches that goes on for ever: messages come within a second of being confirmed.

        For topics of a living cluster; nothing there is changed, and no subscription made. Each message comes once, those of a partition in
        their order, also while ledgers are rolled over, offloaded and deleted from BookKeeper. It ends when the topic is terminated, and
        when it is closed. Messages behind one of an open transaction wait until that is committed or aborted.

        Parameters
        ----------
        columns, clock_slack_ms, private_keys, on_encrypted, include_markers, check_checksums, max_message_bytes, flatten, on_undecodable
            As in `scan`.
        start
            ``latest``: what comes from now on; ``earliest``: all that is there, first; a time: messages published from there on; or the id
            of the first message (as in `message`).
        after
            Instead of a start, the id of a message: begin with the next one, such as behind the last row that another process has handled.
        poll_s
            Time between two looks at the cluster, s; up to 0.8 while nothing comes.
        patience_s
            For how long ZooKeeper or bookies may be away, s: no message is lost or comes twice after that.
        transactions
            ``committed`` and ``readable`` are the same here; with ``all`` nothing waits, and an outcome that is not known yet is ``open``.
        on_corrupt
            ``skip`` reports damage, too large messages, and ledgers that were trimmed before they were read, in ``skipped``.
        values, schema_version
            As in `scan`; the columns are those of the moment of the call, and schemas that are registered later are resolved to them.
            ``json`` only with a ``schema_version``.

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
        from ledgerfs.bucket.following import following, require_following
        from ledgerfs.scan.follow_start import StartAt

        require_following(self.bucket)
        whole = self._of_no_ledgers(
            columns, clock_slack_ms=clock_slack_ms, transactions=transactions, on_corrupt=on_corrupt,
            private_keys=private_keys, on_encrypted=on_encrypted, include_markers=include_markers,
            check_checksums=check_checksums, max_message_bytes=max_message_bytes, values=values,
            schema_version=schema_version, flatten=flatten, on_undecodable=on_undecodable, order="partition",
        )  # fmt: skip
        at = StartAt.of(start, after)
        return following(self.bucket, self.managed_ledgers, whole, at, poll_s=poll_s, patience_s=patience_s)

    def json_type(
        self, rows: int | None = None, *, order: Order = "partition", **options: Unpack[ScanOptions]
    ) -> "pa.DataType":
        """Return the type that `scan` with ``values="json"`` infers, but over the first ``rows`` values only; None for all.

        As ``schema_version`` it spares a scan the reading of all values for their type; then fields that the type lacks are left out. The
        options are those of `scan`.
        """
        if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 0):
            raise InvalidOptionError(
                "expected a number of values, 0 or more, or None for all of them", key=f"rows={rows!r}"
            )
        # This imports numba and pyarrow.
        from ledgerfs.scan.json_documents import inferred_type

        require_choices({**options, "values": "json"})
        whole = self._of_no_ledgers(("value",), order=order, **of_bytes(options))
        catalog = self.bucket.catalog
        self.bucket.warn_of_unplaced(self._named.warned_of(catalog), catalog)
        table = self._table(whole, self._to_read(catalog), order)
        return inferred_type(table, rows, options.get("on_undecodable", "raise")).type

    def count(
        self,
        *,
        start_time: Moment = None,
        end_time: Moment = None,
        clock_slack_ms: int = CLOCK_SLACK_MS,
        transactions: Transactions = "committed",
        on_corrupt: OnCorrupt = "raise",
        private_keys: PrivateKeys | None = None,
        on_encrypted: OnEncrypted = "raise",
        include_markers: bool = False,
        check_checksums: bool = True,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        values: Values = "bytes",
        schema_version: "int | str | SchemaInfo | dict[str, Any] | pa.DataType | pa.Schema" = "latest",
        flatten: bool = False,
        on_undecodable: OnUndecodable = "raise",
    ) -> int:
        """Return the number of messages; the options are those of `scan`.

        Messages are not built or decompressed, but for values as columns with ``on_undecodable="skip"``: only decoding tells which these
        are. (For JSON whose type is inferred that takes two readings: beside objects, any other document is left out.)
        `UnreadableObjectsWarning` reports what ``on_unreadable="skip"`` leaves out: a number has no ``skipped`` or ``missing``.
        """
        scan = self.scan(
            (), start_time=start_time, end_time=end_time, clock_slack_ms=clock_slack_ms, transactions=transactions,
            on_corrupt=on_corrupt, private_keys=private_keys, on_encrypted=on_encrypted,
            include_markers=include_markers, check_checksums=check_checksums, max_message_bytes=max_message_bytes,
            values=values, schema_version=schema_version, flatten=flatten, on_undecodable=on_undecodable,
        )  # fmt: skip
        messages = scan.count()
        if self.bucket.on_unreadable == "skip":
            self._warn_of_left_out(scan, messages)
        return messages

    def _warn_of_left_out(self, scan: "Scan | PartitionedScan", messages: int) -> None:
        places = [f"{one.name}: {one.why} ({one.key})" for one in scan.missing]
        places += [
            f"{one.ledger_id}:{one.first_entry} to {one.ledger_id}:{one.last_entry}: {one.reason}"
            for one in scan.skipped
        ]
        if places:
            more = f"; and {len(places) - 1:,} more" if len(places) > 1 else ""
            text = f"{self.name}: {messages:,} messages were counted; left out: {places[0]}{more}"
            warnings.warn(text, UnreadableObjectsWarning, stacklevel=3)

    def message(
        self,
        message_id: str | tuple[int, ...],
        *,
        private_keys: PrivateKeys | None = None,
        on_encrypted: OnEncrypted = "raise",
        include_markers: bool = False,
        check_checksums: bool = True,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    ) -> "Message":
        """Return one message by its id; costs the requests for its entry, more for a chunked message.

        Parameters
        ----------
        message_id
            ``ledger:entry``, ``ledger:entry:index``, or what Pulsar prints, ``ledger:entry:partition`` and
            ``ledger:entry:partition:index``, as text or tuple (`ledgerfs.scan.message_id`). A chunked message is found by any of its parts,
            and by ``first;last``.
        private_keys, on_encrypted, include_markers, check_checksums, max_message_bytes
            As in `scan`.

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

        identity = MessageId.of(message_id)
        return read_message(
            self._partition_of(identity) if self.is_partitioned else self, message_id, private_keys=private_keys,
            on_encrypted=on_encrypted, include_markers=include_markers, check_checksums=check_checksums,
            max_message_bytes=max_message_bytes,
        )  # fmt: skip

    def schema_versions(self) -> "tuple[SchemaVersion, ...]":
        """Return the versions of the topic's schema, in the order of their registration.

        They are those that are saved in the bucket, or given by hand; of a living cluster all that it has, also those that were deleted
        softly. Raises as `ledgerfs.bucket.known_schemas.KnownSchemas.versions`.
        """
        return self.bucket.schemas_of(self.name).versions

    def _of_no_ledgers(
        self,
        columns: Sequence[str] | None,
        *,
        order: Order,
        **options: Any,  # noqa: ANN401  (those of `scan`)
    ) -> "Scan":
        """Return a scan with these options; raises for invalid ones before anything is listed."""
        # As above.
        from ledgerfs.scan.scan import make_scan

        if order not in ORDERS:
            raise InvalidOptionError(f"one of {', '.join(ORDERS)}", key=f"order={order!r}")
        return make_scan(self.name, (), columns=columns, schemas=lambda: self.bucket.schemas_of(self.name), **options)

    def _to_read(self, catalog: "Catalog") -> "list[TopicLedgers]":
        """Return the ledgers of the topic, or of its partitions."""
        # As above.
        from ledgerfs.scan.value_bytes import TopicLedgers

        return [
            TopicLedgers.of(name, self.bucket.readers_of(name, catalog), catalog)
            for name in self._managed_ledgers(catalog)
        ]

    def _table(self, whole: "Scan", topics: "Sequence[TopicLedgers]", order: Order) -> "Scan | PartitionedScan":
        from ledgerfs.scan.partitioned_scan import PartitionedScan

        if self.is_partitioned:
            return PartitionedScan.of(whole, topics, order)
        (only,) = topics
        return only.scan_as(whole)

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
