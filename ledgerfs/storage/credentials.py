"""Find credentials in options, URLs and texts: one table of names, and one rule for URLs.

All code uses this module that shows options, URLs or errors of other libraries, refuses options, or identifies buckets by options.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

HIDDEN = "***"

_SECRET_WORDS = frozenset(
    {"authorization", "bearer", "cookie", "cookies", "credential", "credentials", "pass", "passcode", "passphrase", "passwd"}
    | {"password", "passwords", "pwd", "sas", "secret", "secrets", "sig", "signature", "token", "tokens"}
)  # fmt: skip
"""A name that contains one of these words names a credential: ``fs.s3a.proxy.password``, ``sas_token``."""

_SECRET_PAIRS = frozenset(
    {("access", "key"), ("account", "key"), ("api", "key"), ("conn", "str"), ("connection", "string")}
    | {("customer", "key"), ("private", "key"), ("private", "keys"), ("secret", "key"), ("shared", "key")}
)  # fmt: skip
"""A name that contains such a pair of words names a credential: ``aws_access_key_id``, ``fs.azure.account.key.<host>``."""

_LAST_WORDS = frozenset({"auth", "key"})
"""A name that ends with one of these words names a credential: ``key``, ``encryption.key``; but not ``key_prefix``."""

_OPEN_KEYS = frozenset({"kms", "ordering", "partition", "primary", "public", "sort"})
"""Words before ``key`` that make it public."""

_DESCRIBING = frozenset(
    {"algorithm", "binding", "class", "enabled", "endpoint", "expiry", "file", "filename", "mechanism", "method", "path", "provider"}
    | {"providers", "timeout", "ttl", "type", "uri", "url"}
)  # fmt: skip
"""A name that ends with one of these words only describes a credential: ``fs.s3a.aws.credentials.provider``, ``token_url``."""

LOGIN_NAMES = frozenset({"username", "user_name"})
"""Names of logins: refused and hidden like credentials, but part of a bucket's identity."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_OF_BUCKET = re.compile(r"^(?:spark\.hadoop\.)?fs\.s3a\.bucket\.[^.]+\.")
"""The prefix of a setting for one bucket. The bucket's name may contain any word."""

_HOSTS_CONTAINER = frozenset({"abfs", "abfss", "jceks", "wasb", "wasbs"})
"""Schemes whose URLs have a container where others have a user: ``abfss://container@account.dfs.core.windows.net``."""

_PLAIN_NAMES = frozenset({"file", "local", "persistent", "non-persistent"})
"""Schemes of names without users and queries, in which ``?`` is an ordinary character."""

_PLACE = re.compile(
    r"""
    (?<![A-Za-z0-9+.\-])(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>(?:(?!::[A-Za-z][\w+.-]*(?:://|::))\S)*)
    | (?<![\w/.\-%])(?P<login>[^\s:/@'"=,(\[{]{1,256}):(?![:/])[^\s'"]{0,512}@
    """,
    re.VERBOSE,
)
_ASSIGNMENT = re.compile(
    r"""
    (?P<quote>['"])(?P<quoted>[\w.\-]+)(?P=quote)\s*[:=]\s*
    | (?<![\w/.\-])(?P<name>[\w.\-]+)=
    | (?<![\w/.\-])(?P<header>(?i:proxy-authorization|authorization|cookie|set-cookie)):\s*
    """,
    re.VERBOSE,
)
_VALUES = {
    "quoted": re.compile(r"""b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\]|\\.)*'|\{[^}]*\}|\[[^\]]*\]|[^\s,;)\]}]+"""),
    "name": re.compile(r""""[^"]*"|'[^']*'|[^\s,;&'")\]}]+"""),
    "header": re.compile(r"(?:[A-Za-z0-9-]+ )?\S+"),
}
"""Patterns of the value after a name in quotes, after a name without quotes, and after a header."""

_PARAMETER = re.compile(r"(?:^|[?&;])(?P<name>[^=&;?]+)=")


