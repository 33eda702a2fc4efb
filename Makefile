# Two commands: `make demo` shows the main job end to end, `make test` checks everything. Each sets up what it needs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

ENV = $(shell scripts/environment.sh | tail -n 1)
UBUNTU = $(shell scripts/environment.sh --ubuntu | tail -n 1)
RAY = $(shell scripts/environment.sh --ray | tail -n 1)
# Threads that wait must sleep, not spin: tests run several processes on a few cores.
RUN = OMP_WAIT_POLICY=PASSIVE PYTHONPATH="$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH}" PATH="$$ENV/bin:$$PATH"
DEMO_DIR ?= runs/demo
TEST_PROCESSES ?= 2
PYTEST = OMP_NUM_THREADS=1 $(RUN) python -m pytest -n $(TEST_PROCESSES) --dist loadfile $(PYTEST_ARGS)

.PHONY: help demo test test-ubuntu test-ray bench lint env clean

help:  ## Show what can be made
	@grep -hE '^[a-z-]+: *.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 20

demo:  ## Build a map, train, fly, learn and improve; leaves tables and pictures in runs/demo
	@export ENV="$(ENV)"; test -n "$$ENV"; $(RUN) python -m aerial_vpr_cl demo --out "$(DEMO_DIR)"

test: lint  ## Lint, type-check and run all tests
	@export ENV="$(ENV)"; test -n "$$ENV"; $(PYTEST)

test-ubuntu:  ## Run all tests with the libraries of Ubuntu 24.04, which ROS 2 Jazzy runs on
	@export ENV="$(ENV)" UBUNTU="$(UBUNTU)"; test -n "$$ENV" -a -n "$$UBUNTU"; \
	export PYTHONPATH="$$UBUNTU$${PYTHONPATH:+:$$PYTHONPATH}"; $(PYTEST)

test-ray:  ## Run the benchmark's tests on a Ray cluster of this computer; Ray is fetched for it
	@export ENV="$(ENV)" RAY="$(RAY)"; test -n "$$ENV" -a -n "$$RAY"; \
	export PYTHONPATH="$$RAY$${PYTHONPATH:+:$$PYTHONPATH}"; \
	OMP_NUM_THREADS=1 $(RUN) python -m pytest -n 0 test/test_benchmark.py -k "ray" $(PYTEST_ARGS)

bench:  ## Measure what is to be held and what else one could do; writes benchmarks/results/bench.md (RASTERS=FOLDER: naip_nd)
	@export ENV="$(ENV)"; test -n "$$ENV"; \
	OMP_NUM_THREADS=1 $(RUN) python benchmarks/bench.py $(if $(RASTERS),--rasters "$(RASTERS)") $(BENCH_ARGS)

lint:  ## ruff and mypy only
	@export ENV="$(ENV)"; test -n "$$ENV"; \
	$(RUN) ruff check . && $(RUN) ruff format --check . && $(RUN) mypy

env:  ## Create the shared Python environment and print its path as the last line
	@scripts/environment.sh

clean:  ## Remove what demo, build and tests left in this clone (the shared environment stays)
	rm -rf build install log runs .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
