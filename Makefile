# The only entry for developer commands; CI runs `make check` and nothing else.
PYTHON ?= python3.11
BIN := .venv/bin
PACKAGES := broker_common census_node deploy health_node policy_lab researcher_node
PROTOS := $(wildcard protos/tripartite/v1/*.proto)

# Or every process of a test would compile the program anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-ctgan fuzz bench bench-bits bench-events bench-all bench-growth bench-report bench-audit bench-dashboard bench-load workload coverage check check-alerts test-browser screenshot format lint types imports protos protos-check docs docs-check lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: .venv/.complete ## local .venv from the hash-pinned lock, with .venv/bin/tripartite

.venv/.complete: requirements.lock pyproject.toml
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## three nodes on this machine, the paper's two studies, then the drive to the cap
	@$(BIN)/tripartite demo

# Four workers more than processors: many tests wait for ticks, flushes and alerts.
PYTEST = $(BIN)/pytest -n $$(($$(nproc) + 4)) --dist worksteal

# Whole files, so that a deployment or a lab is made for one worker; nothing is waited for but the browser's work.
PYTEST_PAGES = $(BIN)/pytest -n $$(nproc) --dist loadfile tests/browser

test: setup ## everything the README promises: fast, process and statistical tests; those of pages if there is a browser
	$(PYTEST) -m "not browser"
	@$(if $(CHROMIUM),$(PYTEST_PAGES),echo "The pages were not tested: no browser is here, and 'make test-browser' installs one.")

test-fast: setup ## under a minute: units and architecture, without what takes long
	$(BIN)/pytest -n $$(nproc) --dist worksteal -m "not process and not statistical and not slow" tests/architecture tests/unit

# Debian's packages; what is there already is left as it is.
CHROMIUM = $(shell command -v chromium)
test-browser: setup browser ## the pages in a real browser, which is installed where it is missing
	$(PYTEST_PAGES)

screenshot: setup browser ## the pictures in the README and docs/lab/pages.md, of made-up people
	PYTHONPATH=tests $(BIN)/python -m browser.screenshot docs/census-dashboard.png docs/lab/pages.png

PROMTOOL = $(shell command -v promtool)
check-alerts: ## every alert of deploy/monitoring fires once, and not on a healthy node
	@$(if $(PROMTOOL),,apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends prometheus)
	promtool check config deploy/monitoring/prometheus.yml
	promtool test rules deploy/monitoring/alerts_test.yml

SECONDS ?= 60
fuzz: setup ## coverage-guided, SECONDS=60 for each parser or TARGET=name; saves what it finds in tests/fuzz/corpus
	PYTHONPATH=tests $(BIN)/python -m fuzz.explore --seconds $(SECONDS) $(TARGET)

.venv/.bench: .venv/.complete requirements-bench.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	@touch $@

# Nothing but what it lists: the PyPI wheel of torch asks for gigabytes of CUDA libraries that nothing here uses.
.venv/.ctgan: .venv/.complete requirements-ctgan.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-ctgan.lock || \
		{ echo "If it was torch that was not found: docs/lab/sensitivity.md says where its wheel without CUDA comes from."; exit 1; }
	@touch $@

test-ctgan: .venv/.ctgan ## what 'tripartite lab sensitivity' trains, with CTGAN, which is installed under a licence of its own
	$(BIN)/pytest -n 0 tests/unit/lab/sensitivity

PEOPLE ?= 15000000
DIR ?= build/bench/people-$(PEOPLE)
BENCH = PYTHONPATH=tests $(BIN)/python -m benchmarks
ON_DIR = --people $(PEOPLE) --directory $(DIR) $(if $(JSON),--json)
WITH_ROUNDS = $(if $(ROUNDS),--rounds $(ROUNDS))
bench: .venv/.bench ## questions to PEOPLE=15000000, about nobody to everybody, beside a floor and rivals; ROUNDS=5, DIR=a deployment to use again, JSON=1
	$(BENCH).end_to_end $(ON_DIR) $(WITH_ROUNDS)
	$(BENCH).rivals $(ON_DIR) $(WITH_ROUNDS)
	$(BENCH).timeline $(ON_DIR)

bench-bits: .venv/.bench ## the desk's own work on a sample beside the floor; instructions and allocations, counted by valgrind
	$(BENCH).floor_bits --people $(PEOPLE) $(WITH_ROUNDS)
	$(BENCH).instructions

EVENTS ?= 300000000
bench-events: .venv/.bench ## cohorts of PEOPLE by EVENTS=300000000, beside bare passes over the same bytes; needs 10 GB for 15 million people
	$(BENCH).events --people $(PEOPLE) --events $(EVENTS) $(WITH_ROUNDS)

bench-growth: .venv/.bench ## how cost grows along every axis, or AXIS=name, up to MOST=number
	$(BENCH).growth $(ON_DIR) $(if $(AXIS),--axis $(AXIS)) $(if $(MOST),--most $(MOST))

bench-all: bench bench-bits bench-events bench-load bench-report ## everything that BENCHMARKS.md says but growth, and the page from it

bench-report: setup ## BENCHMARKS.md and its plots from what was measured last
	$(BENCH).report

QUERIES ?= 100000
bench-audit: setup ## an audit of a log of QUERIES=100000 queries, as a ratio to bare hashing and signature checks
	PYTHONPATH=tests $(BIN)/python -m benchmarks.audit_speed $(QUERIES)

ENTRIES ?= 1000000
bench-dashboard: setup ## the census dashboard before a log of ENTRIES=1000000: fold, first paint, bytes, memory
	PYTHONPATH=tests $(BIN)/python -m benchmarks.dashboard_speed $(ENTRIES)

workload: setup ## answers under both accountings for streams of studies, and what per-person drops do to them
	PYTHONPATH=tests $(BIN)/python -m benchmarks.workload

REPETITIONS ?= 20000
coverage: setup ## how often the intervals of estimates cover the truth, from nobody to 100,000 people; REPETITIONS=20000 of each of 1,944 cases
	PYTHONPATH=tests $(BIN)/python -m benchmarks.coverage --repetitions $(REPETITIONS)

# What was asked for on the command line or in the environment, or else a default of the target's own.
given = $(if $(filter command environment,$(firstword $(origin $(1)))),$($(1)),$(2))
RESEARCHERS ?= 32
bench-load: setup ## RESEARCHERS=32 at once, for SECONDS=120 on PEOPLE=1000000: answers a second, fairness, memory, then a replay
	PYTHONPATH=tests $(BIN)/python -m benchmarks.load --researchers $(RESEARCHERS) --seconds $(call given,SECONDS,120) --people $(call given,PEOPLE,1000000)

check: setup ## the sole merge gate; without CTGAN where its wheels cannot be had, and it says so
	@$(MAKE) --no-print-directory .venv/.ctgan || echo "What CTGAN trains is not tested: it cannot be installed here (docs/lab/sensitivity.md)."
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target format-check lint types imports protos-check docs-check installed
	@$(MAKE) --no-print-directory check-alerts test

.PHONY: installed
installed: ## Debian's packages for pages and alerts, both at once
	@$(if $(and $(PROMTOOL),$(CHROMIUM),$(NGINX),$(OPENSSL)),,apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends prometheus chromium nginx-light openssl)

.PHONY: browser
NGINX = $(shell PATH="$$PATH:/usr/sbin" command -v nginx)
OPENSSL = $(shell command -v openssl)
browser: ## only install what the tests of pages need: browser, nginx and openssl
	@$(if $(and $(CHROMIUM),$(NGINX),$(OPENSSL)),,apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium nginx-light openssl)

.PHONY: format-check
format-check: setup
	$(BIN)/ruff format --check --quiet .

format: setup ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup ## ruff with all rules on, buf on the protos
	$(BIN)/ruff check --quiet .
	cd protos && ../$(BIN)/buf lint

types: setup ## mypy --strict, tests included
	$(BIN)/mypy

imports: setup ## the import contracts
	$(BIN)/lint-imports

GENERATE = $(BIN)/python -m grpc_tools.protoc -I protos --python_out=$(1) --grpc_python_out=$(1) \
	--plugin=protoc-gen-mypy=$(BIN)/protoc-gen-mypy --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
	--mypy_out=quiet:$(1) --mypy_grpc_out=quiet:$(1) $(PROTOS)

protos: setup ## regenerate the package tripartite.v1 with its type stubs
	$(call GENERATE,protos)

protos-check: setup ## fail if the generated package is not what the protos say
	@rm -rf build/protos && mkdir -p build/protos
	@$(call GENERATE,build/protos)
	@for new in build/protos/tripartite/v1/*; do diff -q $$new protos/tripartite/v1/$$(basename $$new); done

docs: setup ## refresh the help texts and figures that the documents quote
	$(BIN)/python -m deploy.documents write

docs-check: setup ## fail if a document quotes something that is no longer so
	$(BIN)/python -m deploy.documents check

# Resolved for macOS, whose torch needs no CUDA; on Linux the wheel without CUDA, which PyPI does not have, takes its place.
ON_LINUX = sys_platform == 'linux' and platform_machine == 'x86_64'
NOT_ON_LINUX = sys_platform != 'linux' or platform_machine != 'x86_64'
TORCH_CPU_WHEEL = --hash=sha256:6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b
lock: setup ## newest stable versions into the lock, with hashes and without a registry address
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade --extra dev --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header --custom-compile-command "make lock" \
		--output-file requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade --group bench --constraint requirements.lock \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-header --custom-compile-command "make lock" \
		--output-file requirements-bench.lock
	rm -f requirements-ctgan.lock
	MACOSX_DEPLOYMENT_TARGET=14.0 $(BIN)/uv pip compile --quiet --python-platform macos --python-version 3.11 --upgrade --group ctgan \
		--constraint requirements.lock --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
		--custom-compile-command "make lock" --output-file requirements-ctgan.lock
	sed -i "s/^torch==\(.*\) [\\]/torch==\1+cpu ; $(ON_LINUX) $(TORCH_CPU_WHEEL)\ntorch==\1 ; $(NOT_ON_LINUX) \\\\/" requirements-ctgan.lock

clean: ## remove everything that make made
	rm -rf .venv build demo .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
