"""Convert Hadoop's S3 settings (``fs.s3a.*``), which Spark users already have, to fsspec options.

For everything else s3fs follows the AWS conventions (environment, profile, role of the machine).
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

_SPARK_PREFIX = "spark.hadoop."
_PREFIX = "fs.s3a."
_OF_BUCKET = "bucket."
_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})


def s3_options(url: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Return Hadoop's settings (``fs.s3a.endpoint``, also with prefix ``spark.hadoop.``) for a URL's bucket as s3fs options.

    Settings of one bucket (``fs.s3a.bucket.<name>.endpoint``) take precedence over settings of all. Empty if the URL is not on S3.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in _S3_SCHEMES:
        return {}
    plain = {name.removeprefix(_SPARK_PREFIX): value for name, value in settings.items()}
    own = f"{_PREFIX}{_OF_BUCKET}{rest.partition('/')[0]}."
    of_all = {name.removeprefix(_PREFIX): value for name, value in plain.items() if name.startswith(_PREFIX)}
    of_bucket = {name.removeprefix(own): value for name, value in plain.items() if name.startswith(own)}
    return _options_of({**of_all, **of_bucket})


def settings_of_files(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings in ``$SPARK_CONF_DIR/spark-defaults.conf`` and ``$HADOOP_CONF_DIR/core-site.xml``; Spark's take precedence.

    Ignores missing files; invalid XML raises `xml.etree.ElementTree.ParseError`.
    """
    found = os.environ if environment is None else environment
    settings: dict[str, str] = {}
    if "HADOOP_CONF_DIR" in found:
        settings |= _of_core_site(Path(found["HADOOP_CONF_DIR"]) / "core-site.xml")
    if "SPARK_CONF_DIR" in found:
        settings |= _of_spark_defaults(Path(found["SPARK_CONF_DIR"]) / "spark-defaults.conf")
    return settings


def only_s3(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the settings that `s3_options` supports, under Hadoop's names."""
    plain = ((name.removeprefix(_SPARK_PREFIX), value) for name, value in settings)
    return {name: value for name, value in plain if name.startswith(_PREFIX)}


def _options_of(settings: Mapping[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, option in (("access.key", "key"), ("secret.key", "secret"), ("session.token", "token")):
        if settings.get(name):
            options[option] = settings[name]
    if settings.get("endpoint"):
        options["endpoint_url"] = _endpoint(settings["endpoint"], settings.get("connection.ssl.enabled", "true"))
    if settings.get("endpoint.region"):
        options["client_kwargs"] = {"region_name": settings["endpoint.region"]}
    if settings.get("path.style.access") == "true":
        options["config_kwargs"] = {"s3": {"addressing_style": "path"}}
    if settings.get("aws.credentials.provider", "").endswith(_ANONYMOUS):
        options["anon"] = True
    return options


def _endpoint(host: str, is_secure: str) -> str:
    """Return the URL of an endpoint; Hadoop's settings may omit the scheme."""
    if "://" in host:
        return host
    return f"{'http' if is_secure == 'false' else 'https'}://{host}"


def _of_core_site(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    properties = ET.parse(path).getroot().iter("property")  # noqa: S314  (the administrator's own file)
    pairs = ((one.findtext("name"), one.findtext("value")) for one in properties)
    return only_s3((name.strip(), value.strip()) for name, value in pairs if name and value)


def _of_spark_defaults(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (line.replace("=", " ", 1).split(None, 1) for line in lines if line and not line.startswith("#"))
    return only_s3((pair[0], pair[1].strip()) for pair in pairs if len(pair) == 2 and pair[0].startswith(_SPARK_PREFIX))
