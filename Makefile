# Every target sets up what it needs. demo, stack: run-time packages in .venv-demo. The others: development packages in .venv,
# and Debian's programs in .tools for the tests.
BIN := .venv/bin

.PHONY: demo stack test dependencies trials check bench soak torture fuzz generate pictures golden lock audit release help clean setup

demo:  ## run the exporter on the built-in simulator; DEMO='--speed 10' passes flags
	@scripts/demo $(DEMO)

stack:  ## run the whole chain: five VMs, Prometheus, Alertmanager and the pages; SPEED=2 STACK=--free-ports, STACK=--victoria
	@scripts/stack $(STACK)

test: setup  ## run the static checks and every test; QUICK=1 unit and wire tests only; PYTEST='-k name' a part; COVERAGE=1; PYTHON=python3.13
	@scripts/test $(PYTEST)

dependencies: setup  ## run the unit and wire tests with VERSIONS=lowest or VERSIONS=newest permitted dependencies
	@scripts/dependencies "$(VERSIONS)" $(PYTEST)

trials: setup  ## run what plays for minutes or tests the tests, in short form: at most 40 minutes; TRIALS='--seed 7 -k fuzz'
	@scripts/trials $(TRIALS)

check: setup  ## run the static checks only: ruff, mypy, import-linter, generated files
	@scripts/check

bench: setup  ## figures beside their budgets into docs/performance.md, time to a page, rules of a fleet; 40 quiet minutes
	@scripts/tools node-exporter
	@PYTHONPATH=tests $(BIN)/python -m benchmarks.budgets --write || true
	@PYTHONPATH=tests $(BIN)/python -m benchmarks.paging
	@PYTHONPATH=tests $(BIN)/python -m benchmarks.fleet --engine prometheus --boards

soak: setup  ## run at fifty polls a second for MINUTES=60 and report what grows
	@PYTHONPATH=tests $(BIN)/python -m trials.load.soak --minutes $(or $(MINUTES),60) --write $(or $(WRITE),docs/images)

torture: setup  ## kills, power cuts, failing disks, collectors, IMDS, clocks, clients: up to an hour; TORTURE='--only kills --seed 7'
	@scripts/torture --write docs/fault-injection.md $(TORTURE)

fuzz: setup  ## break what reads documents, files and values with EXAMPLES=5000 made-up inputs for each property
	@scripts/fuzz $(FUZZ)

generate: setup  ## regenerate dashboards, alert rules, Alertmanager's configuration, and the chart's copies of them
	@$(BIN)/python -m alerts
	@$(BIN)/python -m dashboards
	@scripts/chart
	@scripts/status

pictures: setup  ## draw the pictures in docs/images anew: status page, dashboards, README; npm's packages the first time
	@scripts/pictures

golden: setup  ## regenerate the golden files and the counts of series in docs/fleet.md; review the difference
	@scripts/tools prometheus
	@$(BIN)/pytest -q tests/unit/metrics/test_exposition.py \
		tests/unit/web/report/test_report_of_events.py --update-golden
	@PYTHONPATH=tests $(BIN)/python -m support.monitoring.cardinality --update

lock: setup  ## pin requirements anew from the ranges in pyproject.toml; UPGRADE=1 takes newer versions, UPGRADE=NAME one
	@scripts/lock

audit:  ## ask for known vulnerabilities of what is pinned for run time; asks pypi.org
	@scripts/audit

release: setup  ## check that everything agrees about VERSION=1.2.3 and build it; TAG=1 makes the tag too
	@scripts/release "$$VERSION"

help:  ## show this
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup:
	@scripts/setup

clean:
	rm -rf .venv .venv-demo .tools .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build