def is_credential(name: str) -> bool:
    """Return whether an option, a parameter or a header of this name holds a credential."""
    words = [word.lower() for word in _WORD.findall(_OF_BUCKET.sub("", name))]
    if not words or name.lower() in LOGIN_NAMES:
        return bool(words)
    if words[-1] in _DESCRIBING:
        return False
    if not _SECRET_WORDS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(pairwise(words)):
        return True
    return words[-1] in _LAST_WORDS and (len(words) == 1 or words[-2] not in _OPEN_KEYS)


def find_credential(options: Mapping[str, Any]) -> str | None:
    """Return the name of the first option that holds a credential, in its name or value, at any depth; None without one.

    Searches values, too: URLs with a user before the host or a signature in the query, JSON texts, and lists.
    """
    return next(_credentials_in(options, ""), None)


def without_credentials(text: str) -> str:
    """Return a URL, or a text that contains URLs and options, with ``***`` in place of possible credentials.

    Replaces the user before the ``@`` of a host, the whole query of a URL, and the value of a credential's name
    (``secret=…``, ``"secret": …``).
    """
    text = _PLACE.sub(_hidden_place, text)
    shown, at = [], 0
    for start, end in _given_to_credentials(text):
        shown += [text[at:start], HIDDEN]
        at = end
    return "".join([*shown, text[at:]])


def _credentials_in(value: Any, name: str) -> Iterator[str]:  # noqa: ANN401  (any value of an option)
    if isinstance(value, Mapping):
        for key, one in value.items():
            if is_credential(str(key)):
                yield str(key)
            yield from _credentials_in(one, str(key))
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _credentials_in(one, name)
    elif isinstance(value, str):
        if value.lstrip().startswith(("{", "[", '"')) and (parsed := _parsed(value)) is not None:
            yield from _credentials_in(parsed, name)
        elif _holds_credential(value):
            yield name


def _parsed(text: str) -> Any:  # noqa: ANN401  (any JSON value)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _holds_credential(text: str) -> bool:
    """Return whether a text has a credential: in a URL a user or a parameter, elsewhere ``name=…`` and ``"name": …``."""
    for found in _PLACE.finditer(text):
        user, _, query = _parts_of_url(found["scheme"], found["rest"]) if found["scheme"] else (found["login"], "", "")
        if user or any(is_credential(unquote(one["name"])) for one in _PARAMETER.finditer(query)):
            return True
    return any(_given_to_credentials(text))


def _hidden_place(found: re.Match[str]) -> str:
    if not found["scheme"]:
        return f"{HIDDEN}@"
    user, place, query = _parts_of_url(found["scheme"], found["rest"])
    return f"{found['scheme']}://{f'{HIDDEN}@' if user else ''}{place}{_hidden_query(query)}"


def _given_to_credentials(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the values that follow names of credentials in a text."""
    after = 0
    for found in _ASSIGNMENT.finditer(text):
        kind = found.lastgroup or "name"
        if found.start() < after or not is_credential(found[kind]):
            continue
        value = _VALUES[kind].match(text, found.end())
        if value is not None:
            after = value.end()
            yield value.span()


def _hidden_query(query: str) -> str:
    """Return a query with ``***`` as its content; keep a quote at its end, which belongs to the text around the URL."""
    said = query.rstrip("'\")]},;:")
    return f"?{HIDDEN}{query[len(said) :]}" if len(said) > 1 else query


def _parts_of_url(scheme: str, rest: str) -> tuple[str, str, str]:
    """Split the part of a URL after ``scheme://`` into the user, the text up to the query, and the query with its ``?``."""
    if scheme.lower() in _PLAIN_NAMES:
        return "", rest, ""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, _ = authority.rpartition("@")
    if not at and "@" in rest and re.search(r":(?!\d*$)[^\]]*\Z", authority):
        # Not a port, but a password that contains a slash instead of %2F.
        user, at, _ = rest.rpartition("@")
    if at and scheme.lower() in _HOSTS_CONTAINER and ":" not in user:
        user, at = "", ""
    place, mark, query = rest[len(user) + len(at) :].partition("?")
    return user, place, mark + query
