# `make help` lists the targets.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c

GO        ?= go
MODULES   := schemas platform ingest projector query-api/client query-api discovery-worker webhook-sender deploy
BIN       := bin/muster
DATA_DIR  ?= .muster
SAMPLE    ?= 2000
# RACE=-race enables the race detector, as in CI.
RACE      ?=
# KAFKAS are the configurations of Apache Kafka of `make test-kafka`.
KAFKAS    ?= apache apache-sasl-ssl apache-mtls
# KAFKA_SEEDS is the number of seeds of `make chaos` that it also runs.
KAFKA_SEEDS ?= 4
# QUERIES and SEED are those of `make test-search`; SEED is the first one of `make property`, too.
QUERIES   ?= 5000
SEED      ?= 1
# SEEDS is how many times `make chaos` draws four faults, and how many histories `make property` draws.
SEEDS     ?= 20
# TESTS narrows `make test` to some packages: make test TESTS=./schemas/...
TESTS     ?= work
TESTFLAGS ?=

# PYTHON builds the environment of the tools of the Python client: Python 3.10 or newer.
PYTHON    ?= python3
PYRIGHT   := npm exec --yes --loglevel=error -- pyright@1.1.407
CLIENT_PY := .cache/client-py

GOTESTSUM := $(GO) run gotest.tools/gotestsum@v1.13.0
SPECTRAL  := npm exec --yes --loglevel=error -- @stoplight/spectral-cli@6.16.3
GOLANGCI  := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.DEFAULT_GOAL := help
.PHONY: help run build engine test test-kafka test-search test-redis bench lint fmt tidy generate clean chaos

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/muster
	$(GO) build -o $(BIN) ./deploy/cmd/muster

run: build ## start the whole platform with sample data and print curl lines
	$(BIN) up --data-dir $(DATA_DIR) --sample $(SAMPLE)

engine: ## fetch and unpack the embedded ClickHouse engine into the user's cache
	$(GO) run ./deploy/cmd/muster engine fetch

test: engine ## all tests that need no other server (RACE=-race for the race detector)
	$(GOTESTSUM) --format pkgname-and-test-fails $(GOTESTSUM_FLAGS) -- $(RACE) -timeout 30m $(TESTFLAGS) $(TESTS)

test-kafka: build ## the pipeline suites and KAFKA_SEEDS seeds of `make chaos` on Apache Kafka: plain, SASL_SSL, client certificates (needs Java 17, Maven)
	for kafka in $(KAFKAS); do \
		MUSTER_TEST_KAFKA=$$kafka $(GOTESTSUM) --format pkgname-and-test-fails $(GOTESTSUM_FLAGS) -- \
			-count=1 -short -timeout 20m -run 'TestPubSub|TestTopics|TestBatchConsumer|TestMessageR' $(TESTFLAGS) ./platform/bus; \
	done
	[ $(KAFKA_SEEDS) = 0 ] || { $(GO) build -o bin/muster-chaos ./deploy/chaos; bin/muster-chaos -apache -seeds $(KAFKA_SEEDS) $(CHAOSFLAGS); }

test-search: engine ## search compared with OpenSearch, QUERIES random queries (SEED=n for others; needs Java 17 and Maven)
	MUSTER_TEST_SEARCH=$(QUERIES) MUSTER_TEST_SEARCH_SEED=$(SEED) $(GOTESTSUM) --format standard-verbose $(GOTESTSUM_FLAGS) -- \
		-count=1 -timeout 1h -tags opensearch $(TESTFLAGS) ./query-api/internal/search/differential

