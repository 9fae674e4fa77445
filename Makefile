# Two commands set up everything they need and run:
#   make demo    the incident, live, seen by plain httpx and by outlast
#   make test    every check
# Both work in a fresh clone on a machine that has Python >= 3.10 and make. The newest Python
# found is taken; to choose: make clean, then make PYTHON=python3.10 test.

VENV  := .venv
BIN   := $(VENV)/bin
BENCH := .venv-bench
ALONE := $(BENCH)/niquests

# Tests that need no quiet run side by side, three on two cores: most of them wait for something.
CROWD := -n 3

# The kernel lab; what asserts how long calls take is alone on it.
LAB := $(BIN)/python -m outlast.testing.kernel_lab -- $(BIN)/python -m pytest
# The side-by-side suite with each family: all of it, or in brief without trio and the sync one.
FIRST := tests/dropin
SECOND := tests/dropin -k 'not trio'
# Of that suite what llhttp refuses or passes over, as docs/drop-in.md says; and a greeting that it
# refuses so soon that the reset often overtakes the request on its way to the server.
STRICTER := folded or bare_line_feeds or equal_lengths or blank_line_first or version_1_2 or version_2 \
  or length_and_chunked or line_after or control_in_value or greeting_of_another
INCIDENT := tests/lab/test_incident_a.py
LEGACY := tests/lab/legacy/test_incident_a.py
# Those that assert how long calls take, or whom they go to: beside five busy processes they fail,
# and those of the incident beside the others too, which ask as fast as they can.
SHARES := $(addprefix tests/lab/,test_routing.py test_limits.py test_is_it_me.py test_watch_cost.py)
HEDGING := tests/lab/test_hedging.py
TIMED := $(INCIDENT) $(LEGACY) $(SHARES) $(HEDGING)

.DEFAULT_GOAL := help
.PHONY: help demo test lint format types core unit dropin family parser lab lab-crowd lab-alone incident legacy liveness differential routing machines fuzz churn bench bench-speed bench-incident bench-routing bench-simnet bench-shims clean

help:  ## list what can be made
	@sed -n 's/^\([a-z][a-z-]*\):.*## /  make \1	/p' Makefile

demo: $(VENV)/.demo  ## a node loses power: plain httpx and outlast side by side
	$(BIN)/outlast demo $(DEMO_ARGS)

# `family` is not part of it: the side-by-side suite has both families. Beside the lab one process
# works at a time: what waits for the kernel there waits for its own turn, too.
test: lint  ## every check, as the continuous integration runs it
	$(MAKE) -j2 --output-sync=line lab-crowd types core
	$(MAKE) unit
	$(MAKE) dropin lab-alone FIRST="tests/dropin -k 'not trio'" SECOND=tests/dropin/test_sync.py

lint: $(VENV)/.dev  ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev  ## rewrite the files in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev  ## mypy, strict
	$(BIN)/mypy

core: $(VENV)/.dev  ## the tests of the decisions, which cover them wholly, branch by branch
	$(BIN)/coverage run -m pytest tests/core
	$(BIN)/coverage report --include='src/outlast/core/*' --fail-under=100

unit: $(VENV)/.dev  ## the fast tests of everything else
	$(BIN)/python -m pytest $(CROWD) --ignore=tests/core --ignore=tests/lab --ignore=tests/dropin

# Three at a time: they wait for servers more than they work.
dropin: $(VENV)/.dev  ## each case on plain httpx and on outlast, side by side, against the same server; then with httpx2
	$(BIN)/python -m pytest -n 3 $(FIRST)
	OUTLAST_FAMILY=httpx2 $(BIN)/python -m pytest -n 3 $(SECOND)

family: $(VENV)/.dev  ## the tests of the transports once more, with httpx2 in the place of httpx
	OUTLAST_FAMILY=httpx2 $(BIN)/python -m pytest $(CROWD) $(addprefix tests/http/,test_transport_sync.py \
	  test_transport_async.py test_families.py test_cancellation.py test_client.py test_trace.py \
	  test_network_stream.py test_calls_scripted.py test_attempts_scripted.py test_redials.py \
	  test_repeats_scripted.py test_paced_scripted.py test_circuits_scripted.py)

parser: $(VENV)/.dev  ## the tests of the transports and the side-by-side suite, with httptools for a parser
	OUTLAST_HTTP1_PARSER=httptools $(BIN)/python -m pytest $(CROWD) $(addprefix tests/http/,test_transport_sync.py \
	  test_transport_async.py test_trace.py test_network_stream.py)
	OUTLAST_HTTP1_PARSER=httptools $(BIN)/python -m pytest -n 3 tests/dropin/test_sync.py -k "not ($(STRICTER))"

lab: lab-crowd lab-alone  ## the tests on the real kernel, in a user namespace where one is needed

lab-crowd: $(VENV)/.dev  ## most of them: they wait for the kernel, side by side
	$(LAB) -n 3 tests/lab $(addprefix --ignore=,$(TIMED))

