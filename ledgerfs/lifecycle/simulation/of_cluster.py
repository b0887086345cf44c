"""Simulating a cluster: what a survey has, under the rules of a policy file over the cluster's own policies."""

from dataclasses import dataclass

import numpy as np

from ledgerfs.clusters.survey import Survey
from ledgerfs.lifecycle.policy.policy_file import PolicyFile, ServiceSettings
from ledgerfs.lifecycle.policy.topic_rules import TopicRules
from ledgerfs.lifecycle.simulation.arrivals import HISTORY_S, Arrivals, arrivals_of
from ledgerfs.lifecycle.simulation.columns import Floats, Rules
from ledgerfs.lifecycle.simulation.simulated_rule import simulated_rule_of
from ledgerfs.lifecycle.simulation.simulation import DAY_S, Simulated, simulated
from ledgerfs.lifecycle.simulation.uploads import Rates


@dataclass(frozen=True, slots=True)
class ClusterSimulated:
    """What was found of a cluster.

    Attributes
    ----------
    simulated
        The days to come.
    arrivals
        What was written before, and what had to be assumed of it.
    rates
        Between which the rate followed the backlog.
    offloaded_topics
        Topics of which anything is ever offloaded.
    no_bucket
        Of those, how many have no bucket that the policy file names: a service refuses them, here they are offloaded.

    """

    simulated: Simulated
    arrivals: Arrivals
    rates: Rates
    offloaded_topics: int
    no_bucket: int

    @property
    def written_per_second(self) -> float:
        """Bytes that are written to all topics in a second."""
        return float(self.arrivals.topics.rates.sum())


def simulate_cluster(survey: Survey, file: PolicyFile, days: float, history_s: float = HISTORY_S) -> ClusterSimulated:
    """Play a cluster forward for some days."""
    arrivals = arrivals_of(survey, file.broker.ttl_ms, history_s)
    of = TopicRules(file, survey)
    told = [of.of(survey.topics[row]) for row in arrivals.rows.tolist()]
    rules = Rules.of([simulated_rule_of(one) for one in told])
    rates = rates_of(file.service, rules.after_s)
    found = simulated(arrivals.topics, arrivals.ledgers, rules, days, rates)
    offloads = rules.offloads
    no_bucket = sum(
        one.bucket is None for one, is_offloaded in zip(told, offloads.tolist(), strict=True) if is_offloaded
    )
    return ClusterSimulated(found, arrivals, rates, int(offloads.sum()), no_bucket)


def rates_of(settings: ServiceSettings, after_s: Floats) -> Rates:
    """Return the bounds of a service's rate; what is late is measured by half of all topics' ``offload_after``."""
    told = after_s[np.isfinite(after_s) & (after_s > 0)]
    ceiling = settings.highest_rate
    return Rates(min(float(settings.floor_rate or 0), ceiling), ceiling, float(np.median(told)) if told.size else DAY_S)