# SEARCH_TESTS are the tests of the API that `make test-opensearch` runs with OpenSearch as the executor: those of search,
# but for those about the in-memory index.
SEARCH_TESTS := ^(TestSearch|TestSearch_(Order|UsesVersionBumps|InnerHits.*|InvalidScores.*|WalkReturns.*|ReturnsOrRejects|CursorOfSizeZero.*|CountsOfAddresses.*|ExcludesErased.*|ReportedCases.*|OpenSearch.*|AcceptsFields.*|MinScoreFilters.*|OfSeveralShards.*|DataAsOf.*|AggregationsHave.*|AggregationsAreThose.*|FromSkips.*|CollapseReturns.*|ScoresAreReturned|NamesOfMatching.*|HighlightMarks.*))$$
# OPENSEARCH_TESTS are the tests of muster with OpenSearch that it runs.
OPENSEARCH_TESTS := ^TestOpenSearch_
.PHONY: test-opensearch
test-opensearch: engine ## OpenSearch as the executor of searches: the API, kills, erasure, outages (needs Java 17 and Maven)
	$(GOTESTSUM) --format standard-verbose $(GOTESTSUM_FLAGS) -- -count=1 -timeout 40m -tags opensearch -run '$(SEARCH_TESTS)' $(TESTFLAGS) ./query-api
	$(GOTESTSUM) --format standard-verbose $(GOTESTSUM_FLAGS) -- -count=1 -timeout 40m -tags opensearch -run '$(OPENSEARCH_TESTS)' $(TESTFLAGS) ./deploy/e2e

.PHONY: opensearch
# PORT, DIR and SETTINGS (name=value ...) are those of `make opensearch`.
PORT     ?= 9200
DIR      ?=
SETTINGS ?=
opensearch: ## run a stock OpenSearch on 127.0.0.1 until Ctrl-C (needs Java 17 and Maven; PORT=n, DIR=folder keeps its data)
	$(GO) run ./platform/opensearchtest/cmd/opensearch -port $(PORT) -dir "$(DIR)" $(addprefix -setting ,$(SETTINGS))

test-redis: ## the suites of state shared by replicas on a Redis server (Debian's redis-server, downloaded if missing)
	files=$$(grep -rl '^//go:build redis$$' --include='*_test.go' query-api); \
	tests=$$(sed -n 's/^func \(Test[A-Za-z0-9_]*\)(t .*/\1/p' $$files | paste -sd '|'); test -n "$$tests"; \
	$(GOTESTSUM) --format pkgname-and-test-fails $(GOTESTSUM_FLAGS) -- -count=1 -timeout 10m -tags redis -run "^($$tests)\$$" $(RACE) $(TESTFLAGS) $$(dirname $$files | sort -u | sed 's|^|./|')

.PHONY: test-postgres
test-postgres: ## the bench's alternative on a PostgreSQL server (Debian's postgresql-15, downloaded if missing)
	$(GOTESTSUM) --format pkgname-and-test-fails $(GOTESTSUM_FLAGS) -- -count=1 -timeout 5m -tags postgres $(RACE) $(TESTFLAGS) ./deploy/bench/postgres

.PHONY: test-clickhouse
test-clickhouse: build engine ## the store's suites on an external server: CLICKHOUSE_DSN (http://USER:PASSWORD@HOST:PORT), or a `muster engine`
	work=$$(mktemp -d); engine=; trap '[ -z "$$engine" ] || { kill $$engine; wait $$engine || true; }; rm -rf "$$work"' EXIT; \
	if [ -z "$${CLICKHOUSE_DSN:-}" ]; then \
		MUSTER_ENGINE_PASSWORD=secret $(BIN) engine --data-dir "$$work" --clickhouse-addr 127.0.0.1:18123 >"$$work/log" 2>&1 & engine=$$!; \
		export CLICKHOUSE_DSN=http://muster:secret@127.0.0.1:18123; \
	fi; \
	MUSTER_TEST_CLICKHOUSE=env $(GOTESTSUM) --format pkgname-and-test-fails $(GOTESTSUM_FLAGS) -- -count=1 -short -timeout 20m \
		-skip '^(TestProjector_SurvivesKilledEngine|TestConnection_RecoversFromKilledEngine|TestReadDamage_FindsDamageTheServerEncountered)$$' $(TESTFLAGS) ./platform/clickhouse ./projector/... ./query-api

.PHONY: test-docs
test-docs: engine chromium ## /docs in headless Chromium (Debian's package, downloaded if missing; TESTFLAGS=-update takes new screenshots)
	$(GOTESTSUM) --format pkgname-and-test-fails $(GOTESTSUM_FLAGS) -- -count=1 -timeout 10m -tags browser -run TestBrowser ./deploy/e2e $(TESTFLAGS)

.PHONY: chromium spectral
chromium:
	command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null

spectral:
	$(SPECTRAL) --version >/dev/null

