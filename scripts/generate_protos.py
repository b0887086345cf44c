"""Generate ``*_pb2.py`` and ``*_pb2.pyi`` for every ``.proto`` of ledgerfs, beside it or (for a test) into another folder."""

import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent


def generate(target: Path) -> None:
    """Write the modules below ``target``, at the paths that they have in the package."""
    protos = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("ledgerfs*/**/*.proto"))
    include = Path(grpc_tools.__file__).parent / "_proto"
    code = protoc.main(
        ["protoc", f"-I{ROOT}", f"-I{include}", f"--python_out={target}", f"--pyi_out={target}", *protos]
    )
    if code != 0:
        raise SystemExit(code)


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
