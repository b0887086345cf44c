"""Which topics are restored, and their names in the new cluster: as before, or by a template such as ``public/restored/{topic}``."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ledgerfs.errors import InvalidNameError, InvalidOptionError
from ledgerfs.formats.topic_names import (
    decode_topic,
    managed_ledger_of,
    parse_managed_ledger_name,
    split_partition,
    topic_of,
)

_FIELDS = ("tenant", "namespace", "topic")
_FIELD = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which topics are restored, and how they are called.

    Attributes
    ----------
    topics
        Full matches of ``tenant/namespace/topic``, for all partitions of a topic also of one of them; empty for all.
    template
        Of their names, with ``{tenant}``, ``{namespace}`` and ``{topic}``; empty to keep all names. ``{topic}`` has to stand at the end: it
        has the number of a partition, too, so that partitions stay partitions of one topic.

    Raises `InvalidOptionError` for an invalid template.

    """

    topics: tuple[re.Pattern[str], ...] = ()
    template: str = ""

    def __post_init__(self) -> None:
        is_known = all(one in _FIELDS for one in _FIELD.findall(self.template))
        if self.template and not (is_known and self.template.endswith("{topic}")):
            reason = "a template is tenant/namespace/… with {tenant}, {namespace}, and {topic} at its end"
            raise InvalidOptionError(reason, key=self.template)

    def has(self, managed_ledger: str) -> bool:
        """Whether a topic is wanted."""
        if not self.topics:
            return True
        name = topic_of(managed_ledger).removeprefix("persistent://")
        both = {name, split_partition(name)[0]}
        return any(pattern.fullmatch(one) for pattern in self.topics for one in both)

    def chosen(self, managed_ledgers: Iterable[str]) -> list[str]:
        """Return those that are wanted: of a partitioned topic all partitions, or none."""
        names = list(managed_ledgers)
        whole = {split_partition(name)[0] for name in names if self.has(name)}
        return [name for name in names if split_partition(name)[0] in whole]

    def target_of(self, managed_ledger: str) -> str | None:
        """Return the managed ledger of a topic in the new cluster; None if the template makes no name of it."""
        if not self.template:
            return managed_ledger
        name = parse_managed_ledger_name(managed_ledger)
        if name is None:
            return None
        values = {"tenant": name.tenant, "namespace": name.namespace, "topic": decode_topic(name.encoded_topic)}
        made = _FIELD.sub(lambda found: values[found[1]], self.template)
        made = made if "://" in made else f"persistent://{made}"
        if made.count("/") < 4 or "/" in values["topic"]:
            return None
        try:
            target = managed_ledger_of(made)
        except InvalidNameError:
            return None
        return target if parse_managed_ledger_name(target) is not None else None