.PHONY: lint-api test-api
lint-api: ## lint the API description with spectral (fetched by npm: minutes the first time)
	$(SPECTRAL) lint --fail-severity=warn -r deploy/apitest/spectral.yaml query-api/openapi.yaml

test-api: build engine ## the API description: compared with the last release, and tested on a server with schemathesis (EXAMPLES=n; needs Python)
	EXAMPLES=$(or $(EXAMPLES),10) deploy/apitest/run.sh

.PHONY: docs-check
docs-check: engine $(CLIENT_PY)/test ## the documentation: links, commands in code blocks, tables and figures (needs Node, Python; minutes)
	$(GO) test -count=1 -run '^(TestDocs_|TestMetrics_)' ./deploy/cmd/muster
	$(GO) test -count=1 -run '^(TestPage|TestMeasured)' ./query-api/internal/search/clause ./query-api/internal/docs ./discovery-worker/internal/evaluate ./deploy/docs
	$(GO) test -count=1 -timeout 10m -tags docs -v -run '^(TestDocs_CodeBlocksRun|TestDocs_ScreenshotsAreCurrentAndUsed|TestDocs_SnippetsRun|TestBackupPage|TestUpgradePage|TestClientsPage|TestVerifySnippets)$$' ./deploy/e2e $(TESTFLAGS) | grep -v '^=== '

.PHONY: test-clients
test-clients: engine test-client-py ## the clients, the snippets of the guides, and Kafka clients in Python and JavaScript, on `muster up` (needs Node, Python)
	cd query-api/client-ts && npm ci --ignore-scripts --no-audit --no-fund --loglevel error && npm run --silent generate && npm run --silent build && npm test
	cd query-api/client-ts && npx --yes node@18.20.8 --test dist/test/client.test.js # the oldest supported version
	git diff --exit-code query-api/client-ts/src/schema.gen.ts
	$(GOTESTSUM) --format pkgname-and-test-fails $(GOTESTSUM_FLAGS) -- -count=1 -timeout 10m -tags clients -run "TestClients|Snippets" ./deploy/e2e $(TESTFLAGS)

.PHONY: test-client-py
test-client-py: $(CLIENT_PY)/test ## the Python client without a service: generated files, style, types, the oldest supported version, tests
	$(CLIENT_PY)/bin/python query-api/client-py/generate.py
	git diff --exit-code query-api/client-py/src/muster_client/{models,client}.py
	cd query-api/client-py && export PATH="$(CURDIR)/$(CLIENT_PY)/bin:$$PATH" PYTHONPATH=src && \
		ruff check --quiet && ruff format --quiet --check && mypy && \
		$(PYRIGHT) --pythonpath "$(CURDIR)/$(CLIENT_PY)/bin/python" && \
		vermin --quiet --target=3.9- --no-tips --eval-annotations src example && \
		python -m pytest

.PHONY: test-bulk
test-bulk: engine ## bulk jobs: 100,000 rows with kills in the middle, and the throughput beside the plain endpoint's (minutes; needs a quiet machine)
	MUSTER_E2E_BULK_ROWS=$(or $(ROWS),100000) MUSTER_E2E_BULK_RATIO=$(or $(RATIO),70) $(GO) test -count=1 -timeout 30m -tags bulk -v -run '^TestBulk_' ./deploy/e2e $(TESTFLAGS) | grep -v '^=== '

.PHONY: test-connect
test-connect: engine ## the code of connect.md: clickhouse-connect, DuckDB, JDBC, clickhouse-go (needs Python, Java 17, Maven)
	$(GOTESTSUM) --format pkgname-and-test-fails $(GOTESTSUM_FLAGS) -- -count=1 -timeout 10m -tags connect -run TestConnect_ ./deploy/e2e $(TESTFLAGS)

bench: build ## benchmarks compared with alternatives (PARTS="enrich footprint refresh" selects, PEOPLE=N is the size)
	$(GO) build -o bin/muster-bench ./deploy/bench
	bin/muster-bench $(if $(PARTS),-parts '$(PARTS)') $(if $(PEOPLE),-people $(PEOPLE)) $(BENCHFLAGS)

.PHONY: house
house: ## measure the house rules: private words, long lines, hand-written lines, folders of a capability, sizes of packages
	$(GO) run ./deploy/house

