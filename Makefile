# Everything from a clean clone: `make demo` and `make test` need python3 (3.11 or newer) and make, nothing else.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
# Two processes share the cores already; threads of theirs would wait for each other, and busily.
ALONE := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 ONEDNN_MAX_CPU_ISA=AVX2
# Python compiles a module when it is first loaded; most of PyTorch never is.
QUIETLY := --quiet --disable-pip-version-check --no-compile
# And it keeps what it compiled, also where somebody has told it not to: hundreds of processes would each compile anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test checked compiled test-network test-slow benchmarks benchmarks-network clean

# Four hospitals, from their files to predictions: docs/hospitals.md tells the story.
demo: $(VENV)/demo
	rm -rf out
	$(RUN) examples/hospitals/sites.py out/sites
	$(RUN) -m skipring worth examples/hospitals/network.toml --epsilons 1,8 --figure --out out/worth
	$(RUN) -m skipring network init out/network --nodes cleveland,budapest,zurich,long-beach \
		--run examples/hospitals/network.toml --data out/sites
	$(RUN) -m skipring network up out/network
	$(RUN) -m skipring predict out/network/zurich/model.npz examples/hospitals/new-patients.csv --out out/predictions.csv
	$(RUN) -m skipring simulate examples/hospitals/network.toml --out out/simulated
	$(RUN) -m skipring report out/simulated --out out/report.html

# Three workers on two cores: tests that wait for processes would leave a core idle.
test: $(VENV)/dev
	$(MAKE) --no-print-directory --jobs 2 checked compiled
	$(ALONE) $(RUN) -m pytest -n 3

checked: $(VENV)/dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

# Once, and beside mypy: in a new clone each worker would compile what it needs, and each module that tests load.
# What is wrong with a test file is said by the tests themselves.
compiled: $(VENV)/dev
	$(ALONE) $(RUN) tests/compile_first.py
	$(ALONE) $(RUN) -m pytest --collect-only > $(VENV)/collected || true

# Nodes that are killed, delayed and cut off for minutes, and all histories of the protocol. Network namespaces need root; without it they are skipped.
test-network: $(VENV)/dev
	$(ALONE) $(RUN) -m pytest -m slow -n 0 -rPs tests/network

# What takes long elsewhere: Ray's cluster, forecasts of random walks on a grid, more random networks, and the parameter
# sets that a sample leaves out of `make test`.
test-slow: $(VENV)/dev
	$(ALONE) $(RUN) -m pytest -m slow -n 2 --ignore=tests/network

benchmarks: $(VENV)/dev
	$(RUN) benchmarks/theorems.py
	$(RUN) benchmarks/transcript.py
	$(RUN) benchmarks/commands.py
	$(RUN) benchmarks/simulation.py
	$(RUN) benchmarks/rivals.py
	$(RUN) benchmarks/noise.py
	$(RUN) benchmarks/network.py
	$(RUN) benchmarks/long_run.py --hops 100000
	$(RUN) benchmarks/many_nodes.py 32

# What a network of real processes takes: a hop, a large model, many nodes, a million hops. Quiet machine; 20 minutes.
benchmarks-network: $(VENV)/dev
	$(RUN) benchmarks/network.py
	$(RUN) benchmarks/many_nodes.py 64 128
	$(RUN) benchmarks/long_run.py

clean:
	rm -rf $(VENV) out

$(VENV)/python: Makefile
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "skipring needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	touch $@

# Each installs all that it needs at once: pip builds skipring, in an environment of its own, every time.
$(VENV)/demo: $(VENV)/python pyproject.toml
	$(RUN) -m pip install $(QUIETLY) --editable '.[network,tables]'
	touch $@

$(VENV)/dev: $(VENV)/python pyproject.toml
	$(RUN) -m pip install $(QUIETLY) --editable '.[dev]'
	touch $@
