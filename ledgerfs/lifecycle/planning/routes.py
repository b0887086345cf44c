"""Who does the work on a topic: a broker, this program, or nobody, and why."""

from ledgerfs.clusters.bundles import Owner
from ledgerfs.lifecycle.planning.actions import Reason, Refusal
from ledgerfs.lifecycle.planning.topic_views import ClusterView, TopicView
from ledgerfs.lifecycle.policy.policy_file import Via

Route = Via | Reason
"""`Via.BROKER`, `Via.DIRECT`, or nobody."""


def route_of(cluster: ClusterView, topic: TopicView, *, has_admin: bool, deletes: bool) -> Route:
    """Return who does work on a topic that changes its list; ``deletes`` if that takes ledgers away."""
    if topic.is_of_brokers:
        return Reason(Refusal.SYSTEM_TOPIC, "it is a topic of the brokers' own")
    if topic.is_being_deleted:
        return Reason(Refusal.BEING_DELETED, "its namespace is being deleted")
    via = topic.rule.via
    if via is Via.BROKER or (via is Via.AUTO and topic.owner is Owner.SOME):
        if has_admin:
            return Via.BROKER
        whose = 'via = "broker"' if via is Via.BROKER else "a broker owns its bundle"
        return Reason(Refusal.NO_ADMIN, f"{whose}, and no admin says where brokers are asked")
    return direct_route(cluster, topic, deletes=deletes)


def direct_route(cluster: ClusterView, topic: TopicView, *, deletes: bool) -> Route:
    """Return whether this program may change the list of a topic, whatever is wanted."""
    if topic.owner is Owner.SOME:
        return Reason(Refusal.OWNED, "a broker owns its bundle, and may have it loaded")
    owners = cluster.survey.owners
    if cluster.is_owner_unreadable or owners.not_told:
        return Reason(Refusal.UNKNOWN_OWNER, "not all brokers tell which bundles they own")
    if not owners.are_in_zookeeper:
        reason = 'with the extensible load manager no node tells when a broker takes a topic; via = "broker" does it'
        return Reason(Refusal.LOAD_MANAGER, reason)
    if topic.owner is Owner.UNKNOWN:
        return Reason(Refusal.UNKNOWN_OWNER, "it is not known whether a broker owns its bundle")
    if deletes and topic.is_terminated:
        return Reason(
            Refusal.TERMINATED, "it is terminated, and a broker that loads such a topic leaves no trace of it"
        )
    return Via.DIRECT
