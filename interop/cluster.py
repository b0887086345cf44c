"""A real Pulsar on loopback: ZooKeeper, bookies, one broker; its bucket is on an S3 server that can be exchanged."""

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kazoo.client import KazooClient

from interop import machine
from interop.admin import Admin
from interop.processes import LEASH, Processes, free_ports
from interop.s3_server import CREDENTIALS, S3Server

_OPENS = [
    f"--add-opens={module}=ALL-UNNAMED"
    for module in (
        "java.base/sun.net",
        "java.base/java.lang",
        "java.base/java.nio",
        "java.base/sun.nio.ch",
        "java.base/jdk.internal.misc",
        "java.base/java.util.zip",
        "java.management/sun.management",
        "jdk.management/com.sun.management.internal",
        "java.base/jdk.internal.platform",
        "java.base/java.io",
        "java.base/java.util",
        "java.base/java.lang.reflect",
    )
]
_DRIVERS = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
_PROPERTIES = [
    "-Dio.netty.tryReflectionSetAccessible=true",
    f"-Dbookkeeper.metadata.bookie.drivers={_DRIVERS}BookieDriver",
    f"-Dbookkeeper.metadata.client.drivers={_DRIVERS}ClientDriver",
]
_QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # all of this is over before the best code would pay


def java_command(main: str, *arguments: str, heap: str, quiet: bool = False, classes: Path | None = None) -> list[str]:
    """Return the command that runs a class of Pulsar's, or one of ours in ``classes``."""
    settings = machine.HERE / "conf" / ("log4j2-quiet.xml" if quiet else "log4j2.xml")
    jars = f"{machine.pulsar_folder()}/jars/*"
    archive = machine.class_archive()
    return [
        "java",
        "-Xlog:disable",  # of an archive that it cannot use
        *([f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []),
        f"-Xmx{heap}",
        "-XX:MaxDirectMemorySize=1g",
        *_QUICK,
        *_OPENS,
        *_PROPERTIES,
        f"-Dlog4j2.configurationFile={settings}",
        "-cp",
        jars if classes is None else f"{jars}:{classes}",  # what is archived is of jars that come first
        main,
        *arguments,
    ]


@dataclass
class Cluster:
    """The servers; all that they write is below ``folder``.

    Attributes
    ----------
    bookie_ids
        What each bookie is called in metadata, of which there are as many; a name that is an address need not be where it listens. One
        bookie with its own address by default.
    settings
        {"broker", "bookie", "zookeeper": settings besides those in ``conf/``}.

    """

    folder: Path
    processes: Processes
    bookie_ids: Sequence[str] = ()
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    _ports: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._ports = free_ports(3 + self.bookies)

    @property
    def bookies(self) -> int:
        """How many bookies there are."""
        return max(1, len(self.bookie_ids))

    def start(self, s3: S3Server) -> None:
        """Start an empty cluster whose bucket is that of ``s3``."""
        for name in ("conf", "zookeeper"):
            (self.folder / name).mkdir(parents=True)
        self._start_zookeeper()
        self._initialize()
        for number in range(self.bookies):
            self._launch_bookie(number)
        for number in range(self.bookies):
            self.processes.wait_for(f"bookie{number}", self.bookie_port(number))
        self.start_broker(s3)

    def start_bookie(self, number: int) -> None:
        """Start a bookie that was ended, with what is on its disk."""
        self._launch_bookie(number)
        self.processes.wait_for(f"bookie{number}", self.bookie_port(number))

    def bookie_port(self, number: int) -> int:
        """Return where a bookie listens."""
        return self._ports[3 + number]

    def start_broker(self, s3: S3Server) -> None:
        """Start a broker, with nothing in its caches."""
        ports = {"brokerServicePort": self._broker, "webServicePort": self._web}
        stores = dict.fromkeys(("metadataStoreUrl", "configurationMetadataStoreUrl"), f"zk:{self.zookeeper}")
        offloader = {
            "offloadersDirectory": machine.pulsar_folder() / "offloaders",
            "narExtractionDirectory": self.folder / "plugins",
            "s3ManagedLedgerOffloadServiceEndpoint": s3.endpoint,
        }
        settings = self._settings("broker", ports | stores | offloader)
        command = java_command(
            "org.apache.pulsar.PulsarBrokerStarter",
            *("--broker-conf", settings),
            heap="1500m",
        )
        # One region only: with its list of all of them the offloader asks Amazon itself where the bucket is.
        command[1:1] = [
            "-Djclouds.regions=us-east-1",
            f"-Djclouds.region.us-east-1.endpoint={s3.endpoint}",
            "-Djclouds.region.us-east-1.iso3166-codes=US",
        ]
        if not machine.class_archive().exists():
            command.insert(1, f"-XX:ArchiveClassesAtExit={self._new_archive}")
        self.processes.start("broker", command, CREDENTIALS, self._web, seconds=600)
        self.admin.wait_until_ready()

    def restart_broker(self, s3: S3Server) -> None:
        """Exchange the broker for one with empty caches, whose bucket is that of ``s3``."""
        self.processes.stop("broker", seconds=600)
        if self._new_archive.exists():
            machine.keep_class_archive(self._new_archive)
        self.start_broker(s3)

    @property
    def admin(self) -> Admin:
        """The broker's admin interface."""
        return Admin(f"http://127.0.0.1:{self._web}")

    @property
    def service_url(self) -> str:
        """Where clients connect."""
        return f"pulsar://127.0.0.1:{self._broker}"

    @property
    def zookeeper(self) -> str:
        """Where ZooKeeper listens."""
        return f"127.0.0.1:{self._ports[0]}"

    def bookkeeper_ledgers(self) -> set[int]:
        """Return the ids of the ledgers that BookKeeper knows."""
        client = KazooClient(self.zookeeper)
        client.start()
        try:
            return set(_ledgers_below(client, "/ledgers"))
        finally:
            client.stop()
            client.close()

    def wait_until_deleted_from_bookkeeper(self, ledgers: set[int], seconds: float = 600) -> None:
        """Wait until the bucket has the only copy of ``ledgers``."""
        end = time.monotonic() + seconds
        while left := ledgers & self.bookkeeper_ledgers():
            if time.monotonic() > end:
                raise TimeoutError(f"BookKeeper still has the ledgers {sorted(left)}")
            time.sleep(0.3)

    @property
    def _new_archive(self) -> Path:
        """Where the first broker of all leaves the classes that it loaded; one that is killed leaves none."""
        return self.folder / "classes.jsa"

    @property
    def _broker(self) -> int:
        return self._ports[1]

    @property
    def _web(self) -> int:
        return self._ports[2]

    def _start_zookeeper(self) -> None:
        settings = self._settings("zookeeper", {"dataDir": self.folder / "zookeeper", "clientPort": self._ports[0]})
        command = java_command("org.apache.zookeeper.server.quorum.QuorumPeerMain", settings, heap="768m")
        # Empty folders of sessions that are over go at once, not some time in the next minute. The last changes, which are kept for servers
        # that lag, are lists of some hundred KB in a chaos that lasts.
        command[1:1] = ["-Dznode.container.checkIntervalMs=300", "-Dzookeeper.commitLogCount=100"]
        self.processes.start("zookeeper", command, {}, self._ports[0])

    def _initialize(self) -> None:
        store = f"zk:{self.zookeeper}"
        command = java_command(
            "org.apache.pulsar.PulsarClusterMetadataSetup",
            *("--cluster", "interop", "--metadata-store", store, "--configuration-metadata-store", store),
            *("--web-service-url", self.admin.address, "--broker-service-url", self.service_url),
            heap="256m",
        )
        with self.processes.log("initialize").open("ab") as log:
            subprocess.run([*LEASH, *command], check=True, stdout=log, stderr=log, timeout=600)

    def _launch_bookie(self, number: int) -> None:
        name = f"bookie{number}"
        folders = {
            "journalDirectories": self.folder / name / "journal",
            "ledgerDirectories": self.folder / name / "ledgers",
        }
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        named = {"bookieId": self.bookie_ids[number]} if self.bookie_ids else {}
        place = {
            "bookiePort": self.bookie_port(number),
            "metadataServiceUri": f"metadata-store:zk:{self.zookeeper}",
        }
        settings = self._settings("bookie", place | folders | named, name)
        heap = "768m" if self.bookies == 1 else "384m"
        command = java_command("org.apache.bookkeeper.server.Main", "--conf", settings, heap=heap)
        self.processes.launch(name, command, {})

    def _settings(self, kind: str, of_this_run: dict[str, object], name: str | None = None) -> str:
        path = self.folder / "conf" / f"{name or kind}.conf"
        given = {**of_this_run, **self.settings.get(kind, {})}
        # A key that is there twice has a list of values, of which the first one counts.
        usual = (machine.HERE / "conf" / f"{kind}.conf").read_text().splitlines()
        kept = [line for line in usual if line.partition("=")[0] not in given]
        path.write_text("".join(f"{line}\n" for line in [*kept, *(f"{key}={value}" for key, value in given.items())]))
        return str(path)


def _ledgers_below(client: KazooClient, path: str) -> list[int]:
    """Walk ``/ledgers/00/0000/L0026``, where the digits of the id are those of the path."""
    found = []
    for child in client.get_children(path):
        below = f"{path}/{child}"
        if match := re.fullmatch(r"/ledgers/(\d+)/(\d+)/L(\d+)", below):
            found.append(int("".join(match.groups())))
        elif child.isdigit():
            found += _ledgers_below(client, below)
    return found
