# `make demo` and `make test` each do all of their set-up, from a clean clone on; the second time there is none left.

VENV := .venv
BIN := $(VENV)/bin

# In how many processes the tests run; each may start a JVM or two, so no more of them than a laptop bears.
IN_PARALLEL := --numprocesses 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test conformance unit soak check bench chaos docs api diagrams configuration cli constraints clean java java-maven java-maven-kcat-chromium-kerberos-postgresql-go-npm java-maven-go

help:
	@echo "make demo    land 336,776 flights through an embedded broker, a group of two members, and Spark; check them"
	@echo "make test    check, and the tests (Apache Kafka and Spark among them), without the exhaustive ones"
	@echo "make conformance  check, and all tests: every table in every way it is used, hours of churn in virtual time"
	@echo "make unit    the tests of make test that start no other programs"
	@echo "make check   ruff, mypy, import-linter, and docstrings that open like a riddle"

	@echo "make soak    a hundred virtual hours of churn over fresh seeds, the models and hostile bytes at length; what fails can be replayed"
	@echo "make chaos   real Kafka, services of ours, faults for MINUTES (10); tables compared with the log by other readers; SEED again"
	@echo "make bench   side by side with the peers, in about an hour; docs/benchmarks.md says what and how"
	@echo "make docs    the documentation as pages, in build/docs; a broken link or a missing docstring is an error"
	@echo "make api     write tests/api.txt anew, which says what is public; a change of it is one for the users"
	@echo "make diagrams  draw the state machines in ARCHITECTURE.md anew, from their tables"
	@echo "make configuration  write docs/configuration.md anew, from the options"
	@echo "make cli     write docs/cli.md anew, from the command line's parsers"
	@echo "make clean   remove what the above have made, but $(VENV)"

demo: java $(VENV)/demo.stamp
	$(BIN)/python -m examples.flights

test: java-maven-kcat-chromium-kerberos-postgresql-go-npm check $(VENV)/test.stamp build/class-data/spark.jsa
	$(BIN)/python -m pytest $(IN_PARALLEL) -m "not exhaustive"

conformance: java-maven-kcat-chromium-kerberos-postgresql-go-npm check $(VENV)/test.stamp build/class-data/spark.jsa
	rm -f build/conformance.jsonl
	SARAMEYA_RESULTS=$(CURDIR)/build/conformance.jsonl $(BIN)/python -m pytest $(IN_PARALLEL)
	$(BIN)/python -m tests.conformance.results build/conformance.jsonl

unit: $(VENV)/dev.stamp
	$(BIN)/python -m pytest $(IN_PARALLEL) -m "not integration and not exhaustive"

soak: $(VENV)/dev.stamp
	$(BIN)/python -m tests.churn --hours 100
	$(BIN)/python -m tests.handling.schedules $$(date +%s) 1000
	SARAMEYA_SOAK=40 $(BIN)/python -m pytest tests/model
	SARAMEYA_SOAK=5 $(BIN)/python -m pytest tests/fuzz tests/group/test_breaking_connections.py
	$(BIN)/python -m tests.fuzz --minutes 20

MINUTES := 10

chaos: java-maven $(VENV)/dev.stamp
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

check: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.docstrings
	$(BIN)/python -m tools.rooms

bench: java-maven-go $(VENV)/dev.stamp
	$(BIN)/python -m bench --results build/bench/results

# Nothing is fetched, and every warning is an error.
docs: $(VENV)/dev.stamp
	$(BIN)/sphinx-build --builder html --conf-dir docs --nitpicky --fail-on-warning --keep-going --quiet --fresh-env --write-all . build/docs
	@echo "build/docs/docs/index.html"

api: $(VENV)/dev.stamp
	$(BIN)/python -m tools.api

diagrams: $(VENV)/dev.stamp
	$(BIN)/python -m tools.diagrams

configuration: $(VENV)/dev.stamp
	$(BIN)/sarameya config docs --output docs/configuration.md

cli: $(VENV)/dev.stamp
	$(BIN)/python -m tools.cli_page

build/class-data/spark.jsa: $(VENV)/dev.stamp
	@echo "Archiving the classes that the tests' JVMs load; they then start in a third of the time."
	$(BIN)/python -m tests.integration.make_class_data

# What is not installed here but by the machine's owner is asked for first, before anything takes time.
java java-maven java-maven-kcat-chromium-kerberos-postgresql-go-npm java-maven-go:
	@.ci/need $(subst -, ,$@)

# A stamp says which extra is installed; it is made again when what is to be installed changes. The modules beside the
# package are copied, not pointed to.
$(VENV)/demo.stamp $(VENV)/dev.stamp $(VENV)/test.stamp: $(VENV)/%.stamp: pyproject.toml constraints.txt runtime/sarameya_main.py runtime/sarameya_pytest.py | $(BIN)/python
	@echo "Installing into $(VENV) what pyproject.toml asks for; the first time this is half a gigabyte and takes minutes."
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[$*]'
	@touch $@

$(BIN)/python:
	@.ci/need python
	$$(.ci/need --python) -m venv $(VENV)

# Resolve the dependencies anew, within the ranges of pyproject.toml, and write down what came out.
constraints: | $(BIN)/python
	rm -rf build/resolve
	$$(.ci/need --python) -m venv build/resolve
	build/resolve/bin/pip install --quiet '.[test]'
	build/resolve/bin/pip freeze --exclude sarameya > constraints.txt
	rm -rf build/resolve

clean:
	rm -rf build dist landing .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