lab-alone: $(VENV)/.dev  ## those that assert times and shares; two at a time leave half of two cores idle
	$(LAB) -n 2 $(INCIDENT) $(LEGACY)
	$(LAB) -n 2 $(SHARES)
	$(LAB) $(HEDGING)

incident: $(VENV)/.dev  ## incident A at full length, every row; prints the figures, 12 minutes
	OUTLAST_FULL=1 $(LAB) $(INCIDENT)

legacy: $(VENV)/.legacy  ## programs that cannot be changed, under every shim, with real servers; prints the figures, 12 minutes
	OUTLAST_FULL=1 $(LAB) tests/lab/legacy $(addprefix tests/lab/test_,install.py run.py forward.py)

differential: $(VENV)/.dev  ## the same scenarios on the kernel and on the simulation, the long rows too; prints both, 3 minutes
	OUTLAST_FULL=1 $(LAB) tests/lab/test_differential.py tests/lab/test_differential_cluster.py

liveness: $(VENV)/.dev  ## dead or slow: every state to its end, with pauses and lost packets, and ten thousand incidents of POSTs; prints the figures, 20 minutes
	OUTLAST_FULL=1 $(LAB) $(addprefix tests/lab/test_,liveness.py \
	  probes.py liveness_http.py liveness_matrix.py lossy_lines.py is_it_me.py watch_cost.py)
	OUTLAST_FULL=1 $(BIN)/python -m pytest tests/fire/test_lossy_lines.py
	$(BIN)/python -m tests.fire.posts

routing: $(VENV)/.dev  ## whom a request goes to, in figures: each of seeds 1 to 20 at full length; 20 minutes
	OUTLAST_FULL=1 $(BIN)/python -m pytest $(CROWD) --timeout=600 tests/fire/test_routing.py tests/fire/test_circuits.py

machines: $(VENV)/.dev  ## the state machines of hypothesis, with all their examples; every other run draws a quarter; 3 minutes
	OUTLAST_FULL=1 $(BIN)/python -m pytest $(CROWD) $$(grep -l 'examples(' -r tests/core tests/http --include='test_*.py')

fuzz: $(VENV)/.dev  ## new random incidents in virtual time, for a minute or FUZZ_ARGS='--seconds 600'; stops at the first that breaks an invariant
	$(BIN)/python -m tests.fire $(FUZZ_ARGS)

churn: $(VENV)/.dev  ## 10 minutes in which everything comes and goes, or CHURN_ARGS='seconds [seed]'; nothing may grow
	$(BIN)/python -m tests.stress.churn $(CHURN_ARGS)

bench: bench-speed bench-incident bench-routing bench-simnet bench-shims  ## all benchmarks; in brief: make bench BENCH_ARGS=--smoke

bench-simnet: $(VENV)/.dev  ## what the simulated network costs; fails where its limits do not hold
	$(BIN)/python -m benchmarks.simnet

bench-shims: $(VENV)/.dev  ## what install(), the runner and the forwarder cost, beside programs without them
	$(BIN)/python -m benchmarks.install_cost
	$(BIN)/python -m benchmarks.runner
	$(BIN)/python -m benchmarks.forward $(filter --smoke,$(BENCH_ARGS))

bench-speed: $(BENCH)/.bench $(ALONE)/.niquests  ## what the library costs when nothing is wrong, beside others; writes docs/benchmarks-speed.md, one to three hours
	$(BENCH)/bin/python benchmarks/import_cost.py
	NIQUESTS_PYTHON=$(CURDIR)/$(ALONE)/bin/python $(BENCH)/bin/python -m benchmarks.speed $(BENCH_ARGS)

bench-incident: $(BENCH)/.bench  ## a dozen clients lose a node, on the kernel lab; writes docs/benchmarks-incident.md, 27 minutes
	$(BENCH)/bin/python -m benchmarks.incident $(BENCH_ARGS)

bench-routing: $(BENCH)/.bench  ## one pod answers 503, another is slow, beside HAProxy and Envoy; writes docs/benchmarks-routing.md, 4 minutes
	$(BENCH)/bin/python -m benchmarks.routing $(BENCH_ARGS)
	$(BENCH)/bin/python benchmarks/pick.py

clean:  ## remove everything that these commands made
	rm -rf $(VENV) $(BENCH) build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: an environment is made once and again when pyproject.toml changes.
$(BIN)/python:
	PYTHON='$(PYTHON)' sh .ci/make-venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[cli]'
	@touch $@

# The benchmarks' libraries have a place of their own: some of them replace others.
$(BENCH)/.bench: pyproject.toml
	[ -x $(BENCH)/bin/python ] || PYTHON='$(PYTHON)' sh .ci/make-venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --editable '.[bench]'
	@touch $@

# What niquests depends on is installed over urllib3.
$(ALONE)/.niquests: | $(BENCH)/.bench
	[ -x $(ALONE)/bin/python ] || PYTHON='$(PYTHON)' sh .ci/make-venv $(ALONE)
	$(ALONE)/bin/python -m pip install --quiet niquests
	@touch $@

# A Go toolchain among them, which is large.
$(VENV)/.legacy: pyproject.toml | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[dev,legacy]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.demo
