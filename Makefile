# Everything runs in .venv, which is made when it is needed. PYTHON=python3.12 make test uses another interpreter.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
unexport PYTHONDONTWRITEBYTECODE  # compiled once, not in each of the processes that the tests start
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready

define install
$(PYTHON) -m venv $(VENV)
$(VENV)/bin/pip install --quiet --constraint constraints.txt hatchling editables
$(VENV)/bin/pip install --quiet --constraint constraints.txt --no-build-isolation --editable
endef

.PHONY: demo test test-fast explore check docs format bench clean

demo: $(DEMO)
	$(VENV)/bin/verax study run demo --out demo-study

test: $(READY)
	$(VENV)/bin/python -m pytest --numprocesses auto --dist worksteal

test-fast: $(READY)  # what it leaves out stands in conftest.py
	$(VENV)/bin/python -m pytest --fast --numprocesses auto --dist worksteal

explore: $(READY)  # property tests on examples that no run has seen
	$(VENV)/bin/python -m pytest --hypothesis-profile explore --numprocesses auto --dist worksteal \
		$$(grep -rl "from hypothesis import" tests)

check: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --config-file .mypy-programs.ini
	$(VENV)/bin/lint-imports

docs: $(READY)
	$(VENV)/bin/python -m zensical build --strict --clean

format: $(READY)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(READY)
	$(VENV)/bin/python benchmarks/guided.py
	$(VENV)/bin/python benchmarks/infidelity.py

# What the demo needs, and all that work on Verax needs, which includes it.
$(DEMO): pyproject.toml constraints.txt
	$(install) '.[study]'
	touch $(DEMO)

$(READY): pyproject.toml constraints.txt
	$(install) '.[dev,docs,all]'
	touch $(DEMO) $(READY)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
