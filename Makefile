# Every target works on a fresh clone: it first makes .venv, at the versions of requirements.lock.
PYTHON ?= $(shell .ci/find-python)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# In an environment of its own: it wants other versions than requirements.lock has.
CHECKOV := .checkov/.installed
# Every package by its hash, and so is what builds those that come as sources.
INSTALL := $(BIN)/uv pip install --quiet --require-hashes --build-constraints .ci/build.lock
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-annotate
TESTBED := tests/e2e/testbed/testbed
SCRIPTS := .ci/run .ci/find-python tests/qss_testing/writers/spark_python .ci/install-e2e .ci/install-browser .ci/push-image .ci/lint-workflows $(TESTBED) $(addprefix tests/e2e/testbed/,node-init node-runc volumes) tests/e2e/images/images spark-jobs/entrypoint.sh spark-jobs/java.sh store-pod/docs/clients/reader.sh $(wildcard tests/qss_bench/peers/kafka-streams/scripts/*.sh)

# Many processes start: those that may not keep what they compiled take twice as long.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: checkov help install demo lint lint-beside lock test tests browser screenshots planted fuzz simulate bench bench-peers siege test-faults compat compat-client dist lint-workflows sync-client testbed testbed-down images e2e e2e-smoke testbed-programs

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

install: $(INSTALLED) ## Make .venv with everything, at the versions of requirements.lock

$(INSTALLED): pyproject.toml requirements.lock .ci/build.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "Making $(VENV) with $$(command -v $(PYTHON)): 1.6 GB on disk, one to ten minutes by the network; the next command finds it"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .ci/build.lock
	$(INSTALL) --python $(BIN)/python --requirements requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --build-constraints .ci/build.lock --no-deps --editable .
	@touch $@

demo: install ## Stream 336 776 real flights into local stores, ask them meanwhile, kill and add pods, compare every row; JOBS=aircraft-stats FAULTS=0
	@$(BIN)/qss demo $(if $(JOBS),--jobs $(JOBS)) $(if $(filter 0,$(FAULTS)),--no-faults)

lint: install ## Format, lint, types and the rules of the architecture
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/mypy --no-error-summary
	$(BIN)/python .ci/make-sync-client --check
	$(BIN)/shellcheck --external-sources --source-path SCRIPTDIR $(SCRIPTS)
	$(BIN)/lint-imports --no-logo >.import_linter.log 2>&1 || { cat .import_linter.log; exit 1; }

lint-workflows: ## Check .github/workflows with actionlint, which is built by Go
	@.ci/lint-workflows

sync-client: install ## Write the client without an event loop from the one with an event loop
	$(BIN)/python .ci/make-sync-client

lock: $(INSTALLED) ## Resolve requirements.lock anew from pyproject.toml, and the locks of images and tools
	$(COMPILE) --all-extras --group dev --output-file requirements.lock pyproject.toml
	$(COMPILE) --constraints requirements.lock --extra store --output-file store-pod/requirements.lock pyproject.toml
	$(COMPILE) --constraints requirements.lock --extra operator --output-file operator/requirements.lock pyproject.toml
	$(COMPILE) --constraints requirements.lock --extra spark --extra mirror --extra demo --output-file spark-jobs/requirements.lock pyproject.toml
	$(COMPILE) --constraints requirements.lock --group build --output-file .ci/build.lock
	$(COMPILE) --group go --output-file .ci/go.lock
	$(COMPILE) --group checkov --output-file .ci/checkov.lock

# Side by side: what lint says comes after the tests.
test: install ## Lint and all tests
	@: >.lint.log; $(MAKE) --no-print-directory --keep-going --jobs 2 lint-beside tests; ended=$$?; cat .lint.log; exit $$ended

lint-beside: install
	@$(MAKE) --no-print-directory lint >.lint.log 2>&1 || { echo "lint has failed: what it says comes after the tests"; exit 1; }

# Twice as many workers as cores, at most four: a test that waits for its pods leaves a core to others.
tests: install browser
	$(BIN)/pytest --numprocesses $$(($$(nproc) * 2)) --maxprocesses 4 --dist worksteal

browser:
	@.ci/install-browser >&2

screenshots: install browser ## Make the pictures of the console in store-pod/docs/images, with a store that it starts
	@PYTHONPATH=tests $(BIN)/python -m qss_testing.console.screenshots store-pod/docs/images

fuzz: install ## Many requests, other ones in each run: to the fast path in all pieces (FAST_PATH_SEED, FAST_PATH_SECONDS), then by the OpenAPI document to every type of store (EXAMPLES)
	QSS_FAST_PATH_SEED=$(or $(FAST_PATH_SEED),$$(date +%s)) QSS_FAST_PATH_SECONDS=$(or $(FAST_PATH_SECONDS),60) $(BIN)/pytest --capture=no tests/integration/reads/test_fast_path_fuzz.py
	QSS_FUZZ_EXAMPLES=$(or $(EXAMPLES),1000) $(BIN)/pytest --numprocesses $$(nproc) --dist loadscope tests/integration/http/test_openapi_fuzz.py

planted: install ## Take each mend of a proven bug out, and damage the fast path: see that a test fails; WORDS='a log is cut' takes out those with these words
	@PYTHONPATH=tests $(BIN)/python -m qss_testing.plants.planted $(WORDS)
	@PYTHONPATH=tests $(BIN)/python -m qss_testing.plants.planted_standbys $(WORDS)
	@PYTHONPATH=tests $(BIN)/python -m qss_testing.plants.planted_damage $(WORDS)
	@PYTHONPATH=tests $(BIN)/python -m qss_testing.plants.planted_volumes $(WORDS)
	@PYTHONPATH=tests $(BIN)/python -m qss_testing.plants.planted_reads $(WORDS)
	@PYTHONPATH=tests $(BIN)/python -m qss_testing.plants.planted_jobs $(WORDS)
	@PYTHONPATH=tests $(BIN)/python -m qss_testing.plants.planted_unlike $(WORDS)
	@$(if $(WORDS),true,PYTHONPATH=tests $(BIN)/python -m qss_testing.plants.planted_fast_path)

simulate: install ## Run the services under SEEDS=200 seeds FROM=1, in simulated time with faults; REPLAY=7 prints one run, PLANTED=1 puts known bugs back, SCENARIOS=1 plays the scenarios under SEEDS=5 (SCENARIOS='words of a title')
	@PYTHONPATH=tests $(BIN)/python -m qss_simulation --seeds $(or $(SEEDS),$(if $(SCENARIOS),5,$(if $(PLANTED),500,200))) --from $(or $(FROM),1) $(if $(REPLAY),--replay $(REPLAY)) $(if $(SCENARIOS),--scenarios "$(filter-out 1,$(SCENARIOS))") $(if $(PLANTED),--planted '$(filter-out 1,$(PLANTED))')

bench: install ## Measure every figure; writes .bench/results.json
	@PYTHONPATH=tests $(BIN)/python -m qss_bench

bench-peers: install ## Measure a store beside Kafka Streams, PostgreSQL and Redis (says which packages of Debian it lacks); PEERS='reads' runs one part; writes .bench/peers.md
	@PYTHONPATH=tests $(BIN)/python -m qss_bench.peers $(PEERS)

dist: install ## Make the packages of a release in dist/: wheel, sources, chart, bills of materials, sums; IMAGES='store=REPOSITORY@sha256:... operator=...' for the chart
	$(BIN)/python .ci/make-dist $(addprefix --image ,$(IMAGES))

compat: install ## Try the sink and the data source with PySpark 3.5 to 4.3, each in an environment of its own (5 minutes and 400 MB each); VERSIONS='3.5.9' tries one
	@PYTHONPATH=tests $(BIN)/python -m qss_compat $(VERSIONS)

compat-client: install ## Install the wheel without extras on PYTHONS='3.11 3.12 3.13 3.14', as far as this machine has them, and read a store
	@PYTHONPATH=tests $(BIN)/python -m qss_compat.client $(PYTHONS)

siege: install ## Two minutes of hostile callers of all kinds against one pod within its default memory limit; ends with 1 where a bound broke (SIEGE=--help)
	@PYTHONPATH=tests $(BIN)/python -m qss_siege $(SIEGE)

test-faults: install ## Strike real pods with faults of SEEDS=1 seeds FROM=1 while a writer and readers run, and judge every answer; as root also links and disks (FAULTS_OPTIONS=--help)
	@PYTHONPATH=tests $(BIN)/python -m qss_faults --seeds $(or $(SEEDS),1) --from $(or $(FROM),1) $(FAULTS_OPTIONS)

testbed: ## Run a real Kubernetes of NODES=2 nodes on this machine (as root; the first time it is built, 15 minutes)
	@$(TESTBED) build
	@$(TESTBED) up $(or $(NODES),2)

testbed-down: ## Stop that Kubernetes and forget what was in it
	@$(TESTBED) down

images: ## Build the three images, and load them into the nodes that run
	@tests/e2e/images/images load

checkov: $(CHECKOV) ## Install checkov, which looks for bad habits in the chart and the Dockerfiles (part of make e2e)

$(CHECKOV): $(INSTALLED) .ci/checkov.lock
	@$(BIN)/uv venv --quiet --clear .checkov
	@$(INSTALL) --python .checkov/bin/python --requirements .ci/checkov.lock
	@touch $@

e2e: install testbed-programs $(CHECKOV) ## All tests on a real Kubernetes: the test bed, or E2E_KUBECONFIG with E2E_IMAGE_PREFIX
	$(BIN)/pytest tests/e2e

e2e-smoke: install testbed-programs ## Of these: helm install, one store, one Spark job, a failover under it, every key compared
	$(BIN)/pytest tests/e2e/test_smoke.py

testbed-programs:
	@test -n "$(E2E_KUBECONFIG)" || $(TESTBED) build
