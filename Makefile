# `make demo` and `make test` set up all they need; a second run installs nothing again.
VENV := .venv
BIN := $(VENV)/bin
# Many processes import the same modules: each would compile them anew.
unexport PYTHONDONTWRITEBYTECODE
READY := $(VENV)/.ready

.PHONY: setup demo check test lint docs protos bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt scripts/setup
	scripts/setup $(VENV)
	touch $@

demo: $(READY)
	BIN=$(BIN) scripts/demo

# The inner loop, two minutes: lint, types, and the quick tests of what changed (scripts/changed_tests.py). Quick tests need no Spark, mount,
# process, failing store, or more than a second. `make check ROOM=scan` takes one folder instead, `make check SINCE=main` all since a revision.
QUICK := not (spark or mount or process or fault or long)
CHANGED := $(if $(ROOM),echo tests/$(ROOM),$(BIN)/python scripts/changed_tests.py $(SINCE))

check: $(READY) compiled
	$(MAKE) --no-print-directory -j 2 lint quick

.PHONY: quick
quick: $(READY)
	changed="$$($(CHANGED))" && $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "$(QUICK)" $$changed

test: $(READY)
	$(MAKE) --no-print-directory -j 2 lint compiled classes
	scripts/test $(BIN)

.PHONY: compiled
compiled: $(READY)
	scripts/compile $(BIN)

# Spark's, loaded and verified: for all processes that run tests with Java.
.PHONY: classes
classes: $(READY)
	$(BIN)/python -m tests.support.spark_java

# Against a real Pulsar. It needs Java 17, Maven and Go, and names those that are missing; what they fetch is stored in ~/.cache.
# `make smoke` is the part that CI runs, in at most six minutes; `make interop` is all of it.
# The time limit only ends a test that hangs, with its stacks.
.PHONY: interop smoke
INTEROP := -m pytest interop -x -ra -n 2 --dist loadfile --timeout 3600 --timeout-method thread -o faulthandler_timeout=3500
interop: $(READY)-interop
	$(BIN)/python -m interop.machine
	$(BIN)/python $(INTEROP)

smoke: $(READY)-interop
	$(BIN)/python -m interop.machine
	$(BIN)/python $(INTEROP) -m smoke

$(READY)-interop: $(READY)
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --compile-bytecode -c constraints.txt -e '.[interop]'
	touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	PATH=$(BIN):$$PATH $(BIN)/python scripts/words.py
	$(BIN)/mypy

# The site of docs/, in build/site. (With --quiet, warnings would not be counted. The variable silences a notice of the theme's.)
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

protos: $(READY)
	$(BIN)/python scripts/generate_protos.py

# Against baselines in the same run: docs/operating/performance.md has the same rows. `make bench` takes about 40 minutes on two idle
# processors; each benchmark has --help, with options for a few rows, or smaller sizes.
bench: $(READY)
	$(BIN)/python -m benchmarks.cold_start
	$(BIN)/python -m benchmarks.read
	$(BIN)/python -m benchmarks.decode
	$(BIN)/python -m benchmarks.write
	$(BIN)/python -m benchmarks.spark

clean:
	rm -rf $(VENV) build demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
