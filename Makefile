# STORE is one of zookeeper, etcd, consul and postgres; `make setup` without it takes all, `make demo` files. `make demo` and
# `make conformance` take the URL of a store, too.
STORE ?=
# SUITEFLAGS are further flags for the conformance suite, such as -run TestStore/crash for some of its cases; on PostgreSQL
# those of leadership conformance, such as --run=crash.
SUITEFLAGS ?=
# BENCHFLAGS are further flags for the benchmarks, such as -benchtime 10s.
BENCHFLAGS ?=
# PART is what `make quick` and `make test` test: folders such as store/etcd or contrib; all by default. For `make long` it is
# some of the parts that scripts/long names.
PART ?=
# NEEDS is what `make test` installs, see scripts/setup. A part needs less: make test PART=store/etcd NEEDS='compiler etcd'
NEEDS ?= compiler tmux haproxy prometheus systemd postgresql pgbouncer mariadb chromium zookeeper etcd consul
# SEEDS are the seeds of PART=simulation, ROUNDS the rounds of PART=chaos, FOR is how long PART=file takes.
SEEDS ?= 1-10000
ROUNDS ?= 1-20
FOR ?= 1h

# The library's module is built and tested without go.work, as an importer builds it. The command, the modules of contrib and
# the tools are built with go.work, so that they take the library from this clone.
LIBRARY = GOWORK=off go
STATICCHECK = go tool staticcheck

# All tests are run, but by make quick: see internal/lab/whole.
export LEADERSHIP_TESTS := all

.PHONY: help setup demo quick test long mutants conformance check vulnerabilities apidiff binaries bench

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' Makefile

setup: ## install what the tests need (Debian, as root); STORE=etcd for one store's server alone
	@./scripts/setup compiler tmux $(or $(STORE:postgres=postgresql),haproxy prometheus systemd postgresql pgbouncer mariadb chromium zookeeper etcd consul)

demo: ## show failovers on this machine; STORE=zookeeper, etcd, consul or postgres: on a real server; STORE='etcd://host:2379/?ttl=3s'
ifeq ($(filter-out file,$(STORE)),)
	@$(LIBRARY) run ./examples/failover/demo
else
	@$(if $(findstring ://,$(STORE)),,./scripts/setup $(STORE:postgres=postgresql))
	@$(if $(filter postgres%,$(STORE)),go run ./store/postgres/demo,$(LIBRARY) run ./examples/failover/demo/server) -store '$(value STORE)'
endif

quick: ## run the tests that need no server: 45 seconds; PART=internal for those in a folder
	@go run ./tools/testall -quick $(PART)

test: ## run the tests on real servers, most with the race detector: ten minutes after the build; PART=store/etcd for a folder
	@./scripts/setup $(NEEDS) || { printf '%s\n' "make quick runs the tests that need none of it, and, for example," \
		"make test PART='store/etcd conformance/cluster/etcd' NEEDS='compiler etcd' those of one store." >&2; exit 1; }
	@go run ./tools/testall $(PART)

long: ## run what takes hours, and go on where it was interrupted; PART=simulation SEEDS=1-1000
	@./scripts/long $(or $(PART),suspended every guardian simulation file chaos mutants)

mutants: ## change the core, the engine and package store in one place at a time: does a test notice? Takes hours, goes on as long does
	@./scripts/long mutants

conformance: ## run the conformance suite on a running cluster; STORE='etcd://host:2379/?ttl=3s'
	@$(if $(filter postgres%,$(STORE)),go run ./cmd/leadership conformance --store,$(LIBRARY) test -v -count=1 -timeout 2h ./conformance/servers -store)='$(value STORE)' $(SUITEFLAGS)

check: ## check format, vet, staticcheck, builds for other systems, and that each go.mod is tidy, in all modules
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w is needed for:"; echo "$$unformatted"; exit 1; } >&2
	$(LIBRARY) vet ./...
	go vet -tags mutants,timens work
	$(STATICCHECK) -tags mutants,timens $$(go list -m -f '{{.Path}}/...')
	for system in darwin windows freebsd linux/arm64; do export GOOS=$${system%/*} GOARCH=$${system#*/}; [ "$$GOOS" != "$$system" ] || unset GOARCH; \
		$(LIBRARY) build ./... && go build -o /dev/null ./cmd/leadership || exit 1; done
	./scripts/tidy

vulnerabilities: ## check what is linked against Go's database of vulnerabilities, which has to be reached
	go tool govulncheck $$(go list -m -f '{{.Path}}/...')

apidiff: ## print how the API differs from that of another revision: BASE=v0.1.0
	@./scripts/apidiff '$(BASE)'

binaries: ## build the command for each system into dist, with checksums
	@./scripts/binaries

bench: ## run the benchmarks; BENCHFLAGS="-benchtime 10s"
	$(LIBRARY) test -run '^$$' -bench . $(BENCHFLAGS) ./...
	go test -run '^$$' -bench . -timeout 2h $(BENCHFLAGS) ./internal/lab/bench/postgres ./cmd/leadership/servers

export SEEDS ROUNDS FOR
