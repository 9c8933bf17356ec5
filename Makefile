# Two commands do everything: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# After `su` Debian leaves root the PATH of the user, without mkfs, nft and others.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
# Tests start thousands of Pythons, each of which would compile Cobweb anew.
unexport PYTHONDONTWRITEBYTECODE
# Python compiles what it imports; compiling all that is installed takes half of the time.
PIP_ARGS := --quiet --disable-pip-version-check --no-compile
PYTEST_WORKERS ?= 2

.PHONY: help demo storage-demo pools-demo test test-full test-area gate fuzz images bench compiled coverage lint \
  types imports dead package constraints clean

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
	@$(BIN)/python -m pip install $(PIP_ARGS) -c constraints.txt -e '.[agents,ansible,metal]'
	@touch $@

$(VENV)/.dev: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing Cobweb and the test tools into $(VENV) ..."
	@$(BIN)/python -m pip install $(PIP_ARGS) -c constraints.txt \
	  -e '.[agents,ansible,cluster,metal,postgresql]' --group dev
	@touch $(VENV)/.run $@

demo: $(VENV)/.run  ## install Cobweb and run the main job on inventories/demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python inventories/demo/demo.py

storage-demo: $(VENV)/.dev  ## set up, change, tear down a storage cluster (root)
	@PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONPATH="$(CURDIR)" $(BIN)/python inventories/storage/demo.py

pools-demo: $(VENV)/.dev  ## let machines follow the load of two schedulers, and draw it (root)
	@PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONPATH="$(CURDIR)" $(BIN)/python inventories/schedulers/demo.py

XDIST := -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder
PYTEST := $(BIN)/python -m pytest $(XDIST) --rerun-show-tracebacks
test: $(VENV)/.dev  ## install Cobweb and run the tests of the gate
	$(PYTEST) $(PYTEST_ARGS)

# A new seed each time; the line that make prints has it, and SEED=... runs the same again.
SEED := $(or $(SEED),$(shell od -An -N3 -tu4 /dev/urandom | tr -d ' '))
CHECK_SEED := [ "$(SEED)" -ge 0 ] 2>/dev/null || { echo "SEED=$(SEED): a whole number, 0 or more" >&2; exit 1; }
FULL := HYPOTHESIS_PROFILE=full COBWEB_FUZZ_SECONDS=60 COBWEB_FUZZ_SEED=$(SEED) $(PYTEST) --full --hypothesis-seed=$(SEED)
test-full: $(VENV)/.dev  ## run all tests, with many examples (SEED=...), and coverage
	@$(CHECK_SEED)
	$(FULL) $(PYTEST_ARGS)
	$(if $(PYTEST_ARGS),,@$(MAKE) --no-print-directory coverage)

AREA_agents := tests/plugins/agents
AREA_ansible := tests/plugins/ansible
AREA_applications := tests/plugins/applications
AREA_benchmarks := tests/benchmarks
AREA_cli := tests/cli tests/docs tests/bad_input tests/bounds tests/plugins/controller tests/plugins/report
AREA_cluster := tests/plugins/cluster tests/plugins/solvers tests/plugins/providers tests/plugins/planner
AREA_engine := tests/engine tests/model tests/generation tests/testing
AREA_hosts := tests/hosts tests/plugins/namespaces
AREA_inventories := tests/inventories tests/plugins/storage
AREA_kernel := tests/kernel tests/operations tests/api tests/system tests/plugins/simulate
AREA_plugin := tests/plugin
AREA_pools := tests/plugins/pools
AREA_metal := tests/plugins/metal
AREA_rest := tests/test_*.py
AREA_site := tests/site
AREA_store := tests/store
AREA_types := tests/types tests/plugins/types
AREAS := $(sort $(patsubst AREA_%,%,$(filter AREA_%,$(.VARIABLES))))
test-area: $(VENV)/.dev  ## run all tests of one part (AREA=engine; CONTRIBUTING.md)
	@[ -n "$(AREA_$(AREA))" ] || { echo "AREA=$(AREA): there are $(AREAS)" | fold -sw 80 >&2; exit 1; }
	@$(CHECK_SEED)
	$(FULL) $(AREA_$(AREA)) $(PYTEST_ARGS)

gate:  ## run .ci/run in a fresh clone of HEAD, as CI does (root; installs packages)
	@[ "$$(id -u)" = 0 ] || { echo "make gate needs root: it makes hosts of namespaces; make test does not" >&2; exit 1; }
	@$(PYTHON) .ci/gate

FUZZ_SECONDS ?= 3600
fuzz: $(VENV)/.dev  ## run the command line on made-up input (FUZZ_SECONDS=3600)
	COBWEB_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest tests/bounds/test_fuzz.py

images: $(VENV)/.dev  ## build the images of the hosts that tests run on (root)
	@$(BIN)/python -m tests.support.fabric.images

BENCH_ARGS ?=
bench: $(VENV)/.dev  ## measure Cobweb beside peers and limits (BENCH_ARGS='engine --size small')
	@bash benchmarks/install-peers
	-@$(MAKE) --no-print-directory compiled
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

compiled: $(VENV)/.dev  ## build Cobweb with a compiled engine into build/compiled
	@COBWEB_COMPILE=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --upgrade --target build/compiled .

PURE_TESTS := tests/model tests/engine tests/generation tests/plugins/pools \
  tests/plugins/metal/test_life.py tests/plugins/metal/test_flow.py \
  tests/plugins/metal/test_choice.py tests/plugins/metal/test_changes.py
PURE := toolkit/cobweb/model/*,toolkit/cobweb/engine/*,toolkit/cobweb/generation/*,plugins/cobweb_plugins/pools/decision/*,plugins/cobweb_plugins/metal/server/_life.py,plugins/cobweb_plugins/metal/vclusters/_flow.py,plugins/cobweb_plugins/metal/vclusters/_choice.py,plugins/cobweb_plugins/metal/vclusters/_changes.py,plugins/cobweb_plugins/metal/vclusters/_round.py
coverage: $(VENV)/.dev  ## hold the pure packages to full branch coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(XDIST) $(PURE_TESTS) $(PYTEST_ARGS)
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

package: $(VENV)/.dev  ## build sdist and wheel, and run the demo from an empty environment
	@bash .ci/package

constraints:  ## pin the newest versions that fit (needs uv)
	uv pip compile --quiet --no-header --no-annotate --all-extras --group dev \
	  --output-file constraints.txt pyproject.toml

clean:  ## remove what the other targets made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage
