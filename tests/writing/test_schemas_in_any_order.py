"""Rows that are imported, schemas that are saved, given by hand and taken back in any order: no value is ever shown by another's schema.

Values of both schemas have the same bytes, so only its schema tells what a value is.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.errors import InvalidOptionError, InvalidRowsError, SchemaConflictError, UnknownSchemaError
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_HAND, SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.writing.imports import import_rows

TOPIC = "persistent://public/default/orders"
HOUR = 3_600_000
INFOS = {
    name: SchemaInfo(
        "AVRO",
        json.dumps({"type": "record", "name": "R", "fields": [{"name": name, "type": "long"}]}).encode(),
    )
    for name in "ab"
}
DELETION = 1
HISTORY = {0: "a", 2: "b"}
"""The cluster's: version 0 from 10 h on, its deletion at 20 h, version 2 from 30 h on."""


def _times(hour: int) -> pa.Array:
    return pa.array([hour * HOUR], pa.timestamp("ms", "UTC"))


class Day:
    """A topic, and what is true of its messages: the schema of each, by its key."""

    def __init__(self, folder: Path) -> None:
        self.bucket = open_bucket(str(folder))
        self.truth: dict[str, tuple[str, int]] = {}
        self.imported: dict[int, str] = {}
        self.is_saved = self.knows_old = False
        self.by_hand: dict[tuple[int, int | None], str] = {}
        self.moment = 0

    def cluster_writes(self, number: int) -> None:
        """Offload a message of the cluster's."""
        key = self._new(HISTORY[number], number)
        rows = {"key": [key], "value": [b"\x02"], "schema_version": [number.to_bytes(8, "big")]}
        import_rows(self.bucket, pa.table({**rows, "publish_time": _times(15 + 10 * number)}), TOPIC)

    def cluster_is_saved(self, *, before_the_deletion: bool) -> None:
        """Save what the cluster tells, before or after it deleted its first schema."""
        versions = [SchemaVersion(0, INFOS["a"], 10 * HOUR, source="http://a", saved_ms=1)]
        if not before_the_deletion:
            deletion = SchemaVersion(DELETION, SchemaInfo("NONE"), 20 * HOUR, is_deletion=True, source="http://a")
            versions = [deletion, SchemaVersion(2, INFOS["b"], 30 * HOUR, source="http://a")]
            self.is_saved = True
        self.knows_old |= before_the_deletion
        SavedSchemas(self.bucket.raw_store).add(TOPIC, versions)

    def rows_are_imported(self, name: str, number: int | None, hour: int) -> None:
        """Import a row, unless that is refused."""
        known = {one.version for one in self.bucket.schemas_of(TOPIC).versions if one.version != ANY_VERSION}
        table = pa.table({name: [1], "key": [str(len(self.truth))], "publish_time": _times(hour)})
        try:
            done = import_rows(self.bucket, table, TOPIC, schema=INFOS[name], schema_version=number)
        except (SchemaConflictError, InvalidOptionError, InvalidRowsError):
            return
        assert done.schema_version is not None
        # Nothing is guessed: a number is that of a saved schema, or the topic is new.
        assert number is not None or done.schema_version in known or (not self.truth and not known)
        self._new(name, done.schema_version)
        self.imported[done.schema_version] = name

    def is_given(self, name: str | None, number: int, hour: int | None) -> None:
        """Give a schema by hand, or take it back."""
        self.moment += 1
        when = None if hour is None or number < 0 else hour * HOUR
        info = SchemaInfo("NONE") if name is None else INFOS[name]
        said = SchemaVersion(number, info, when, is_deletion=name is None, source=BY_HAND, saved_ms=self.moment)
        SavedSchemas(self.bucket.raw_store).add(TOPIC, [said])
        self.by_hand.pop((number, when), None)
        if name is not None:
            self.by_hand[number, when] = name

    def require_truth(self) -> None:
        """Whatever is shown is the message's own schema, or what a user says of its number."""
        if not self.truth:
            return
        self.bucket.refresh()
        options: dict[str, Any] = {"schema_version": "each", "on_undecodable": "null"}
        try:
            rows = self.bucket.topic(TOPIC).scan(["key", "value"], values="typed", **options).to_table().to_pylist()
        except UnknownSchemaError:
            return
        assert len(rows) == len(self.truth)
        for row in rows:
            true, number = self.truth[row["key"]]
            (shown,) = [name for one in (row["value"] or {"": {true: 1}}).values() if one for name in one]
            assert shown == true or shown in self._said_of(number, true), (row, self.truth)

    def _said_of(self, number: int, true: str) -> set[str]:
        """Return what a user says of a number: by hand, or by writing rows under one of the cluster's that is not saved."""
        said = {name for (of, _), name in self.by_hand.items() if of in (number, ANY_VERSION)}
        is_known = self.is_saved or (number == 0 and self.knows_old)
        if HISTORY.get(number) == true and number in self.imported and not is_known:
            said.add(self.imported[number])
        return said

    def _new(self, name: str, number: int) -> str:
        key = str(len(self.truth))
        self.truth[key] = name, number
        return key


names, numbers = st.sampled_from("ab"), st.sampled_from([0, 1, 2, 3])
hours = st.sampled_from([5, 15, 25, 35])
steps = st.one_of(
    st.tuples(st.just("cluster_writes"), st.sampled_from(sorted(HISTORY))),
    st.tuples(st.just("cluster_is_saved"), st.booleans()),
    st.tuples(st.just("rows_are_imported"), names, st.none() | numbers, hours),
    st.tuples(st.just("is_given"), st.none() | names, st.just(ANY_VERSION) | numbers, st.none() | hours),
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, min_size=3, max_size=8))
def test_no_value_is_shown_by_another_schema_than_its_own(made: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        day = Day(Path(folder))
        for what, *given_ in made:
            if what == "cluster_is_saved":
                day.cluster_is_saved(before_the_deletion=given_[0])
            else:
                getattr(day, what)(*given_)
            day.require_truth()
