"""What a broker would trim of each topic of a survey, as `ledgerfs lifecycle` computes it for all of them."""

from typing import NamedTuple

from ledgerfs_cluster.rules.retention import Trim, keeps_its_last, retention_of, slowest_of, trim_of
from ledgerfs_cluster.snapshot.bundles import Owner, namespace_of
from ledgerfs_cluster.snapshot.policies import BrokerDefaults
from ledgerfs_cluster.snapshot.survey import Survey, TopicLedgers


class Retained(NamedTuple):
    """A topic, whose policy holds for it, and the rows of its ledgers that go."""

    owner: Owner
    policy: str
    ledgers: TopicLedgers
    trim: Trim

    @property
    def ledger_ids(self) -> list[int]:
        """The ledgers that would be trimmed."""
        return self.ledgers.ids[list(self.trim.going)].tolist()  # type: ignore[no-any-return]


def retained(survey: Survey, defaults: BrokerDefaults) -> dict[str, Retained]:
    """Return {managed ledger: what goes} of all topics that have ledgers."""
    found = {}
    for row, name in enumerate(survey.topics):
        ledgers, owner = survey.ledgers_of(row), survey.owners.of(name)
        if ledgers.ids.size:
            policies, own = survey.policies.get(namespace_of(name)), survey.own_policies(name)
            rule, policy = retention_of(name, policies, defaults, own)
            has_current = keeps_its_last(owner, ledgers.last_end, is_terminated=survey.is_terminated(row))
            trim = trim_of(ledgers, slowest_of(survey.cursors_of(row)), rule, survey.read_ms, has_current=has_current)
            found[name] = Retained(owner, policy, ledgers, trim)
    return found
