"""Each class of fault x each way to read x once, always, every third request: the right bytes or our error, and clean caches afterwards.

What is demanded of each combination:

* The right bytes, or a `LedgerfsError` that names the object and, where it is about bytes, the offset. A fault that passes is not noticed
  at all. An entry whose checksum is wrong is named by its id, since a decoder does not know where in an object it stood.
* Within bounded time.
* When the fault has gone, the same read in the same process of the same bucket gives the right bytes; after an object was replaced or
  deleted, and the read came by that, those of the bucket as it is now, without anybody calling `refresh`. The catalog is refreshed: one
  that lacks ledgers because of their indexes says so, and stays as it is until then.
* **A flipped byte.** Scan, message and verify compare checksums, so they never return a wrong row. The ``entries`` file and ``read`` pass
  on what BookKeeper stored, record by record or in bytes, and have nothing to compare: there a flip in an entry goes unnoticed, and is
  kept in the caches. To demand more would be to demand that each read of some bytes reads all of each entry and knows what entries are.
  What is demanded: nothing but that bit is wrong; the next who does compare, any scan over the same bytes, finds it in the cache, asks the
  store again, gives the right rows, and leaves clean caches, so that the file is right from then on.
* **An index has no checksum at all.** A flip in it may go unnoticed, too, if the index still makes sense, and then what the catalog says is
  kept as long as the index has the same version. So only there nothing is demanded of what is kept; readers of the ledger compare what the
  index tells them with the catalog and the records, and read it again where these contradict.
"""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledgerfs.storage.retries import TIMEOUT_VARIABLE, Tries
from ledgerfs.storage.s3 import obstore_client
from tests.support import matrix
from tests.support.matrix import READINGS, Combination, World, small_parts
from tests.support.s3 import FaultProxy, S3Server

KINDS = (
    "short", "reset", "500", "503", "404", "403", "unranged", "flip", "slow", "hang", "replaced", "deleted", "index replaced",
)  # fmt: skip
SCHEDULES = ("once", "always", "third")
FAILING = frozenset({"short", "reset", "500", "503", "unranged", "hang"})
"""What is tried again until a request is given up. Where the bucket changes, or a store is slow, no request may be given up."""


GIVEN_UP_S = 3.0
"""``LEDGERFS_STORE_TIMEOUT`` where requests fail for good, so that an error is all that may come of them."""

SILENT_S = 1.0
"""After how long a request that hangs is sent again; all others have minutes."""


@pytest.fixture(scope="module")
def worlds(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[World]]:
    """A bucket and a proxy for each way to read, so that they can be tried at the same time; made once, as s3fs's clients take long."""
    made = []
    with pytest.MonkeyPatch.context() as patch:
        small_parts(patch)
        # It ends what hangs.
        patch.setattr(matrix, "MOST_SECONDS", 1200.0)
        for reading in READINGS:
            world = World(s3, f"matrix-{reading.name}-{uuid.uuid4().hex[:8]}", FaultProxy(s3.address).start())
            s3.make_bucket(world.bucket, {})
            made.append(world)
            # What is made and compiled once is not what the bound of time is about.
            Combination("flip", "third", reading, world, tmp_path_factory.mktemp("warm")).run()
        yield made
    for world in made:
        world.proxy.stop()


@pytest.fixture
def hasty(worlds: list[World], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let stores be silent for a second, and no request be given up for that."""
    monkeypatch.setattr(Tries, "patience", property(lambda tries: min(SILENT_S, tries.rest)))
    # obstore's client takes the time-out for good when it is made.
    monkeypatch.setattr(obstore_client, "store_timeout", lambda: 4 * SILENT_S)
    _renew(worlds)
    yield
    _renew(worlds)


def _renew(worlds: list[World]) -> None:
    for world in worlds:
        world.__dict__.pop("store", None)


@pytest.mark.parametrize("kind", KINDS)
def test_every_read_gives_the_right_bytes_or_our_error(
    kind: str,
    worlds: list[World],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if kind == "hang":
        request.getfixturevalue("hasty")
    reported = []
    with ThreadPoolExecutor(len(READINGS)) as pool:
        for schedule in SCHEDULES:
            made = [
                Combination(kind, schedule, reading, world, tmp_path / f"{reading.name}-{schedule}")
                for reading, world in zip(READINGS, worlds, strict=True)
            ]
            with monkeypatch.context() as patch:
                if schedule == "always" and kind in FAILING:
                    patch.setenv(TIMEOUT_VARIABLE, str(GIVEN_UP_S))
                outcomes = list(pool.map(Combination.meet, made))
            list(pool.map(Combination.check_afterwards, made))
            reported += [
                f"{one.reading.name} {schedule}: {outcome}" for one, outcome in zip(made, outcomes, strict=True)
            ]
    with capsys.disabled():
        print(f"\nfault matrix, {kind}: {len(reported)} combinations; {'; '.join(reported)}")
    assert len(reported) == len(READINGS) * len(SCHEDULES) == 18
