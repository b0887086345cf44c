"""Managed-ledger names, topic names and tree components: three spellings of one thing.

A managed ledger is named ``tenant/namespace/persistent/<encoded topic>`` (legacy V1: ``tenant/cluster/namespace/persistent/…``), its
topic ``persistent://tenant/namespace/<topic>``, and its path in our tree is ``tenant/namespace/<encoded topic>``
(Pulsar's ``TopicName.getPersistenceNamingEncoding``). The encoding is Java's ``URLEncoder``: a form encoding, so a space is ``+``.

Objects are untrusted, and so are names in them: a name that is not exactly of this form stays whole, quoted, under ``_other``,
and no component of the tree is ever empty, ``.``, ``..``, or contains a slash.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, quote_plus, unquote_plus

from ledgerfs.errors import InvalidNameError

OTHER_DIRECTORY = "_other"
UNKNOWN_DIRECTORY = "_unknown"

# Pulsar's NamedEntity accepts exactly these characters in tenants, clusters and namespaces.
_ENTITY = re.compile(r"[-=:.\w]+\Z", re.ASCII)
_PARTITION = re.compile(r"(.*)-partition-(0|[1-9][0-9]{0,9})", re.DOTALL)
_LAST_PARTITION = 2**31 - 1
_HIDDEN = {"%2E": ".", "%2E%2E": ".."}
_RESERVED = (OTHER_DIRECTORY, UNKNOWN_DIRECTORY)


def encode_topic(local_name: str) -> str:
    """Encode a topic's local name as Java's ``URLEncoder`` does (``+`` for a space; ``*``, ``-``, ``_``, ``.`` stay)."""
    return quote_plus(local_name, safe="*").replace("~", "%7E")


def decode_topic(encoded: str) -> str:
    """Undo `encode_topic`; bytes that are not UTF-8 become U+FFFD, as in Java."""
    return unquote_plus(encoded)


@dataclass(frozen=True, slots=True)
class ManagedLedgerName:
    """The parts of the name of a persistent topic's managed ledger; ``cluster`` is None except in legacy V1 names."""

    tenant: str
    cluster: str | None
    namespace: str
    encoded_topic: str

    @property
    def topic(self) -> str:
        """The topic as users name it: ``persistent://tenant/[cluster/]namespace/<local name>``."""
        middle = f"{self.cluster}/{self.namespace}" if self.cluster is not None else self.namespace
        return f"persistent://{self.tenant}/{middle}/{decode_topic(self.encoded_topic)}"

    @property
    def directory(self) -> tuple[str, str, str]:
        """Components of the topic's directory in the tree; the namespace of a V1 name is ``<cluster>%2F<namespace>``."""
        namespace = f"{self.cluster}%2F{self.namespace}" if self.cluster is not None else self.namespace
        return _visible(self.tenant), _visible(namespace), _visible(self.encoded_topic)


def parse_managed_ledger_name(name: str) -> ManagedLedgerName | None:
    """Return the parts of a managed-ledger name, or None when it does not belong to a persistent topic.

    It does not if its topic is encoded differently than by Java, or if it has four parts and a topic with a slash, which Pulsar
    would read as a legacy name (``tenant/namespace/a/b``). So topics and managed ledgers correspond one to one.
    """
    parts = name.split("/")
    if len(parts) == 4:
        tenant, namespace, domain, encoded = parts
        cluster = None
    elif len(parts) == 5:
        tenant, cluster, namespace, domain, encoded = parts
    else:
        return None
    entities = [tenant, namespace] if cluster is None else [tenant, cluster, namespace]
    if domain != "persistent" or not all(_ENTITY.match(entity) for entity in entities):
        return None
    if not encoded.isascii() or not encoded or tenant in _RESERVED:
        return None
    local = decode_topic(encoded)
    if encode_topic(local) != encoded or (cluster is None and "/" in local):
        return None
    return ManagedLedgerName(tenant, cluster, namespace, encoded)


def topic_of(managed_ledger: str | None) -> str:
    """Return the name that users see for a managed ledger: its topic, or its own name if it has no topic."""
    if managed_ledger is None:
        return UNKNOWN_DIRECTORY
    parsed = parse_managed_ledger_name(managed_ledger)
    return managed_ledger if parsed is None else parsed.topic