chaos: build ## fault injection: nothing is lost or duplicated (SEEDS=20; CHAOSFLAGS="-first 7 -only engine")
	$(GO) build -o bin/muster-chaos ./deploy/chaos
	bin/muster-chaos -seeds $(SEEDS) $(CHAOSFLAGS)

.PHONY: property
property: ## compare answers with brute force after random histories, kills, replays and erasures (SEEDS=20; SEED=1)
	MUSTER_E2E_SEED=$(SEED) MUSTER_PROPERTY_SEED=$(SEED) MUSTER_PROPERTY_RUNS=$(SEEDS) $(GOTESTSUM) --format testname $(GOTESTSUM_FLAGS) -- -count=1 -timeout 2h -run TestAnswers_EqualBruteForce ./projector/answers ./deploy/e2e $(TESTFLAGS)

.PHONY: chaos-clocks
chaos-clocks: ## fault injection with wall clocks that jump every two seconds (a separate build: minutes the first time)
	$(GO) build -o bin/muster-chaos ./deploy/chaos
	bin/muster-chaos -stepped bin/muster-stepped
	bin/muster-chaos -muster bin/muster-stepped -seeds $(SEEDS) $(CHAOSFLAGS)

lint: ## static analysis and the import rules
	$(GOLANGCI) run $(MODULES:%=./%/...)

fmt: ## format every Go file
	gofmt -w $(MODULES)

tidy: ## tidy every module, in dependency order
	for m in $(MODULES); do (cd $$m && $(GO) mod tidy); done
	$(GO) work sync # updates the modules to common versions, without go.sum
	for m in $(MODULES); do (cd $$m && $(GO) mod tidy); done

generate: $(CLIENT_PY)/generate ## regenerate generated files (needs Python)
	for m in $(MODULES); do (cd $$m && $(GO) generate ./...); done
	$(CLIENT_PY)/bin/python query-api/client-py/generate.py

$(CLIENT_PY)/generate: query-api/client-py/requirements-generate.txt
	$(PYTHON) -m venv --clear $(CLIENT_PY)
	$(CLIENT_PY)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

$(CLIENT_PY)/test: query-api/client-py/requirements.txt $(CLIENT_PY)/generate
	$(CLIENT_PY)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

clean: ## remove build output (not the data directory and the engine's cache)
	rm -rf bin dist

.PHONY: dist
dist: ## build dist/: tarball, .deb, .rpm, offline bundle, wheel of the Python client, checksums (minutes the first time)
	cd deploy/packages && GOWORK=off $(GO) run . $(DISTFLAGS)

.PHONY: test-packages
test-packages: engine ## install, run, upgrade and remove the .deb on this machine (Debian, root)
	cd deploy/packages && GOWORK=off $(GO) test -count=1 -timeout 20m -tags packages -v $(TESTFLAGS) ./...

.PHONY: eval-discovery
eval-discovery: engine ## precision, recall and calibration of discovery (EVALFLAGS='-people 6000 -seeds 101,102')
	$(GO) run ./discovery-worker/evaldiscovery $(EVALFLAGS)

.PHONY: test-webhook-js
test-webhook-js: ## webhook deliveries, verified by npm's standardwebhooks (needs Node and npm)
	cd webhook-sender/verifyjs && npm ci --ignore-scripts --no-audit --no-fund --loglevel error
	$(GOTESTSUM) --format pkgname-and-test-fails $(GOTESTSUM_FLAGS) -- -count=1 -timeout 5m -tags node -run JavaScript $(RACE) $(TESTFLAGS) ./webhook-sender

.PHONY: test-kubernetes
test-kubernetes: ## the Helm chart, rendered by Helm and decoded with the Kubernetes types (minutes the first time)
	cd deploy/kubernetes && GOWORK=off $(GOTESTSUM) --format pkgname-and-test-fails $(GOTESTSUM_FLAGS) -- -count=1 -timeout 5m $(TESTFLAGS) ./...

.PHONY: test-alerts
test-alerts: ## the alerts, evaluated by Prometheus' code (a minute or more the first time)
	cd deploy/compose/alerts && GOWORK=off $(GOTESTSUM) --format pkgname-and-test-fails $(GOTESTSUM_FLAGS) -- -count=1 -timeout 5m $(TESTFLAGS) ./...
