# Everything from a clean clone: `make demo` and `make test` need python3 (3.11 or newer) and make, nothing else.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
# Two processes share the cores already; threads of theirs would wait for each other, and busily.
ALONE := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

.PHONY: demo test test-network test-slow benchmarks clean

demo: $(VENV)/core
	rm -rf out
	$(RUN) -m skipring plan --nodes 113 --delay gamma:0.25,1 --time 60 --epsilon 8 --delta 1e-5 --dimension 30 \
		--figure out/frontier.png
	$(RUN) -m skipring compare examples/clinics.toml --timeouts fastest,inf --schedules random-ring,ring \
		--error 0.12 --out out/clinics
	$(RUN) -m skipring report out/clinics/* --out out/report.html

test: $(VENV)/dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(ALONE) $(RUN) -m pytest -n 2

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

clean:
	rm -rf $(VENV) out

$(VENV)/python: Makefile
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "skipring needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/core: $(VENV)/python pyproject.toml
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/dev: $(VENV)/core
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@
