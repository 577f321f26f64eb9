# The whole of ottla's workshop. `make run` and `make test` do all the set-up from a fresh clone.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUN_READY := $(VENV)/.run
COMMA := ,
WHEEL_VENV := .venv-wheel
WHEEL_BIN := $(WHEEL_VENV)/bin
WHEEL_READY := $(WHEEL_VENV)/.ready
WHEEL = $$(ls "$(CURDIR)"/dist/ottla-*.whl)
SOURCES := pyproject.toml setup.py $(shell find src -name '*.py' -o -name '*.kafka' -o -path '*/templates/*')
VENV41 := .venv-spark41
READY41 := $(VENV41)/.ready
VENV_DOCS := .venv-docs
READY_DOCS := $(VENV_DOCS)/.ready
# One more than the cores: many tests wait, for processes, clocks and Spark.
JOBS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
# One order of tests for one commit, so that a green run stays green; `make test SEED=7` shuffles anew.
SEED ?= 1
# Plugins by name alone: pytest rewrites the assertions of every package that brings one, and ours does.
NAMED := PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
PYTEST_OPTIONS := -p xdist -p timeout -p randomly -p hypothesispytest -p ottla.testing.plugin -n $(JOBS) --dist loadgroup --randomly-seed=$(SEED)
PYTEST := $(NAMED) $(BIN)/pytest $(PYTEST_OPTIONS)
# What ships is what is tested: the compiled wheel.
PYTEST_WHEEL = $(NAMED) WHEEL_UNDER_TEST="$(WHEEL)" $(WHEEL_BIN)/python -m pytest $(PYTEST_OPTIONS)
# All of it but planted bugs: they change rules of ours, which compiled code does not let them.
INTERPRETED := tests/simulation/test_planted.py

.PHONY: help run checked test test-all test-spark41 wheel check generate bench bench-quick bench-growth bench-storage bench-cluster bench-security bench-spark compile docs clean peer fix

help: ## what there is to make
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# All that the workshop needs, and before it what the demo needs and no more.
$(READY): pyproject.toml setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev,fast,spark,lake,jre]'
	@touch $(RUN_READY) $@

$(RUN_READY): pyproject.toml setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[fast,spark$(if $(shell command -v java),,$(COMMA)jre)]'
	@touch $@

run: $(RUN_READY) ## the demo: a cluster, a shop's events, a pipeline on Spark: `ottla demo`
	$(BIN)/ottla demo $(DEMO)

# The checks and the compiler of the wheel keep one core busy each.
checked: $(READY)
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target check $(WHEEL_READY)

test: checked ## check, then all tests under a minute: on the compiled wheel, planted bugs as Python
	$(PYTEST_WHEEL) -m "not slow and not peer" tests $(INTERPRETED:%=--ignore=%)
	$(PYTEST) -m "not slow and not peer" $(INTERPRETED)

test-all: checked peer test-spark41 ## all of it, with Apache Kafka's own clients and tools beside us
	$(PYTEST_WHEEL) -m "not peer" tests $(INTERPRETED:%=--ignore=%)
	$(PYTEST) -m "not peer" $(INTERPRETED)
	WHEEL_UNDER_TEST="$(WHEEL)" $(WHEEL_BIN)/python -m pytest -m peer tests

test-spark41: $(READY41) ## the tests of the Spark side on PySpark 4.1, the oldest that we support
	$(VENV41)/bin/pytest -n $(JOBS) --dist loadgroup --randomly-seed=$(SEED) -m "not slow and not peer" tests/spark

$(READY41): pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV41)
	$(VENV41)/bin/python -m pip install --quiet --upgrade pip
	$(VENV41)/bin/python -m pip install --quiet --editable '.[dev,fast,spark,lake,jre]' 'pyspark[pipelines]==4.1.*'
	@touch $@

wheel: $(WHEEL_READY) ## the compiled wheel, in dist/, and an environment that has it
	@echo $(WHEEL)

# Dependencies are those of $(VENV), read behind the wheel; its editable ottla is not.
$(WHEEL_READY): $(READY) $(SOURCES)
	rm -rf dist build/lib* build/bdist* src/*.egg-info
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	test -x $(WHEEL_BIN)/python || $(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_BIN)/python -m pip install --quiet --no-deps --force-reinstall dist/*.whl
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$($(WHEEL_BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dependencies.pth"
	@touch $@

check: $(READY) ## ruff, mypy --strict, import contracts, generated code is current, no dead names
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/protocolgen --check
	$(BIN)/python tools/dead_names.py

generate: $(READY) ## protocol/generated from protocol/schema
	$(BIN)/python tools/protocolgen

peer: $(READY) ## Apache Kafka 4.3.1, its tools and spark-sql-kafka, by Maven, into .peer/
	$(BIN)/python tools/kafka_peer/setup.py
	$(BIN)/python tools/kafka_peer/spark_connector.py

bench: peer $(WHEEL_READY) ## us and Apache Kafka by turns: ratios, JSON and a plot
	$(WHEEL_BIN)/python benchmarks/run.py $(BENCH)

bench-quick: peer $(WHEEL_READY) ## the same in about 3 minutes, for a commit on the hot path
	$(WHEEL_BIN)/python benchmarks/run.py --quick --no-files $(BENCH)

bench-growth: $(WHEEL_READY) ## how our costs grow with connections, partitions, topics, groups (BENCH="--scale 1": all of it)
	$(WHEEL_BIN)/python benchmarks/growth.py $(BENCH)

bench-storage: peer $(WHEEL_READY) ## the cleaner beside Kafka's, the remote store beside a plain copy
	$(WHEEL_BIN)/python benchmarks/storage.py $(BENCH)

bench-cluster: peer $(WHEEL_READY) ## three brokers beside three of Kafka's: replication, failover, partitions
	$(WHEEL_BIN)/python benchmarks/cluster.py $(BENCH)

bench-security: peer $(WHEEL_READY) ## TLS, logins and ACLs beside Kafka's, on the same secured listeners
	$(WHEEL_BIN)/python benchmarks/security.py $(BENCH)

bench-spark: peer $(WHEEL_READY) ## our source and sink of Spark beside spark-sql-kafka on the same broker
	$(WHEEL_BIN)/python benchmarks/spark.py $(BENCH)

compile: $(READY) ## the hot modules by mypyc, in place; `make clean` undoes it
	OTTLA_COMPILE=1 $(BIN)/python setup.py --quiet build_ext --inplace

docs: $(READY_DOCS) ## the documents as a site, in build/site; a broken link fails
	$(VENV_DOCS)/bin/python tools/docs_site.py
	$(VENV_DOCS)/bin/mkdocs build --strict --quiet
	@echo build/site/index.html

$(READY_DOCS): pyproject.toml
	test -x $(VENV_DOCS)/bin/python || $(PYTHON) -m venv $(VENV_DOCS)
	$(VENV_DOCS)/bin/python -m pip install --quiet "$$($(VENV_DOCS)/bin/python tools/docs_site.py --requirement)"
	@touch $@

fix: $(READY) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what was compiled and cached
	rm -rf build dist $(WHEEL_VENV) $(VENV_DOCS) .mypy_cache .ruff_cache .import_linter_cache
	find src -name '*.so' -delete
	find . -name __pycache__ -type d -not -path './.venv*/*' -prune -exec rm -rf {} +
