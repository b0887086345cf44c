"""Schemas from a broker's admin API (``/admin/v2/schemas``), which only tells what is not deleted, and new ones set by it.

Names of topics are URL-encoded twice there. Encoded once, the answer is about another topic, and looks as if this one had no schemas.
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
from ledgerfs_cluster.formats.stored_schema import told_text
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests, Answer

_TRIES = 5
_NOT_THERE = frozenset({404, 405, 501})
_TITLE = re.compile(r"<title>(?:Error \d+ )?([^<]+)</title>")
_MOST_REASON = 300
_INCOMPATIBLE = 409
_NO_SCHEMA = frozenset({406, 422})


class AdminApi:
    """`SchemaStore` of a living cluster.

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
        """Return all versions that are not deleted, and before them the deletion that hides others, if there was one.

        The API tells neither when that was, nor what it hides.
        """
        path = _path(schema_owner(topic))
        for _ in range(_TRIES):
            answer = self._get(path, "schemas")
            found = self._versions_in(answer)
            deletion = self._deletion(path, found)
            if deletion is None:
                return found
            # Somebody may have registered or deleted one between the two answers.
            if self._versions_in(self._get(path, "schemas")) == found:
                return (deletion, *found)
        raise AdminApiError("the schemas changed while they were read, again and again", key=topic)

    def version(self, topic: str, number: int) -> tuple[SchemaVersion, ...]:
        """Return one version; none if there is none of this number, or if it is deleted."""
        path = _path(schema_owner(topic))
        answer = self._requests.get(f"{path}/schema/{number}", accept=frozenset({404}))
        if answer.status == 404 and "schema" in answer.reason.lower():
            return ()
        answer.require_ok()
        return (self._version_in(answer.json(), answer),)

    def register(self, topic: str, schema: SchemaInfo) -> int:
        """Have the broker register a schema, and return its number: that of an equal one which is not deleted, or a new one.

        Raises `InvalidSchemaError` for one that cannot be said in the API's words or that the broker takes for none, `SchemaConflictError`
        if the namespace's strategy does not let it follow those that are there, and `UncertainRequestError`.
        """
        body = {"type": schema.type, "schema": told_text(schema), "properties": dict(schema.properties)}
        path = _path(schema_owner(topic))
        # The same schema again gets the same number.
        answer = self._requests.change("POST", f"{path}/schema", body, is_repeatable=True)
        if answer.status == _INCOMPATIBLE:
            raise SchemaConflictError(f"the broker does not let it follow those before it: {_why(answer)}", key=topic)
        if answer.status in _NO_SCHEMA:
            raise InvalidSchemaError(f"the broker takes it for no schema: {_why(answer)}", key=topic)
        return _number_in(answer.require_ok())

    def delete(self, topic: str) -> int:
        """Have all versions hidden that a topic has by now, and return the number that this deletion has.

        Raises `UncertainRequestError`: a second deletion would have a number of its own, so nothing is sent twice.
        """
        path = f"{_path(schema_owner(topic))}/schema?force=false"
        return _number_in(self._requests.change("DELETE", path, is_repeatable=False).require_ok())

    def _get(self, path: str, what: str) -> Answer:
        return self._requests.get(f"{path}/{what}").require_ok()

    def _versions_in(self, answer: Answer) -> tuple[SchemaVersion, ...]:
        told = answer.json()
        listed = told.get("getSchemaResponses") if isinstance(told, dict) else None
        if not isinstance(listed, list):
            raise answer.unexpected("no list of schemas")
        found = tuple(sorted((self._version_in(one, answer) for one in listed), key=lambda one: one.version))
        if len({one.version for one in found}) != len(found):
            raise answer.unexpected("two schemas of one version")
        return found

    def _version_in(self, told: Any, answer: Answer) -> SchemaVersion:  # noqa: ANN401  (JSON)
        if not isinstance(told, dict):
            raise answer.unexpected("a schema that is no object")
        number, kind, data, when = (told.get(name) for name in ("version", "type", "data", "timestamp"))
        properties = told.get("properties") or {}
        is_sound = _is_number(number) and _is_number(when) and isinstance(kind, str) and isinstance(data, str | None)
        if not (is_sound and isinstance(properties, Mapping)):
            raise answer.unexpected("a schema without version, type, time or data")
        texts = {str(name): str(text) for name, text in properties.items()}
        info = SchemaInfo(str(kind), (data or "").encode("utf-8", "surrogatepass"), texts)
        return SchemaVersion(int(number or 0), info, int(when or 0), source=self.source)

    def _deletion(self, path: str, found: tuple[SchemaVersion, ...]) -> SchemaVersion | None:
        """Return the newest deletion, which has a number of its own: the highest of those that are not told."""
        answer = self._requests.get(f"{path}/metadata", accept=_NOT_THERE)
        if answer.status in _NOT_THERE or not answer.require_ok().body.strip():
            return None
        told = answer.json()
        index = told.get("index") if isinstance(told, dict) else None
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
    """Return the path of a topic's schemas; legacy names with a cluster are only known to the first version of the API."""
    name = quote(quote(decode_topic(owner.encoded_topic), safe=""), safe="")
    if owner.cluster is None:
        return f"/admin/v2/schemas/{owner.tenant}/{owner.namespace}/{name}"
    return f"/admin/schemas/{owner.tenant}/{owner.cluster}/{owner.namespace}/{name}"


def _why(answer: Answer) -> str:
    """Return the broker's reason, which of a refused schema is the title of a page."""
    title = _TITLE.search(answer.body.decode(errors="replace"))
    return answer.reason or (printable(title[1][:_MOST_REASON]) if title else f"status {answer.status}")


def _number_in(answer: Answer) -> int:
    """Return the number that something has by an answer: alone, or with its name once more around it."""
    told = answer.json()
    number = told.get("version") if isinstance(told, dict) else None
    number = number.get("version") if isinstance(number, dict) else number
    if not _is_number(number):
        raise answer.unexpected("no number of a version")
    return int(number or 0)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
