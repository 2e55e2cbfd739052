# The verbs of this repository. `make` alone lists them.
# Needed: Python 3.11 or newer, make; `make demo` reads by Spark too where there is a Java 17+ runtime, or one can be
# installed.

VENV   ?= .venv
# The first Python that is new enough, unless PYTHON says which.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
            command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
            && { echo $$p; break; }; done)
BIN    := $(VENV)/bin
# One environment, which grows with what is asked of it: the broker alone is 80 MB, Spark and its numbers are 1 GB.
BROKER := $(VENV)/.odradek-broker
DEMO   := $(VENV)/.odradek-demo
TESTS  := $(VENV)/.odradek-tests
LINK   := .cache/path/odradek
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help env demo serve test soak simulate planted lint bench bench-spark conformance wheel release docs clean

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

env: $(TESTS) $(LINK)  ## make the environment (.venv) for all verbs, once and whenever pyproject.toml or the kernel changed

demo: $(DEMO)  ## real flights: produced, consumed by a group, read by Spark, archived, counted
	@tools/need_java.sh || true
	@$(BIN)/python tools/demo.py $(ARGS)

serve: $(BROKER)  ## run a broker on 127.0.0.1:9092 (ARGS="--listen 0.0.0.0:9092")
	@exec $(BIN)/odradek serve $(ARGS)

# In the order of the tree: xdist would keep the files of few tests for the end, and those are the long ones. -rs prints
# why a test was skipped: kcat, Java and Kafka's jars are not needed. Hundreds of processes import the same modules, so
# Python keeps its bytecode in the clone (`make clean` removes it) even where the environment says not to. A worker that a
# test ends is not made anew: xdist then gives the rest of its files to nobody, and waits for ever.
test soak: export PYTHONDONTWRITEBYTECODE =
# The tests make 300,000 files, most of them small and empty soon. In memory that takes a third of the CPU time of all
# tests less than on a disk, which `make soak`, and pytest without make, still use.
test: export TMPDIR ?= $(shell awk '$$2 == "/dev/shm" && !/noexec/ { print $$2 }' /proc/mounts 2>/dev/null \
    | xargs -r df -Pk 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print $$6 }')
test: env  ## all tests (ARGS="tests/broker -x" for some)
	@$(BIN)/python -m pytest -q -rs --numprocesses auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0 $(ARGS)

soak: env  ## minutes of kill -9, faulty disks and chaos, by seed (ARGS="-k kill" for some)
	@ODRADEK_SOAK=1 ODRADEK_TURN_MS=50 ODRADEK_EXAMPLES=2000 $(BIN)/python -m pytest -q -o faulthandler_timeout=3600 tests/soak \
	    tests/broker/network tests/client/core $$(grep -rlE 'import (IS_SOAK|examples|seeds|LIMIT_MS)' tests --include='test_*.py' --exclude-dir=soak) \
	    tests/broker/security tests/protocol tests/storage $(ARGS)

SEEDS ?= 40
simulate: env  ## a whole cluster in a simulated world, by seed (SEEDS=100)
	@$(BIN)/python -m odradek.tests.support.simulations.whole seeds --seeds $(SEEDS) $(ARGS)

planted: env  ## known mistakes, taken back into the code, that the simulation must find
	@$(BIN)/python -m odradek.tests.support.simulations.whole planted --seeds 300 $(ARGS)

lint: env  ## ruff, pyright strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-cache

bench: env  ## measure, beside a real Kafka where KAFKA_LIB names its jars
	@$(BIN)/python -m benchmarks $(ARGS)

bench-spark: env  ## the Spark source and sink beside Spark's own connector (SPARK_KAFKA_PYTHON, SPARK_KAFKA_JARS)
	@$(BIN)/python -m benchmarks.spark $(ARGS)

# The packages of the recipes bring clients of their own, so they get an environment, with the tree as it is.
conformance: env  ## librdkafka's own tests, Kafka's tools and the recipes against a broker, as a table
	@test -x .cache/recipes/bin/python || $(PYTHON) -m venv .cache/recipes
	@.cache/recipes/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test,recipes]'
	@ODRADEK_RECIPES=.cache/recipes/bin/python $(BIN)/python tests/conformance/run.py $(ARGS)

wheel: $(BIN)/python  ## build the wheel into dist/
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist

release: $(BIN)/python  ## build a release into dist/, and try it in empty environments
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[release]'
	@$(BIN)/python tools/release.py

docs: $(BIN)/python  ## the documents as a site, in site/ (ARGS=serve shows it at http://127.0.0.1:8000)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@$(BIN)/python tools/site.py $(ARGS)

clean:  ## remove what was generated (not .venv, not data)
	rm -rf build dist odradek.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name .venv -prune -o -name __pycache__ -type d -print | xargs rm -rf

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed and was not found; set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	    echo "make: $(PYTHON) cannot make an environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

$(BROKER): WITH :=
$(DEMO): WITH := [spark,demo,archive]
$(TESTS): WITH := [spark,dev,demo]
$(BROKER) $(DEMO) $(TESTS): pyproject.toml $(wildcard kernel/*.pyx kernel/*.pxi) | $(BIN)/python
	@echo "installing Odradek$(WITH) and what it needs into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.$(WITH)'
	@touch $@ $(BROKER) $(if $(filter $(TESTS),$@),$(DEMO))

# Type checkers that read the tests find the package `odradek`, which is this folder, through this link.
$(LINK):
	@mkdir -p $(@D) && ln -sfn ../.. $@
