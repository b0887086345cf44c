"""Schemas from a broker's admin API (``/admin/v2/schemas``): reads those that are not deleted, and registers new ones.

Topic names are URL-encoded twice in its paths. Encoded once, the answer is about another topic, and this one seems to have no schemas.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ledgerfs.display import printable
from ledgerfs.errors import InvalidSchemaError, SchemaConflictError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.formats.topic_names import ManagedLedgerName, decode_topic, schema_owner
from ledgerfs_cluster.errors import AdminApiError
from ledgerfs_cluster.formats.stored_schema import reported_text
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests, Answer

_TRIES = 5
_NOT_THERE = frozenset({404, 405, 501})
_TITLE = re.compile(r"<title>(?:Error \d+ )?([^<]+)</title>")
_MOST_REASON = 300
_INCOMPATIBLE = 409
_NO_SCHEMA = frozenset({406, 422})


class AdminApi:
    """`SchemaStore` of a live cluster.

    All methods raise `AdminApiError` and its kinds, `AuthenticationError`, `AccessDeniedError`, `NotFoundError` (no such tenant or
    namespace) and `InvalidNameError`.
    """

    __slots__ = ("_requests",)

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    @property
    def source(self) -> str:
        """The address of the broker."""
        return self._requests.address

    def versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Return all versions that are not deleted, after the deletion that hides older ones, if there was one.

        The API reports neither the time of the deletion nor the versions that it hides.
        """
        path = _path(schema_owner(topic))
        for _ in range(_TRIES):
            answer = self._get(path, "schemas")
            found = self._versions_in(answer)
            deletion = self._deletion(path, found)
            if deletion is None:
                return found
            # A version may have been registered or deleted between the two answers.
            if self._versions_in(self._get(path, "schemas")) == found:
                return (deletion, *found)
        raise AdminApiError("the schemas changed during each of several tries to read them; try again", key=topic)

    def version(self, topic: str, number: int) -> tuple[SchemaVersion, ...]:
        """Return one version as a tuple; an empty one if it does not exist or is deleted."""
        path = _path(schema_owner(topic))
        answer = self._requests.get(f"{path}/schema/{number}", accept=frozenset({404}))
        if answer.status == 404 and "schema" in answer.reason.lower():
            return ()
        answer.require_ok()
        return (self._version_in(answer.json(), answer),)

    def register(self, topic: str, schema: SchemaInfo) -> int:
        """Register a schema at the broker, and return its number: that of an equal one that is not deleted, or a new one.

        Raises `InvalidSchemaError` for one that the API cannot express or the broker rejects, `SchemaConflictError` if it is incompatible
        with the existing ones by the namespace's strategy, and `UncertainRequestError`.
        """
        body = {"type": schema.type, "schema": reported_text(schema), "properties": dict(schema.properties)}
        path = _path(schema_owner(topic))
        # The same schema gets the same number again.
        answer = self._requests.change("POST", f"{path}/schema", body, is_repeatable=True)
        if answer.status == _INCOMPATIBLE:
            raise SchemaConflictError(
                f"the schema is incompatible with earlier versions, by the broker: {_why(answer)}", key=topic
            )
        if answer.status in _NO_SCHEMA:
            raise InvalidSchemaError(f"the broker does not accept the schema: {_why(answer)}", key=topic)
        return _number_in(answer.require_ok())

    def delete(self, topic: str) -> int:
        """Hide all current versions of a topic, and return the number of this deletion.

        Raises `UncertainRequestError`: a second deletion would get another number, so no request is repeated.
        """
        path = f"{_path(schema_owner(topic))}/schema?force=false"
        return _number_in(self._requests.change("DELETE", path, is_repeatable=False).require_ok())

    def _get(self, path: str, what: str) -> Answer:
        return self._requests.get(f"{path}/{what}").require_ok()

    def _versions_in(self, answer: Answer) -> tuple[SchemaVersion, ...]:
        reported = answer.json()
        listed = reported.get("getSchemaResponses") if isinstance(reported, dict) else None
        if not isinstance(listed, list):
            raise answer.unexpected("no list of schemas")
        found = tuple(sorted((self._version_in(one, answer) for one in listed), key=lambda one: one.version))
        if len({one.version for one in found}) != len(found):
            raise answer.unexpected("two schemas with the same version")
        return found

    def _version_in(self, reported: Any, answer: Answer) -> SchemaVersion:  # noqa: ANN401  (JSON)
        if not isinstance(reported, dict):
            raise answer.unexpected("a schema that is not a JSON object")
        number, kind, data, when = (reported.get(name) for name in ("version", "type", "data", "timestamp"))
        properties = reported.get("properties") or {}
        is_sound = _is_number(number) and _is_number(when) and isinstance(kind, str) and isinstance(data, str | None)
        if not (is_sound and isinstance(properties, Mapping)):
            raise answer.unexpected("a schema without a version, type, time or data")
        texts = {str(name): str(text) for name, text in properties.items()}
        info = SchemaInfo(str(kind), (data or "").encode("utf-8", "surrogatepass"), texts)
        return SchemaVersion(int(number or 0), info, int(when or 0), source=self.source)

    def _deletion(self, path: str, found: tuple[SchemaVersion, ...]) -> SchemaVersion | None:
        """Return the newest deletion: the highest number before the visible versions, since a deletion has its own number."""
        answer = self._requests.get(f"{path}/metadata", accept=_NOT_THERE)
        if answer.status in _NOT_THERE or not answer.require_ok().body.strip():
            return None
        reported = answer.json()
        index = reported.get("index") if isinstance(reported, dict) else None
        numbers = (
            [one.get("version") if isinstance(one, dict) else None for one in index]
            if isinstance(index, list)
            else [None]
        )
        if not all(map(_is_number, numbers)):
            raise answer.unexpected("no list of versions")
        first = found[0].version if found else None
        hidden = [int(number or 0) for number in numbers if first is None or int(number or 0) < first]
        return SchemaVersion(max(hidden), SchemaInfo("NONE"), is_deletion=True, source=self.source) if hidden else None


def _path(owner: ManagedLedgerName) -> str:
    """Return the path of a topic's schemas; only v1 of the API accepts legacy names with a cluster."""
    name = quote(quote(decode_topic(owner.encoded_topic), safe=""), safe="")
    if owner.cluster is None:
        return f"/admin/v2/schemas/{owner.tenant}/{owner.namespace}/{name}"
    return f"/admin/schemas/{owner.tenant}/{owner.cluster}/{owner.namespace}/{name}"


def _why(answer: Answer) -> str:
    """Return the broker's reason; for a refused schema it is the title of an HTML page."""
    title = _TITLE.search(answer.body.decode(errors="replace"))
    return answer.reason or (printable(title[1][:_MOST_REASON]) if title else f"status {answer.status}")


def _number_in(answer: Answer) -> int:
    """Return the version number in an answer: alone, or nested in ``version`` once more."""
    reported = answer.json()
    number = reported.get("version") if isinstance(reported, dict) else None
    number = number.get("version") if isinstance(number, dict) else number
    if not _is_number(number):
        raise answer.unexpected("no version number")
    return int(number or 0)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
