# The way in: `make demo`, then `make test`. Everything happens in .venv; nothing is installed elsewhere. With another
# Python: `make demo PYTHON=python3.13`. Some of the tests: `make test TESTS=tests/core`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PLUGINS := $(wildcard plugins/*)

# A virtual environment of another Python than the one that is named is made anew.
WHICH := -c 'import sys; print(sys.version, sys.base_prefix)' 2>/dev/null
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) $(WHICH)),$(shell $(BIN)/python $(WHICH)))
.PHONY: $(READY)
endif
endif

# Python keeps what it has compiled: tests start very many processes, which would all compile the same.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test check lint types docs bench validate attack lock clean real-suites

help:
	@echo "make demo    set up, and run the bundled suite with the reference solutions (no Docker, no key)"
	@echo "make test    set up, and run the tests; names what cannot be run here"
	@echo "make check   lint, types, and tests of some rooms that need no engine; a minute"
	@echo "make lint    ruff, import contracts        make types   mypy, strict"
	@echo "make docs    build site/ from docs/        make bench   measure, as ratios"
	@echo "make validate  look at every bundled task three times: is it fair, and always the same? FLAGS='--sandbox docker'"
	@echo "make attack    run adversarial agents against every bundled task, and write the table of docs/attack.md; an hour. SANDBOXES=local without Docker"
	@echo "make real-suites  run five real projects' suites under the hardened scorer; takes minutes"
	@echo "make lock    renew requirements/dev.txt    make clean   remove what these made"

$(READY): requirements/dev.txt pyproject.toml $(wildcard plugins/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "AgentBench needs Python 3.11 or newer; name one: make PYTHON=python3.12 ...")'
	@echo "setting up $(VENV), which takes about a minute"
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e . $(addprefix -e ./,$(PLUGINS))
	@touch $@

demo: $(READY)
	@$(BIN)/agentbench run --suite custom-dev --agent scripted --sandbox local
	@echo "next, an agent that needs no key, in a few minutes: $(BIN)/agentbench run --suite custom-dev --agent baseline --llm mechanic"

JOBS := 4
TESTS :=
test: $(READY)
	@$(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --times $(TESTS)

# What takes no engine, index or browser, and shows most mistakes; types and tests beside each other.
QUICK := tests/core tests/evidence tests/workspace tests/test_structure.py tests/test_docs.py
check: lint
	@$(MAKE) --no-print-directory --jobs 2 types quick

.PHONY: quick
quick: $(READY)
	@$(BIN)/pytest -q -n 2 -m "not docker and not index and not browser and not mounts" $(QUICK)

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
	@$(BIN)/python benchmarks/reports.py
	@$(BIN)/python benchmarks/llm_calls.py
	@$(BIN)/python benchmarks/docker_calls.py

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

# Suites of other people's projects under the hardened scorer: needs the package index and a Docker engine.
real-suites: $(READY)
	@AGENTBENCH_REAL_SUITES=all $(BIN)/pytest -v --durations 0 tests/run/test_real_suites.py

# The lock names versions and hashes and no host, so that it works with every mirror.
lock: $(READY)
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet \
	  requirements/dev.in -o requirements/dev.txt

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
