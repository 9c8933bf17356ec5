# Two commands do everything: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_WORKERS ?= 2

.PHONY: help demo storage-demo test fuzz images bench compiled coverage lint types imports dead constraints clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /: /'

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Cobweb needs Python 3.11 or newer; set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "Debian keeps venv apart: apt-get install python3-venv" >&2; rm -rf $(VENV); exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.run: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing Cobweb into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ansible]'
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "Installing the test tools ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  -e '.[ansible,cluster,postgresql]' --group dev
	@touch $@

demo: $(VENV)/.run  ## install Cobweb and run the main job on inventories/demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python inventories/demo/demo.py

storage-demo: $(VENV)/.dev  ## set up, change and tear down a storage cluster on hosts made of namespaces (root)
	@PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONPATH="$(CURDIR)" $(BIN)/python inventories/storage/demo.py

test: $(VENV)/.dev  ## install Cobweb and run all tests
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile $(PYTEST_ARGS)

FUZZ_SECONDS ?= 3600
fuzz: $(VENV)/.dev  ## run the command line on made-up input (FUZZ_SECONDS=3600, from COBWEB_FUZZ_SEED)
	COBWEB_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest tests/bounds/test_fuzz.py

images: $(VENV)/.dev  ## build the images of the hosts that tests run on (needs root)
	@$(BIN)/python -m tests.support.fabric.images

BENCH_ARGS ?=
bench: $(VENV)/.dev  ## measure Cobweb beside peers and limits (BENCH_ARGS='engine --size small')
	@bash benchmarks/install-peers
	-@$(MAKE) --no-print-directory compiled
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

compiled: $(VENV)/.dev  ## build Cobweb with a compiled engine into build/compiled
	@COBWEB_COMPILE=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --upgrade --target build/compiled .

PURE_TESTS := tests/model tests/engine tests/generation
PURE := toolkit/cobweb/model/*,toolkit/cobweb/engine/*,toolkit/cobweb/generation/*
coverage: $(VENV)/.dev  ## hold the pure packages to full branch coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -n $(PYTEST_WORKERS) --dist loadfile $(PURE_TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --include='$(PURE)' --fail-under=100

lint: $(VENV)/.dev  ## check style
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.dev  ## check types
	$(BIN)/mypy

imports: $(VENV)/.dev  ## check that imports point one way
	$(BIN)/lint-imports

dead: $(VENV)/.dev  ## look for dead code
	$(BIN)/vulture

constraints:  ## pin the newest versions that fit (needs uv)
	uv pip compile --quiet --no-header --no-annotate --all-extras --group dev \
	  --output-file constraints.txt pyproject.toml

clean:  ## remove what the other targets made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage
