# One-word verbs. `make` alone lists them.
#
# What is in .venv is called by its path: GNU make 3.81, which macOS has, looks for the command of a line that needs no shell
# in the PATH that make was started with. SAM and other programs look for Python in the exported one.
PYTHON ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export SAM_CLI_TELEMETRY := 0

.PHONY: help install demo up down test check states prove model mutants mutants-python sfn-local test-sfn-local test-node-engine test-aws bench bench-full bench-bursts lint checkov format build fence wheels package deploy lock clean

help: ## List the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: .venv/installed ## Install everything into .venv

.venv/installed: requirements.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON): install Python 3.11 or newer, or say PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is too old: Python 3.11 or newer is needed, say PYTHON=..." >&2; exit 1; }
	@echo "Installing into .venv (about a minute) ..." >&2
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: install ## Show the problem and the solution: make demo [POLICY=latest-wins]
	@$(BIN)/inorder demo $(if $(POLICY),--policy "$(POLICY)") $(if $(PORT),--port "$(PORT)")

up: install ## Start a local AWS with the stack on it: make up [PORT=4566] [POLICY=latest-wins]
	@$(BIN)/inorder up $(if $(PORT),--port "$(PORT)") $(if $(POLICY),--policy "$(POLICY)")

down: install ## Stop it again
	@$(BIN)/inorder down

# Of a wrong edit of an ASL file that the check does not find, TestState names the state within half a minute.
# Then the other tests run, the quick ones first; ten failures are enough to see what a wrong edit broke. The tests with a
# local AWS wait much, for locks and schedules: five at a time keep two cores busy, and those that wait longest begin first.
# What the model has searched is not searched again on the same files, except by CI and at night.
# The tests of the web page get a browser. Without one, the last line says why they did not run, and CI fails.
PYTEST = $(BIN)/python -m pytest --maxfail 10
WAITING = tests/aws tests/stack/test_recovery.py tests/stack/test_try.py
QUICK = tests/unit tests/template tests/policies --ignore tests/policies/test_states.py
SLOW = tests/console tests/proof $(filter-out $(WAITING),$(wildcard tests/stack/test_*.py))
PAGE = tests/console/test_views.py

test: install ## Run the tests, the quick ones first: make test [NIGHT=1], which runs them in full
	@$(MAKE) --no-print-directory --jobs 2 check states
	@missing=$$($(BIN)/python -m tests.support.browser $(PAGE)) || exit 1; \
	$(if $(CI)$(NIGHT),,ONCE=1) $(PYTEST) -n 5 --dist loadfile --no-loadscope-reorder $(WAITING) $(QUICK) $(SLOW) $${missing:+--ignore $(PAGE)} || exit 1; \
	if [ "$$missing" ]; then echo "$$missing"; [ "$$CI" != true ]; fi

check: install
	@$(BIN)/inorder check statemachine/*.asl.json examples/content_hash/*.asl.json
	@$(BIN)/inorder check --standard examples/long_job/*.asl.json

states: install
	@$(PYTEST) tests/policies/test_states.py

# The quick parts first. pytest exits with 5 if none of the tests is about the policy.
STEM = $(subst -,_,$(POLICY))
TABLE = tests/policies/$(STEM)/cases.py
ABOUT = $(BIN)/python -m pytest -qq -n 2 --maxfail 5 --tb short --policy "$(POLICY)"
# CONTRIBUTING.md has the same on one page, under "You added or changed".
HINT = || { test $$? = 5 || { echo "$(1)" >&2; exit 1; }; }

prove: install ## Run all that is known about one policy, in minutes: make prove POLICY=name
	@test -n "$(POLICY)" || { echo "Say which policy: make prove POLICY=name" >&2; exit 1; }
	$(BIN)/inorder check "$$($(BIN)/python -c 'import sys; from inorder.model.policies import asl_file; print(asl_file(sys.argv[1]))' "$(POLICY)")"
	$(ABOUT) tests/policies/test_states.py $(call HINT,Either the ASL file is wrong or $(TABLE) must say what the state now does: its CHOICES or TRANSITIONS and its OUTPUTS and WRITES.)
	$(ABOUT) tests/policies tests/template $(addprefix --ignore tests/policies/test_,states.py engines.py recipes.py) \
	$(call HINT,If the policy now promises something else: change STORIES or SECONDS of $(TABLE) or its facts in statemachine/policies.toml (and run inorder policy tables). A state that calls another service needs an action in template.yaml.)
	$(ABOUT) tests/policies/test_engines.py $(call HINT,An engine understands the ASL file otherwise: write that state in another way.)
	$(ABOUT) tests/proof/model $(call HINT,The trace shows how promise.py is broken. A new state in which the work begins must have its name in holding there. A Breakage must replace what the file has.)
	$(BIN)/python -m tests.proof.mutants "$(POLICY)" $(call HINT,Add a case for what SURVIVES to $(TABLE) or give the reason in survivors of CASES there.)

model: install ## Explore the longer scenarios with the model checker
	@MODEL=1 $(BIN)/python -m pytest -n 2 --dist worksteal --timeout 3600 tests/proof/model

mutants: install ## Break the state machines in every small way: a test must fail each time
	@$(BIN)/python -m tests.proof.mutants

MUTMUT = cd out/mutmut && "$(abspath $(BIN))/mutmut"
# Of 1,933 mutants 56 survived: texts for people, defaults that nobody needs, and the one instant of a comparison.
SURVIVORS = 60

mutants-python: install ## Break the fence, the retries and the sweep in every small way with mutmut: a test must fail each time
	@rm -rf out/mutmut && mkdir -p out/mutmut
	@cp -R functions out/mutmut/src && cp -R tests pyproject.toml out/mutmut
	@$(MUTMUT) run --max-children 2
	@$(MUTMUT) results > survivors.txt && cat survivors.txt && test "$$(wc -l < survivors.txt)" -le $(SURVIVORS)

sfn-local: install ## Start AWS's Step Functions Local, and a local AWS behind it, in Docker
	@docker compose version >/dev/null 2>&1 || { echo "There is no docker compose, which Step Functions Local needs: install Docker." >&2; exit 1; }
	@docker compose up --wait

test-sfn-local: install ## Run the stories on Step Functions Local
	@SFN_LOCAL_ENDPOINT=http://127.0.0.1:8083 AWS_ENDPOINT_URL=http://127.0.0.1:4566 $(BIN)/python -m pytest tests/policies/test_engines.py

# The engine has an exact version, and what else npm installs is of that date.
NODE_ENGINE = out/node-engine
NODE_PACKAGES = aws-local-stepfunctions@3.0.0 $(addprefix @aws-sdk/client-,dynamodb eventbridge lambda sqs)

test-node-engine: install ## Run the stories on aws-local-stepfunctions, which npm installs
	@command -v npm >/dev/null || { echo "There is no npm, which gets aws-local-stepfunctions: install Node.js." >&2; exit 1; }
	@npm install --loglevel error --prefix "$(NODE_ENGINE)" --no-save --no-package-lock --before 2026-11-20 $(NODE_PACKAGES)
	@NODE_ENGINE="$(CURDIR)/$(NODE_ENGINE)/node_modules" $(PYTEST) -n 2 --dist worksteal tests/policies/test_engines.py

test-aws: $(if $(LOCAL)$(REMOVE),install,build) ## Try on AWS what no local engine can tell, in an hour: make test-aws [REGION=...] [REMOVE=name] [LOCAL=1]
	@$(BIN)/python -m tests.aws $(if $(LOCAL),--local) $(if $(REGION),--region "$(REGION)") $(if $(REMOVE),--remove "$(REMOVE)")

BENCH = $(BIN)/python -m bench $(WORKLOADS:%=--workload %) $(CONTENDERS:%=--contender %) $(if $(RUNS),--runs "$(RUNS)")

bench: install ## Compare the contenders, in a small size: make bench [WORKLOADS="gap burst"] [CONTENDERS="inorder sqs-fence"] [RUNS=1]
	@$(BENCH)

bench-full: RUNS = 3
bench-full: install ## Measure in full size, in hours, what bench/results.json lacks: make bench-full [WORKLOADS=...] [CONTENDERS=...] [RUNS=3]
	@$(BENCH) --full

bench-bursts: install ## Simulate 100,000 uploads at once, and write bench/bursts.json: make bench-bursts [POLICY=latest-wins]
	@$(BIN)/python -m bench.bursts $(POLICY)

lint: install check ## Check code, types, ASL and template
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/oxlint --deny correctness --allow no-control-regex --ignore-pattern inorder/console/page/vendor inorder/console/page tests/policies
	@for template in template.yaml $(wildcard examples/*/template.yaml); do \
	AWS_DEFAULT_REGION=us-east-1 $(BIN)/sam validate --lint --template-file $$template || exit 1; done

# checkov wants other versions of boto3 and networkx than the project, so it has an environment of its own, of what there was at that date.
checkov: install ## Check the template of every policy and condition with checkov
	@$(BIN)/python -m tests.template.checkov "$(CURDIR)/$(BIN)/uv" tool run --quiet --python $(PYTHON) --exclude-newer 2026-11-20 checkov@3.3.30

format: install ## Format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# `sam build` leaves Python's bytecode out, so that each cold start would compile every module. It does not depend on the
# machine (https://docs.python.org/3/tutorial/modules.html#compiled-python-files), and Python ignores that of another
# version or source. SAM's zip has no dates, so a hash says which source it is of.
BYTECODE = $(BIN)/uv run --no-project --python 3.13 python -m compileall -q --invalidation-mode checked-hash -s .aws-sam/build .aws-sam/build

build: install fence wheels ## Build the functions for Lambda, with any Python on this machine, and the packages
	$(BIN)/sam build
	@$(BYTECODE) || echo "There is no Python 3.13 for the bytecode: the functions work, and start more slowly." >&2

FENCE = out/fence

fence: install ## Build the fence's package: a wheel, and a Lambda layer, in out/fence
	@rm -rf "$(FENCE)"
	@cd functions/inorder_fence && $(abspath $(BIN))/python -m hatchling build --target wheel --directory "$(abspath $(FENCE))"
	@cd "$(FENCE)" && $(abspath $(BIN))/python -m zipfile --extract *.whl python && $(abspath $(BIN))/python -m zipfile --create inorder_fence_layer.zip python && rm -r python

WHEELS = out/wheels

wheels: install ## Build the package of the commands, in out/wheels
	@rm -rf "$(WHEELS)"
	@$(BIN)/python -m hatchling build --target wheel --directory "$(abspath $(WHEELS))"

# What is built for Lambda fails on the local AWS, to which `make up` points a shell.
TARGET = $(BIN)/python -m inorder.commands.target

package: install ## Write out/packaged.yaml, with its artifacts in a bucket, for other templates: make package BUCKET=name
	@test -n "$(BUCKET)" || { echo "Say which bucket: make package BUCKET=name" >&2; exit 1; }
	@$(TARGET)
	@$(MAKE) --no-print-directory build
	@mkdir -p out
	$(BIN)/sam package --s3-bucket "$(BUCKET)" --output-template-file out/packaged.yaml

# sam takes an empty value only with quotes. No value may end with an equals sign.
deploy: install ## Deploy to AWS, as samconfig.toml says: make deploy [PARAMETERS="Policy=latest-wins KeyPrefix=pictures/"]
	@$(TARGET)
	@$(MAKE) --no-print-directory build
	$(BIN)/sam deploy $(if $(PARAMETERS),--parameter-overrides $(patsubst %=,%=\"\",$(PARAMETERS)))

lock: install ## Update the locked versions, and check what the tests use of moto and ministack beside their interfaces
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --extra console --extra local --group dev pyproject.toml --output-file requirements.txt
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.13 --python-platform aarch64-manylinux_2_34 --generate-hashes --no-header --group pyproject.toml:functions --constraint requirements.txt --output-file functions/requirements.txt
	@$(MAKE) --no-print-directory install
	@$(BIN)/python -m pytest -q tests/unit/test_private_parts.py

clean: ## Remove what was installed, built and written
	@if [ -x $(BIN)/inorder ]; then $(BIN)/inorder down; fi
	rm -rf .venv .aws-sam out .mypy_cache .pytest_cache .ruff_cache
