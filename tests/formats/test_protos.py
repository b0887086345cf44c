import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def generated_modules(folder):
    return {
        str(path.relative_to(folder)): path.read_text()
        for pattern in ("*_pb2.py", "*_pb2.pyi")
        for path in folder.glob(f"ledgerfs*/**/{pattern}")
    }


@pytest.fixture
def generate():
    spec = importlib.util.spec_from_file_location("generate_protos", ROOT / "scripts" / "generate_protos.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.generate


def test_committed_modules_are_those_that_the_protos_generate(generate, tmp_path):
    generate(tmp_path)
    generated = generated_modules(tmp_path)
    assert generated == generated_modules(ROOT)
    protos = {str(path.relative_to(ROOT).with_suffix("")) for path in ROOT.glob("ledgerfs*/**/*.proto")}
    assert set(generated) == {f"{proto}_pb2{suffix}" for proto in protos for suffix in (".py", ".pyi")}
