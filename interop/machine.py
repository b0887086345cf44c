"""What a real Pulsar needs on this machine: Java, its jars, an S3 server. Found, or fetched once into a folder outside of the repository.

``python -m interop.machine`` does that and names all that is missing. The folder is ``$PULSAR_LIB``, else ``~/.cache/pulsar-interop``.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
GATEWAY = "github.com/versity/versitygw/cmd/versitygw"
GATEWAY_VERSION = "v1.8.0"

_COMMANDS = {
    "java": "a Java 17 runtime (Debian: apt-get install openjdk-17-jdk-headless)",
    "javac": "a Java 17 compiler (Debian: apt-get install openjdk-17-jdk-headless)",
    "mvn": "Maven, which fetches Pulsar's jars (Debian: apt-get install maven)",
    "setpriv": "util-linux, which ties servers to the life of this run (Debian: apt-get install util-linux)",
    "go": f"Go, which builds the S3 server (https://go.dev/dl; or put a built versitygw on PATH: go install {GATEWAY}@{GATEWAY_VERSION})",
}


class NotOnThisMachineError(Exception):
    """Something is missing here; the text says what, and how to get it."""


def require_commands() -> None:
    """Raise one error that names every command that is missing."""
    needed = [name for name in _COMMANDS if shutil.which(name) is None]
    if "go" in needed and _built_gateway() is not None:
        needed.remove("go")
    if "mvn" in needed and _jar_folder().exists():
        needed.remove("mvn")
    if needed:
        raise NotOnThisMachineError("\n".join(f"`{name}` is missing: {_COMMANDS[name]}" for name in needed))
    reported = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', reported)
    if version is None or int(version[1]) < 17:
        raise NotOnThisMachineError(f"`java` is too old: {_COMMANDS['java']}; it says:\n{reported}")


def pulsar_folder() -> Path:
    """Return the folder with ``jars/`` and ``offloaders/``; Maven fills it the first time, in some minutes."""
    folder = _jar_folder()
    if not folder.exists():
        print("fetching Pulsar's jars, once", file=sys.stderr, flush=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as making:
            pom = HERE / "pom.xml"
            _run(["mvn", "-q", "-B", "-f", str(pom), "package", f"-Dinto={making}/pulsar"])
            Path(making, "pulsar").rename(folder)
    return folder


def class_archive() -> Path:
    """Return where Pulsar's classes are kept as Java has them when they are loaded and verified, once `Cluster` has left them there.

    A broker starts in half the processor time that way. To another Java, the archive of this one is of no use.
    """
    java = Path(shutil.which("java") or "").resolve()
    mark = hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    return pulsar_folder() / f"classes-{mark}.jsa"


def keep_class_archive(made: Path) -> None:
    """Keep an archive of classes; nobody finds half of it."""
    kept = class_archive()
    copy = kept.with_suffix(f".{os.getpid()}")
    shutil.move(made, copy)
    copy.rename(kept)


def gateway() -> Path:
    """Return the S3 server, versitygw; Go builds it the first time."""
    built = _built_gateway()
    if built is not None:
        return built
    print("building versitygw, once", file=sys.stderr, flush=True)
    folder = _cache() / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    _run(["go", "install", f"{GATEWAY}@{GATEWAY_VERSION}"], {"GOBIN": str(folder)})
    return folder / "versitygw"


def compiled_clients(folder: Path) -> Path:
    """Compile our programs in Java into ``folder``."""
    sources = [str(source) for source in sorted((HERE / "java").glob("*.java"))]
    _run(["javac", "-nowarn", "-cp", f"{pulsar_folder()}/jars/*", "-d", str(folder), *sources])
    return folder


def _cache() -> Path:
    return Path(os.environ.get("PULSAR_LIB") or Path.home() / ".cache" / "pulsar-interop")


def _jar_folder() -> Path:
    """Return the folder of this very pom: another version of Pulsar gets another."""
    return _cache() / hashlib.sha256((HERE / "pom.xml").read_bytes()).hexdigest()[:12]


def _built_gateway() -> Path | None:
    places = [shutil.which("versitygw"), _cache() / "bin" / "versitygw", Path.home() / "go" / "bin" / "versitygw"]
    return next((Path(place) for place in places if place and Path(place).exists()), None)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=os.environ | (environment or {}), check=False)
    if done.returncode:
        raise NotOnThisMachineError(f"`{command[0]}` failed, see above: {' '.join(command)}")


def main() -> int:
    """Find or fetch everything."""
    try:
        require_commands()
        pulsar_folder()
        gateway()
    except NotOnThisMachineError as error:
        print(f"make interop cannot run here:\n{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
