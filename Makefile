# Two commands for a fresh machine: `make run` and `make test`. They need Python 3.11 or newer, and make.
PYTHON ?= python3
VENV   := .venv
ENVLOCK := $(VENV)/bin/envlock

.PHONY: run test test-slow lint docs bench clean

run: $(VENV)/.installed
	@$(ENVLOCK) sync train-cu128
	@$(ENVLOCK) verify train-cu128 --tier static
	@if [ -e /proc/driver/nvidia/version ]; then \
	   $(ENVLOCK) run train-cu128 -- python examples/train_step.py; \
	 else \
	   echo 'No NVIDIA driver on this machine: training on the CPU, with --no-gpu.' >&2; \
	   $(ENVLOCK) run --no-gpu train-cu128 -- python examples/train_step.py; \
	 fi

# The fast tests: no network, no root, no GPU.
test: $(VENV)/.dev
	$(VENV)/bin/python -m pytest -n auto --timeout 300 --reruns 1 -m 'not torch and not lxc and not sshd and not slurm and not cuobjdump and not browser and not gpu'

# The real ones: torch wheels, LXC containers, a sshd on loopback, Slurm, cuobjdump, Chromium. As root, with network.
test-slow: $(VENV)/.dev
	$(VENV)/bin/python -m pytest --timeout 900 --reruns 2 --reruns-delay 5 -m 'torch or lxc or sshd or slurm or cuobjdump or browser' --durations=15

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/mypy

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'envlock needs Python 3.11 or newer: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(VENV)/bin/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(VENV)/bin/python -m pip install --quiet --editable . --group dev
	@touch $@

docs: $(VENV)/.dev
	$(VENV)/bin/python docs/generate.py

clean:
	rm -rf $(VENV)
