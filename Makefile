# `make demo` and `make test` set up everything they need on their first run in a clean clone.

VENV := .venv
BIN := $(VENV)/bin

# Number of test processes. Each may start one or two JVMs, so two are enough for a laptop.
IN_PARALLEL := --numprocesses 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test conformance unit soak check bench chaos docs api diagrams configuration cli constraints clean java java-maven java-maven-kcat-chromium-kerberos-postgresql-go-npm java-maven-go

help:
	@echo "make demo           land 336,776 flights with an embedded broker, two group members and Spark; check the table"
	@echo "make test           run make check and all tests, also with Apache Kafka and Spark, except the exhaustive ones"
	@echo "make conformance    run make check and all tests: also every table format and mode, hours of churn in virtual time"
	@echo "make unit           run the tests of make test that start no other programs"
	@echo "make check          run ruff, mypy and import-linter; check the first words of docstrings and the size of folders"
	@echo "make soak           run 100 virtual hours of churn with fresh seeds, then the model and fuzz tests for longer;"
	@echo "                    a failure prints the command that repeats it"
	@echo "make chaos          run services on Apache Kafka under faults for MINUTES (default 10), then compare their tables"
	@echo "                    with the log; SEED=N repeats a run"
	@echo "make bench          run all benchmarks, about an hour; see docs/benchmarks.md"
	@echo "make docs           build the documentation in build/docs; a broken link or a missing docstring is an error"
	@echo "make api            regenerate tests/api.txt, the list of public names; a change in it affects users"
	@echo "make diagrams       regenerate the state diagrams in ARCHITECTURE.md from the transition tables"
	@echo "make configuration  regenerate docs/configuration.md from the options"
	@echo "make cli            regenerate docs/cli.md from the command-line parsers"
	@echo "make constraints    resolve the dependencies again and write constraints.txt"
	@echo "make clean          remove all generated files except $(VENV)"

demo: java $(VENV)/demo.stamp
	$(BIN)/python -m examples.flights

test: java-maven-kcat-chromium-kerberos-postgresql-go-npm check $(VENV)/test.stamp build/class-data/spark.jsa
	$(BIN)/python -m pytest $(IN_PARALLEL) -m "not exhaustive"

conformance: java-maven-kcat-chromium-kerberos-postgresql-go-npm check $(VENV)/test.stamp build/class-data/spark.jsa
	mkdir -p build
	LANDING_RESULTS=$(CURDIR)/build/conformance.jsonl $(BIN)/python -m pytest $(IN_PARALLEL)
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
	$(BIN)/python -m tools.folder_sizes

bench: java-maven-go $(VENV)/dev.stamp
	$(BIN)/python -m bench --results build/bench/results

# Needs no network. Every warning is an error.
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
	@echo "Archiving the classes that the tests' JVMs load. With the archive, a JVM starts in a third of the time."
	$(BIN)/python -m tests.integration.make_class_data

# Check for system packages first, before any slow step.
java java-maven java-maven-kcat-chromium-kerberos-postgresql-go-npm java-maven-go:
	@.ci/need $(subst -, ,$@)

# One stamp file per installed extra. pip installs the extra again when an input of its stamp changes. An editable
# installation copies the two single modules, so they are inputs, too.
$(VENV)/demo.stamp $(VENV)/dev.stamp $(VENV)/test.stamp: $(VENV)/%.stamp: pyproject.toml constraints.txt runtime/sarameya_main.py runtime/sarameya_pytest.py | $(BIN)/python
	@echo "Installing the dependencies of pyproject.toml into $(VENV). The first time, this takes minutes and 500 MB."
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[$*]'
	@touch $@

$(BIN)/python:
	@.ci/need python
	$$(.ci/need --python) -m venv $(VENV)

# Resolve the dependencies within the ranges of pyproject.toml, and write the versions to constraints.txt.
constraints: | $(BIN)/python
	rm -rf build/resolve
	$$(.ci/need --python) -m venv build/resolve
	build/resolve/bin/pip install --quiet '.[test]'
	build/resolve/bin/pip freeze --exclude sarameya > constraints.txt
	rm -rf build/resolve

clean:
	rm -rf build dist landing .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
