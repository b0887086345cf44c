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
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.matrix import READINGS, SECONDS, Combination, World, small_parts
from tests.support.s3 import FaultProxy, S3Server

KINDS = (
    "short", "reset", "500", "503", "404", "403", "unranged", "flip", "slow", "hang", "replaced", "deleted", "index replaced",
)  # fmt: skip
SCHEDULES = ("once", "always", "third")

_ran: Counter[str] = Counter()


@pytest.fixture(scope="module")
def worlds(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[World]]:
    """A bucket and a proxy for each way to read, so that they can be tried at the same time; made once, as s3fs's clients take long."""
    made = []
    with pytest.MonkeyPatch.context() as patch:
        small_parts(patch)
        patch.setenv("LEDGERFS_STORE_TIMEOUT", "20")
        for reading in READINGS:
            world = World(s3, f"matrix-{reading.name}-{uuid.uuid4().hex[:8]}", FaultProxy(s3.address).start())
            s3.make_bucket(world.bucket, {})
            made.append(world)
            # What is made and compiled once is not what the bound of time is about.
            Combination("flip", "third", reading, world, tmp_path_factory.mktemp("warm")).run()
        patch.setenv("LEDGERFS_STORE_TIMEOUT", str(SECONDS))
        for world in made:
            # botocore's client takes the time-out for good when it is made.
            del world.store
        yield made
    for world in made:
        world.proxy.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_every_read_gives_the_right_bytes_or_our_error(
    kind: str,
    worlds: list[World],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def try_one(number: int) -> list[str]:
        reading = READINGS[number]
        made = [
            Combination(kind, schedule, reading, worlds[number], tmp_path / f"{number}-{schedule}")
            for schedule in SCHEDULES
        ]
        return [f"{one.reading.name} {one.schedule}: {one.run()}" for one in made]

    with ThreadPoolExecutor(len(READINGS)) as pool:
        told = [one for of_reading in pool.map(try_one, range(len(READINGS))) for one in of_reading]
    _ran[kind] = len(told)
    with capsys.disabled():
        print(f"\nfault matrix, {kind}: {len(told)} combinations; {'; '.join(told)}")
    assert len(told) == len(READINGS) * len(SCHEDULES) == 18


@pytest.mark.fault
def test_the_whole_matrix_ran(capsys: pytest.CaptureFixture[str]) -> None:
    missing = sorted(set(KINDS) - set(_ran))
    if missing:
        pytest.skip(f"only a part of the matrix was asked for, or failed; not run: {', '.join(missing)}")
    with capsys.disabled():
        print(f"\nfault matrix: {sum(_ran.values())} combinations")
    assert sum(_ran.values()) == 13 * 6 * 3
