"""The columns of a survey: rows by a key."""

import numpy as np

from ledgerfs.clusters.tables import SCHEMA, parts_by


def test_rows_by_a_key_are_each_there_once_and_in_their_order() -> None:
    rows = np.zeros(7, SCHEMA)
    rows["name"], rows["version"] = [5, 2, 5, 2, 9, 5, 2], range(7)
    found = [(int(one["name"][0]), one["version"].tolist()) for one in parts_by(rows, rows["name"])]
    assert found == [(2, [1, 3, 6]), (5, [0, 2, 5]), (9, [4])]
    assert parts_by(rows[:0], rows["name"][:0]) == []
    (alone,) = parts_by(rows[4:5], rows["name"][4:5])
    assert alone.tolist() == rows[4:5].tolist()