def directory_of(managed_ledger: str | None) -> tuple[str, ...]:
    """Return the components of a managed ledger's directory in the tree."""
    if managed_ledger is None:
        return (UNKNOWN_DIRECTORY,)
    parsed = parse_managed_ledger_name(managed_ledger)
    if parsed is not None:
        return parsed.directory
    # An empty name is a lone "%", which quoting never makes.
    return OTHER_DIRECTORY, _visible(quote(managed_ledger, safe="", errors="surrogatepass") or "%")


def managed_ledger_in(directory: Sequence[str]) -> str:
    """Return the managed ledger of a topic's directory in the tree: the inverse of `ManagedLedgerName.directory`.

    Raises `InvalidNameError` for directories of no topic; the error suggests the directory that was probably meant.
    """
    path = "/".join(directory)
    if len(directory) != 3 or directory[0] in _RESERVED:
        raise InvalidNameError("not the directory of a topic; expected <tenant>/<namespace>/<topic>", key=path)
    tenant, namespace, encoded = (_HIDDEN.get(component, component) for component in directory)
    entities = "/".join([tenant, *namespace.split("%2F")])
    name = f"{entities}/persistent/{encoded}"
    parsed = parse_managed_ledger_name(name)
    if parsed is None or parsed.directory != tuple(directory):
        hint = _spelling_hint(entities, encoded)
        raise InvalidNameError(
            f"not the directory of a topic: its name is not URL-encoded as Java's URLEncoder does it{hint}", key=path
        )
    return name


def _spelling_hint(entities: str, local_name: str) -> str:
    try:
        meant = parse_managed_ledger_name(f"{entities}/persistent/{encode_topic(local_name)}")
    except UnicodeEncodeError:
        return ""
    return "" if meant is None else f"; did you mean {'/'.join(meant.directory)}?"


def managed_ledger_of(topic: str) -> str:
    """Return the managed-ledger name of a topic.

    Accepts ``persistent://tenant/namespace/topic`` (a topic's local name may hold slashes), the short forms ``tenant/namespace/topic``
    and ``topic`` (in ``public/default``), and a managed-ledger name itself. Raises `InvalidNameError` otherwise.

    A URL with two or more slashes in its rest is read as Pulsar reads it: five parts are the legacy ``tenant/cluster/namespace/topic``.
    """
    if "://" not in topic and parse_managed_ledger_name(topic) is not None:
        return topic
    domain, separator, rest = topic.partition("://")
    if not separator:
        domain, rest = "persistent", topic
    parts = rest.split("/", 3)
    if not separator and len(parts) == 1:
        parts = ["public", "default", rest]
    if domain != "persistent" or len(parts) < 3 or not all(parts):
        raise InvalidNameError("not a persistent topic; expected persistent://tenant/namespace/topic", key=topic)
    *entities, local = parts
    if not all(_ENTITY.match(entity) for entity in entities):
        raise InvalidNameError(
            "tenant, cluster and namespace may contain only letters, digits and - = : . _", key=topic
        )
    try:
        return "/".join([*entities, "persistent", encode_topic(local)])
    except UnicodeEncodeError as error:
        raise InvalidNameError(
            "not valid Unicode: UTF-8 cannot encode it", key=topic.encode("utf-8", "replace").decode()
        ) from error


def split_partition(name: str) -> tuple[str, str | None]:
    """Split the name of a partition, of a topic or managed ledger: return the partitioned topic's name and the partition's number as text.

    Any other name is returned whole, with None. As in Pulsar's ``TopicName.getPartitionIndex``, a number is an ``int`` of Java, written as
    Java does it: ``-partition-01`` belongs to the name of a topic without partitions.
    """
    found = _PARTITION.fullmatch(name)
    return (name, None) if found is None or int(found[2]) > _LAST_PARTITION else (found[1], found[2])


def schema_owner(topic: str) -> ManagedLedgerName:
    """Return the name under which Pulsar stores the schemas of a topic and its partitions; accepts names as `managed_ledger_of` does.

    Raises `InvalidNameError`.
    """
    name, _ = split_partition(managed_ledger_of(topic))
    parsed = parse_managed_ledger_name(name)
    if parsed is None:
        raise InvalidNameError("not the name of a topic that can have a schema", key=topic)
    return parsed


def schema_topic(managed_ledger: str | None) -> str | None:
    """Return the topic that has the schemas of a managed ledger's messages (`schema_owner`); None for one that cannot have any."""
    try:
        return schema_owner(managed_ledger or "").topic
    except InvalidNameError:
        return None


def _visible(component: str) -> str:
    """Escape the two names that every file system reserves."""
    return component.replace(".", "%2E") if component in {".", ".."} else component
