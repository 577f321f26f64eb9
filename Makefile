# The whole of ottla's workshop. `make run` and `make test` do all the set-up from a fresh clone.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
VENV41 := .venv-spark41
READY41 := $(VENV41)/.ready
JOBS ?= 2
# One order of tests for one commit, so that a green run stays green; `make test SEED=7` shuffles anew.
SEED ?= 1
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadgroup --randomly-seed=$(SEED)

.PHONY: help run test test-all test-spark41 check generate bench bench-storage bench-cluster bench-spark compile clean peer fix

help: ## what there is to make
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev,fast,spark,lake,jre]'
	@touch $@

run: $(READY) ## the demo: a cluster, a shop's events, a pipeline on Spark: `ottla demo`
	$(BIN)/ottla demo $(DEMO)

test: check ## check, then unit, property, crash and hostile tests, and real clients
	$(PYTEST) -m "not slow and not peer" tests

test-all: check peer test-spark41 ## all of it, with Apache Kafka's own clients and tools beside us
	$(PYTEST) -m "not peer" tests
	$(BIN)/pytest -m peer tests

test-spark41: $(READY41) ## the tests of the Spark side on PySpark 4.1, the oldest that we support
	$(VENV41)/bin/pytest -n $(JOBS) --dist loadgroup --randomly-seed=$(SEED) -m "not slow and not peer" tests/spark

$(READY41): pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV41)
	$(VENV41)/bin/python -m pip install --quiet --upgrade pip
	$(VENV41)/bin/python -m pip install --quiet --editable '.[dev,fast,spark,lake,jre]' 'pyspark[pipelines]==4.1.*'
	@touch $@

check: $(READY) ## ruff, mypy --strict, import contracts, generated code is current
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/protocolgen --check

generate: $(READY) ## protocol/generated from protocol/schema
	$(BIN)/python tools/protocolgen

peer: $(READY) ## Apache Kafka 4.3.1, its tools and spark-sql-kafka, by Maven, into .peer/
	$(BIN)/python tools/kafka_peer/setup.py
	$(BIN)/python tools/kafka_peer/spark_connector.py

bench: $(READY) peer compile ## us and Apache Kafka by turns: ratios, JSON and a plot
	$(BIN)/python benchmarks/run.py $(BENCH)

bench-storage: $(READY) peer compile ## the cleaner beside Kafka's, the remote store beside a plain copy
	$(BIN)/python benchmarks/storage.py $(BENCH)

bench-cluster: $(READY) peer compile ## three brokers beside three of Kafka's: replication, failover, partitions
	$(BIN)/python benchmarks/cluster.py $(BENCH)

bench-spark: $(READY) peer compile ## our source and sink of Spark beside spark-sql-kafka on the same broker
	$(BIN)/python benchmarks/spark.py $(BENCH)

compile: $(READY) ## the hot modules by mypyc, in place; `make clean` undoes it
	OTTLA_COMPILE=1 $(BIN)/python setup.py --quiet build_ext --inplace

fix: $(READY) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what was compiled and cached
	rm -rf build .mypy_cache .ruff_cache .import_linter_cache
	find src -name '*.so' -delete
	find . -name __pycache__ -type d -not -path './.venv*/*' -prune -exec rm -rf {} +
