# Everything a contributor or a newcomer runs. `make` lists the targets.
PYTHON ?= python3
BIN := .venv/bin
# The tests start thousands of commands, which would compile their modules each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install lint types unit test test-slow e2e chaos demo bench bench-scale accuracy knowledge fuzz fuzz-controller fuzz-gateway docs site chart-repository lock clean

help: ## list the targets
	@grep -hE '^[a-z][a-z0-9-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/.installed: requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

install: .venv/.installed ## make .venv with the pinned development tools

lint: install ## ruff, import-linter, the documentation site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

types: install ## mypy --strict
	$(BIN)/mypy

# Twice as many as there are cores, since some tests wait.
UNIT_PROCESSES ?= $(shell n=$$(nproc); echo $$((n < 8 ? 2 * n : 16)))

unit: install ## the fast tests: unit, golden, property (no cluster)
	$(BIN)/pytest -q -n $(UNIT_PROCESSES) --dist worksteal --durations=15 -m "not slow" --junitxml=build/junit-unit.xml tests

lock: install ## rewrite requirements-dev.lock from the ranges in pyproject.toml
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-emit-index-url --no-annotate --no-header --extra dev pyproject.toml -o requirements-dev.lock

E2E_FLAGS ?=
# Groups of tests are named in the modules (xdist_group); a process runs one group after the other, in the order of the
# files. By itself xdist begins with the groups of most tests, and the longest test would come last and alone.
E2E := $(BIN)/pytest -q --durations=40 --dist loadgroup --no-loadscope-reorder

e2e: install ## the tests on a real cluster (E2E_FLAGS="--cluster existing --image …" for one of your own)
	$(E2E) -n 2 -m "not slow" --junitxml=build/junit-e2e.xml e2e $(E2E_FLAGS)

test: ## everything that a change has to pass; what CI runs
	@$(MAKE) --no-print-directory --keep-going lint types unit e2e

test-slow: install ## the other tests, most of them on a real cluster, an hour
	$(BIN)/pytest -q -n $(UNIT_PROCESSES) -m slow tests
	$(E2E) -m "slow and alone" --junitxml=build/junit-alone.xml e2e $(E2E_FLAGS); alone=$$?; \
	$(E2E) -n 2 -m "slow and not alone" --junitxml=build/junit-slow.xml e2e $(E2E_FLAGS) && exit $$alone

chaos: install ## a service under load while it is changed and loses pods, nodes and the operator; half an hour, a table
	$(BIN)/pytest -q -s e2e/chaos.py $(E2E_FLAGS); code=$$?; $(BIN)/python -m e2e.cluster down; exit $$code

demo: install ## a cluster, a model, a question, an answer
	$(BIN)/python -m e2e.demo $(DEMO_FLAGS)

docs: install ## rewrite what is made from the code
	$(BIN)/python scripts/cli_reference.py
	$(BIN)/python scripts/spec_schema.py
	$(BIN)/python -m scripts.json_schemas
	$(BIN)/python scripts/rbac_reference.py
	$(BIN)/python scripts/operator_rules.py
	$(BIN)/python scripts/template_values.py
	$(BIN)/python scripts/reference_tables.py
	$(BIN)/python scripts/readme_session.py
	$(BIN)/python scripts/crds.py
	$(BIN)/python -m e2e.images.containerfile

site: install ## build the documentation site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

HELM ?= helm
CHART_URL ?=

chart-repository: ## package the charts into a repository (HELM=…, CHART_URL=https://…)
	$(HELM) lint --strict charts/*
	$(HELM) package charts/* --destination dist/charts
	$(HELM) repo index dist/charts $(if $(CHART_URL),--url $(CHART_URL))

bench: install ## how long planning takes and the cost of the gateway, batch jobs and load tests, compared with limits
	$(BIN)/python benches/bench_plan.py
	$(BIN)/python -m benches.bench_commands
	$(BIN)/python -m benches.bench_render
	$(BIN)/python -m benches.bench_gateway
	$(BIN)/python -m benches.bench_batch
	$(BIN)/python -m benches.bench_load

bench-scale: install ## the cost of status, watch and wait beside a thousand services, on a cluster of its own, compared with limits
	$(BIN)/python -m benches.bench_scale

accuracy: install ## compare the planner with logs and measurements of vLLM; rewrites docs/contributing/accuracy.md
	$(BIN)/python -m scripts.accuracy

VLLM ?=
RAY ?=
KUBERAY ?=
KUBERAY_CLONE ?=

knowledge: install ## read vLLM's, Ray's and KubeRay's sources into the data again (VLLM=0.34.0 adds a release, so do RAY= and KUBERAY=)
	$(BIN)/python -m scripts.knowledge $(if $(VLLM),--vllm $(VLLM)) $(if $(RAY),--ray $(RAY)) $(if $(KUBERAY),--kuberay $(KUBERAY)) $(if $(KUBERAY_CLONE),--kuberay-clone $(KUBERAY_CLONE))

fuzz: install ## plan 100,000 damaged configs: a plan or a clear refusal, never a traceback
	PYTHONPATH=. $(BIN)/python scripts/fuzz_plan.py $(FUZZ)

fuzz-controller: install ## give 10,000 damaged specs to the controller: a service or a reason, never a traceback
	$(BIN)/python -m scripts.fuzz_controller $(FUZZ)

fuzz-gateway: install ## send 100,000 damaged requests, and those of schemathesis: 2xx or 4xx, never a path or traceback
	$(BIN)/python -m scripts.fuzz_gateway $(FUZZ)
