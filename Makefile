# `make demo` and `make test` set up all they need; a second run installs nothing again.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test lint protos bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt scripts/setup
	scripts/setup $(VENV)
	touch $@

demo: $(READY)
	BIN=$(BIN) scripts/demo

test: $(READY) lint
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

protos: $(READY)
	$(BIN)/python scripts/generate_protos.py

bench: $(READY)
	$(BIN)/python -m benchmarks.catalog
	$(BIN)/python -m benchmarks.cat
	$(BIN)/python -m benchmarks.decode
	$(BIN)/python -m benchmarks.read

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
