# All commands for Strata on one machine. `make help` lists it.
SHELL := bash
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
# Whose server the demo and `make up` have: mysql or mariadb. For ticdc the demo needs none, and `make up` has none.
FLAVOUR ?= mysql
export STRATA_FLAVOUR = $(FLAVOUR)
SOURCES := include dags scripts demo bench tests
EXTRAS := --extra compile --extra airflow --extra spark --extra checks --extra sql
COMPILE := .venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes
# Beside the other state, not in the system's folder for temporary files, which others clean.
export PYTEST_DEBUG_TEMPROOT = $(CURDIR)/.strata/tests
# If it is set, each process compiles all modules again: commands of half a second take one and a half.
unexport PYTHONDONTWRITEBYTECODE
# A file's tests share servers, so they stay together; the longest files come first as they are collected.
TOGETHER := --dist loadfile --no-loadscope-reorder
# Servers are waited for, so three processes keep two cores busy; unit tests wait for nothing.
IN_PARALLEL := -n 3 $(TOGETHER) -m "not soak"
UNIT := -m "not mysql and not redis and not spark and not airflow and not browser and not slow and not soak"
# `make check test` runs each test once: all of them with test, where unit tests run while others wait for a server.
BOTH := $(and $(filter check,$(MAKECMDGOALS)),$(filter test,$(MAKECMDGOALS)))

##@ Use it
.PHONY: setup demo up down status env airflow
setup: ## Install all that is needed into .venv and .strata; quick when nothing changed
	@scripts/setup.sh

demo: setup ## The main job on a real MySQL (or FLAVOUR=mariadb), Airflow and Spark: DDL first, rows read late, proof at the end
	@$(PYTHON) -m $(if $(filter ticdc,$(FLAVOUR)),tests.model.demo,scripts.demo)

up: setup ## Start MySQL and Airflow, and show the address of its web page
	@$(if $(filter ticdc,$(FLAVOUR)),echo "make up needs a server: FLAVOUR is mysql or mariadb" >&2; exit 2,$(PYTHON) -m scripts.fleet up)

down: ## Stop everything that `make up` or `make demo` started
	@if [ -x $(PYTHON) ]; then $(PYTHON) -m scripts.fleet down; fi

status: ## Show what runs
	@$(PYTHON) -m scripts.fleet status

env: ## For the shell, as in eval "$$(make env)": .venv/bin/strata then works on what `make up` started
	@$(PYTHON) -m scripts.fleet env

airflow: ## Any command of Airflow on what `make up` started: make airflow ARGS="dags list"
	@$(PYTHON) -m scripts.fleet airflow $(ARGS)

##@ Work on it
.PHONY: check format test bench soak fuzz site pictures lock clean help
check: setup ## Format, lint, types, layers, dead code, spelling, and the unit tests
	@scripts/check.sh $(SOURCES)
	@$(if $(BOTH),,$(PYTHON) -m pytest -q -p no:cacheprovider -n 2 $(TOGETHER) $(UNIT))

format: ## Format all code, and fix what ruff can fix
	@.venv/bin/ruff format $(SOURCES)
	@.venv/bin/ruff check -q --fix $(SOURCES)

test: $(if $(BOTH),check) ## Every test but those of `make soak`, on a real MySQL, Spark and Airflow, in three processes; CASE=path runs one
	@scripts/setup.sh tests
	@$(PYTHON) -m pytest $(or $(CASE),$(IN_PARALLEL))

bench: setup ## Rows per second beside mysqlbinlog, on the demo's kind of data
	@$(PYTHON) -m bench

soak: ## Tests that take minutes; fifty kills of a landing, with and without GTIDs, and of each work on mirrors; a group of three servers; an Airflow that is killed in parts; the wheel in older Airflows; then new examples of all properties, and random DDL on a real server, for MINUTES (10)
	@scripts/setup.sh tests
	@scripts/soak.sh $${MINUTES:-10}

fuzz: setup ## Damaged binlogs against every reader of them, for MINUTES (10); what is found is kept in .strata/fuzz
	@$(PYTHON) -m tests.changes.fuzz --minutes $${MINUTES:-10}

site: setup ## The documentation as a site in .strata/site, a folder for each version; a broken link fails it
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(PYTHON) -m mkdocs build --quiet --strict && echo "site: .strata/site/index.html"

pictures: setup ## Pictures of the pages for docs/, from the test of the demo, which reports when they are out of date
	@STRATA_PICTURES=docs/pictures $(PYTHON) -m pytest -q tests/airflow/test_demo.py

lock: ## Compile pyproject.toml to the locked requirements
	@$(COMPILE) pyproject.toml $(EXTRAS) -c scripts/lock.txt -o requirements.txt
	@$(COMPILE) pyproject.toml $(EXTRAS) --extra cache --extra lineage --group dev -c requirements.txt -o requirements-dev.txt
	@$(COMPILE) --group pyproject.toml:containers -c requirements.txt -o requirements-containers.txt && $(COMPILE) --group pyproject.toml:s3 -o requirements-s3.txt

clean: down ## Remove all state of the demo and of `make up`; the environment stays
	@find .strata -mindepth 1 -maxdepth 1 ! -name mysql ! -name redis ! -name valkey ! -name mysqlclient ! -name mariadb ! -name mariadb-10.11 ! -name s3 -exec rm -rf {} +

help: ## This list
	@awk -f scripts/help.awk $(MAKEFILE_LIST)
