# Start with `make demo`, then `make test`. Everything is installed into .venv and nowhere else. To use a different
# Python: `make demo PYTHON=python3.13`. To run some of the tests: `make test TESTS=tests/values`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PLUGINS := $(wildcard plugins/*)

# Recreate the virtual environment if its Python is not the requested one.
WHICH := -c 'import sys; print(sys.version, sys.base_prefix)' 2>/dev/null
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) $(WHICH)),$(shell $(BIN)/python $(WHICH)))
.PHONY: $(READY)
endif
endif

# Allow Python to cache compiled modules: tests start many processes, which would all compile the same modules.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-long check lint types docs bench validate attack lock clean real-suites

help:
	@echo "make demo    set up, and run the bundled suite with the reference solutions (no Docker, no key)"
	@echo "make test    set up, run all but the longest tests, and list the ones that cannot run here"
	@echo "make test-long  run the tests that make test leaves out: the slow ones, and those to run before a release"
	@echo "make check   lint, types, and quick tests that need no engine; takes about a minute and a half"
	@echo "make lint    ruff, import contracts        make types   mypy, strict"
	@echo "make docs    build site/ from docs/        make bench   run the benchmarks"
	@echo "make validate  check three times that every bundled task is valid and that its results are stable; in Docker: FLAGS='--sandbox docker'"
	@echo "make attack    run adversarial agents against every bundled task, and update the table in docs/attack.md; takes an hour; without Docker: SANDBOXES=local"
	@echo "make real-suites  run the test suites of five real projects with the default scorer; takes several minutes"
	@echo "make lock    update requirements/dev.txt   make clean   remove generated files"

$(READY): requirements/dev.txt pyproject.toml $(wildcard plugins/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "AgentBench needs Python 3.11 or newer; pass one: make PYTHON=python3.12 ...")'
	@echo "setting up $(VENV), which takes about a minute"
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e . $(addprefix -e ./,$(PLUGINS))
	@touch $@

demo: $(READY)
	@$(BIN)/agentbench run --suite custom-dev --agent scripted --sandbox local
	@echo "next, run an agent that needs no key (takes a few minutes): $(BIN)/agentbench run --suite custom-dev --agent baseline --llm mechanic"

JOBS := 4
TESTS :=
test: $(READY)
	@$(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --times $(if $(TESTS),,-m "not long and not release") $(TESTS)

# CI runs `make test` and `make test-long LONG="long and not release"`.
LONG := long or release
test-long: $(READY)
	@$(BIN)/pytest -n $(JOBS) --dist load --maxschedchunk=1 --times -m "$(LONG)" $(TESTS)

# Tests that find most errors and need no engine, package index or browser; types and tests run in parallel.
QUICK := tests/values tests/inputs tests/builtin tests/evidence tests/workspace tests/docs/test_tables.py \
         tests/docs/test_api_reference.py tests/docs/test_language.py $(wildcard tests/test_*.py)
check: lint
	@$(MAKE) --no-print-directory --jobs 2 types quick

.PHONY: quick
quick: $(READY)
	@$(BIN)/pytest -q -n 2 -m "not docker and not index and not npm and not npm_registry and not browser and not mounts" $(QUICK)

lint: $(READY)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports

types: $(READY)
	@$(BIN)/mypy

docs: $(READY)
	@$(BIN)/mkdocs build --strict --quiet
	@echo "built site/index.html"

bench: $(READY)
	@$(BIN)/python benchmarks/start_time.py
	@$(BIN)/python benchmarks/local_exec.py
	@$(BIN)/python benchmarks/huge_repository.py 20000
	@$(BIN)/python benchmarks/scoring.py
	@$(BIN)/python benchmarks/mining_funnel.py
	@$(BIN)/python benchmarks/reports.py
	@$(BIN)/python benchmarks/view.py
	@$(BIN)/python benchmarks/llm_calls.py
	@$(BIN)/python benchmarks/bridge_gateway.py
	@$(BIN)/python benchmarks/docker_calls.py
	@$(BIN)/python benchmarks/bridge_start.py
	@$(BIN)/python benchmarks/executor.py
	@$(BIN)/python benchmarks/mining.py

SUITES := custom-dev custom-heldout custom-setup
TIMES := 3
FLAGS :=
validate: $(READY)
	@for suite in $(SUITES); do $(BIN)/agentbench validate-tasks --suite $$suite --times $(TIMES) $(FLAGS) || exit 1; done

SANDBOXES := docker local
CONTRAST := --contrast
ATTACKED := artifacts/attack
attack: $(READY)
	@mkdir -p $(ATTACKED) && rm -f $(ATTACKED)/*.json
	@for sandbox in $(SANDBOXES); do for suite in $(SUITES); do \
	  $(BIN)/agentbench tasks attack --suite $$suite --sandbox $$sandbox $(CONTRAST) --json $(FLAGS) \
	    > $(ATTACKED)/$$sandbox-$$suite.json || [ $$? -eq 1 ] || exit 1; \
	done; done
	@$(BIN)/python benchmarks/attack_table.py $(ATTACKED)/*.json

# Test suites of real projects with the default scorer; needs the package index and a Docker engine.
real-suites: $(READY)
	@AGENTBENCH_REAL_SUITES=all $(BIN)/pytest -v --durations 0 tests/integrity/test_real_suites.py

# The lock file contains versions and hashes but no host, so it works with every mirror.
lock: $(READY)
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet \
	  requirements/dev.in -o requirements/dev.txt

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
