"""The strategies by which namespaces let a schema follow another, out of the way while schemas are set again, and put back afterwards.

What has to be put back is noted before it is changed, so that also a run after a crash knows it. Who finds a strategy that is not the
permissive one any more leaves it: somebody else has set it meanwhile.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from ledgerfs.errors import NotFoundError
from ledgerfs.recovery.settings.admin_paths import is_legacy_namespace, namespace_path
from ledgerfs.storage.admin_api.admin_requests import AdminRequests

PERMISSIVE = "ALWAYS_COMPATIBLE"


class StrategyNotes(Protocol):
    """Where it is noted what has to be put back: in the journal of the recovery. What a method did outlives the process."""

    def noted(self) -> Mapping[str, str]:
        """Return {namespace: its strategy}, as they are noted now, whoever did it."""
        ...

    def note(self, namespace: str, strategy: str) -> None:
        """Note what has to be put back."""
        ...

    def forget(self, namespace: str) -> None:
        """Note that nothing has to be put back any more."""
        ...


class Strategies:
    """Strategies of the new cluster's namespaces.

    All methods raise `AdminApiError` and its kinds, `AccessDeniedError`, `AuthenticationError`, and the errors of the notes.

    Parameters
    ----------
    requests
        To any broker of the cluster.
    notes
        Where it is noted what has to be put back.

    """

    __slots__ = ("_notes", "_requests")

    def __init__(self, requests: AdminRequests, notes: StrategyNotes) -> None:
        self._requests = requests
        self._notes = notes

    @contextmanager
    def permissive(self, namespace: str) -> Iterator[None]:
        """Let every schema follow every other until the end of a block.

        Namespaces with V1 names have no such setting that could be put back: theirs stays, and brokers may refuse a schema.
        """
        if is_legacy_namespace(namespace):
            yield
            return
        strategy = self._now(namespace)
        if strategy != PERMISSIVE:
            # Also where another one is noted: since that run somebody has set this.
            self._notes.note(namespace, strategy)
        elif namespace not in self._notes.noted():
            yield
            return
        # If this is not known to be done, it may be done later: then the note stays, for a run that looks again.
        self._set(namespace, PERMISSIVE)
        try:
            yield
        finally:
            self._put_back(namespace)

    def put_back_all(self) -> list[str]:
        """Put back what an earlier run did not, and return the namespaces whose strategy was another one until now."""
        return [namespace for namespace in sorted(self._notes.noted()) if self._put_back(namespace)]

    def _put_back(self, namespace: str) -> bool:
        strategy = self._notes.noted().get(namespace)
        if strategy is None:
            return False
        try:
            is_ours = self._now(namespace) == PERMISSIVE
        except NotFoundError:
            # A namespace that was deleted meanwhile has none.
            is_ours = False
        if is_ours:
            self._set(namespace, strategy)
        self._notes.forget(namespace)
        return is_ours

    def _now(self, namespace: str) -> str:
        answer = self._requests.get(self._path(namespace)).require_ok()
        told = answer.json()
        if not isinstance(told, str):
            raise answer.unexpected("no name of a strategy")
        return told

    def _set(self, namespace: str, strategy: str) -> None:
        self._requests.change("PUT", self._path(namespace), strategy, is_repeatable=True).require_ok()

    @staticmethod
    def _path(namespace: str) -> str:
        return f"{namespace_path(namespace)}/schemaCompatibilityStrategy"
