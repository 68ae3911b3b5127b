# The front door. Everything here is a thin call of a script or a tool; `make help` says what there is.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

PG_MAJOR  := 15
MAJORS    ?= 17 18
MAJOR_E2E ?= Definitions|EnginesAgree|Ladder|ComesBack
PG_CONFIG ?= /usr/lib/postgresql/$(PG_MAJOR)/bin/pg_config
# Evaluated when used: before setup the user of the servers may not exist.
STATE      = $(shell scripts/state-dir)
PGTREE     = $(STATE)/pg
CHAINIFY  := $(CURDIR)/build/chainify
WORKER    := $(CURDIR)/analytics/target/release/chainify-analytics
CARGO     ?= cargo
GO        ?= go
PURE      := -p chainify-agreement -p chainify-codec -p chainify-dialect -p chainify-ledger -p chainify-rules -p chainify-sched -p chainify-seeded -p chainify-snapshot -p chainify-sqltext -p chainify-worker -p chainify-xof

export PGRX_PG_CONFIG_PATH := $(PG_CONFIG)
# Whatever ends one of these, a kill of make too, its servers, nodes and temporary directories go with it.
demo test test-% check-deploy check-explorer trapcheck fuzz fuzz-few e2e e2e-few schedules applications soak soak-long steady years tamper bench: SHELL := $(CURDIR)/scripts/leave-nothing /bin/bash
# Each Go module is built by its own go.mod; the workspace is for `go run ./bench` and for editors.
export GOWORK := off

## setup: install the Debian packages that are missing; check Go and Rust
.PHONY: setup
setup:
	@scripts/setup

## build: the extension (target/release) and the node (build/chainify)
.PHONY: build build-extension build-node
build: build-extension build-node
build-extension: setup
	$(CARGO) build --release --locked -p chainify
build-node: setup
	@cd abci && ../scripts/progress '$(call STEP,2)node' '3 minutes' $(GO) build -o $(dir $(CHAINIFY)) $(GO_LINK) ./cmd/chainify $(BESIDE_NODE)

## build-cometbft: CometBFT's own program, unchanged, of the version that the node has in it (build/cometbft), for `chainify app`
COMETBFT := $(CURDIR)/build/cometbft
.PHONY: build-cometbft
build-cometbft: setup
	cd abci && $(GO) build -o $(COMETBFT) github.com/cometbft/cometbft/cmd/cometbft

## build-hsm: the key holder for PKCS#11 tokens (build/chainify-hsm), which needs a C compiler
.PHONY: build-hsm test-hsm
HSM := $(CURDIR)/build/chainify-hsm
build-hsm: setup
	cd hsm && CGO_ENABLED=1 $(GO) build -o $(HSM) .

## test-hsm: keys in SoftHSM 2, which is installed from Debian: the token's tests, and a network of which one organisation has both keys there
test-hsm: pgtree build-node build-hsm
	@scripts/setup-hsm
	cd hsm && $(GO) test -count=1 ./...
	cd abci && CHAINIFY_E2E=1 CHAINIFY_E2E_PG=$(PGTREE) CHAINIFY_E2E_BIN=$(CHAINIFY) CHAINIFY_E2E_HSM=$(HSM) \
		../scripts/leave-nothing $(GO) test -count=1 -timeout 1h -v ./e2e -run InAToken

## build-analytics: the analytics worker (analytics/target/release/chainify-analytics); DataFusion takes long to compile
.PHONY: build-analytics
build-analytics: setup
	@cd analytics && ../scripts/progress '$(call STEP,3)analytics worker' 'half an hour' $(CARGO) build --release --locked

## pgtree: a private PostgreSQL with the extension, and its switches for tests, under .chainify/pg; nothing of the system is touched
# The profile of Cargo.toml for the demo and tests. Measurements take the release.
PROFILE = quick
bench steady years: PROFILE = release
.PHONY: pgtree
pgtree: setup
	@scripts/progress '$(call STEP,1)extension' '4 minutes' $(CARGO) build --profile=$(PROFILE) --locked -p chainify --features test-switches
	@PROFILE=$(PROFILE) scripts/pgtree $(PGTREE)

## install: install the results of `make build`, and of `make build-analytics` where it was run, in this system (for operators; as root, who needs no Go or Rust; DESTDIR= and PREFIX= for packages)
PREFIX ?= /usr/local
.PHONY: install
install:
	@test -x $(CHAINIFY) || { echo 'install: $(CHAINIFY) is missing; run make build first, as an ordinary user' >&2; exit 1; }
	SHIPPED=1 DESTDIR=$(DESTDIR) scripts/install-extension $(PG_CONFIG)
	install -D -m 755 $(CHAINIFY) $(DESTDIR)$(PREFIX)/bin/chainify
	if [ -x $(WORKER) ]; then install -s -D -m 755 $(WORKER) $(DESTDIR)$(PREFIX)/bin/chainify-analytics; fi

## dist: a tarball of the results of `make build` and `make build-analytics`, documents and chart, to unpack and install without Go and Rust (build/dist); ANALYTICS=0: without the worker, whose first build takes long
.PHONY: dist
dist: build $(if $(filter 0,$(ANALYTICS)),,build-analytics)
	@scripts/dist $(CHAINIFY) $(PG_CONFIG) $(if $(filter 0,$(ANALYTICS)),,$(WORKER))

## packages: packages for Debian and for Red Hat's family of the results of `make build` and `make build-analytics` (build/packages); ANALYTICS=0: without the worker
.PHONY: packages test-packages
# Neither debuggers' tables nor the paths of whoever builds are in what is shipped.
packages test-packages: GO_LINK = -trimpath -ldflags='-s -w'
packages: build $(if $(filter 0,$(ANALYTICS)),,build-analytics)
	@scripts/packages $(CHAINIFY) $(PG_CONFIG) $(if $(filter 0,$(ANALYTICS)),,$(WORKER))

## test-packages: the packages installed, run, and removed in a bootstrapped Debian without compilers (as root)
test-packages: packages
	@scripts/test-packages $(CHAINIFY) $(PG_CONFIG)

## pin-images: pin the bases of the images by the digests that they have now (for a release; needs docker)
.PHONY: pin-images
pin-images:
	@scripts/pin-images

## demo: four organisations, Smallbank, a tampered row found and repaired (ONCE=1 ends after the report). The analytics worker, where it was built, answers queries at a block beside the load; ANALYTICS=1 builds it, which takes long the first time, and 0 leaves it out. ENGINES=mixed: two of the four keep a MariaDB
.PHONY: demo
DEMO_WORKER = $(if $(filter 1,$(ANALYTICS)),$(WORKER),$(if $(filter mixed,$(ENGINES))$(filter 0,$(ANALYTICS)),,$(wildcard $(WORKER))))
# One call of the compiler for both programs; -w leaves out debuggers' tables.
demo: BESIDE_NODE = ./e2e/cmd/demo
demo: GO_LINK = -ldflags=-w
demo: STEPS = $(if $(filter 1,$(ANALYTICS)),4,3)
STEP = $(if $(STEPS),[$(1)/$(STEPS)] )
demo: pgtree build-node $(if $(filter 1,$(ANALYTICS)),build-analytics)
	@$(if $(filter mixed,$(ENGINES)),scripts/setup-mariadb)
	@echo '$(call STEP,$(STEPS))four organisations: a minute'
	@exec build/demo $(if $(filter mixed,$(ENGINES)),-mixed) -pg $(PGTREE) -chainify $(CHAINIFY) -dir $(STATE)/demo -scripts $(CURDIR)/scripts/smallbank $(if $(DEMO_WORKER),-analytics $(DEMO_WORKER))

## check: format, lints, plain English, seams between the parts
.PHONY: check
check: setup
	@scripts/check

## check-advisories: dependencies in the databases of advisories (govulncheck and cargo-audit, which are built first); needs the network. ADVISORY_DB=DIR: a copy of RustSec's
.PHONY: check-advisories
check-advisories: setup
	@scripts/check-advisories

## check-deploy: alert rules, the chart, compose file, the database image's entry point (as root)
.PHONY: check-deploy
check-deploy: pgtree
	@scripts/check-deploy $(PGTREE)

## check-cluster: the chart against a real Kubernetes API server, which is built first (a quarter of an hour, once) and runs here
.PHONY: check-cluster
check-cluster: setup
	@scripts/check-cluster

## check-images: build the images, and run the compose file's consortium from them in Debian's podman, with the chart's backup (a quarter of an hour; as root); KEEP=1: keeps layers
.PHONY: check-images
check-images: setup
	@scripts/check-images

## check-store: digests in a real S3-compatible store, which is built first (minutes, once) and runs here
.PHONY: check-store
check-store: setup
	@scripts/check-store

## check-kernel: Linux 6.1 with the system call vm_snapshot, built here (an hour, once; minutes on a quiet machine), and its tests in an emulator; SEED=n for its random steps
.PHONY: check-kernel
check-kernel: setup
	@scripts/check-kernel

## check-majors: compile the extension for PostgreSQL 16, 17 and 18 too (no tests run there)
.PHONY: check-majors
check-majors: setup
	@scripts/check-majors

## test-majors: the tests of SQL, sessions and backend, networks of both majors and pg_upgrade with each of MAJORS (17 18) beside 15. Then networks of all of them. MAJOR_E2E=. takes all tests of networks. As root, for root directories of newer Debian releases
.PHONY: test-majors
test-majors: pgtree build-node build-cometbft
	@scripts/setup-mariadb
	$(foreach major,$(MAJORS),$(call TEST_MAJOR,$(STATE)/pg$(major),$(major)))
	$(if $(word 2,$(MAJORS)),$(call NETWORKS_OF_MAJORS,$(PGTREE),$(subst $(space),:,$(foreach major,$(MAJORS),$(STATE)/pg$(major)))))

define TEST_MAJOR
	@scripts/setup-major $(2)
	scripts/regress $(1)
	extension/tests/socket/run $(1)
	scripts/test-pg-upgrade $(PGTREE) $(1)
	scripts/with-postgres $(1) bash -c 'cd abci && $(GO) test -count=1 -timeout 4h ./backend/postgres'
	$(call NETWORKS_OF_MAJORS,$(1),$(PGTREE))

endef

# The organisations of each network take the first tree and the others in turn. The first
# organisation, which most tests talk to, has the first tree.
define NETWORKS_OF_MAJORS
cd abci && CHAINIFY_E2E=1 CHAINIFY_E2E_PG=$(1) CHAINIFY_E2E_OTHER_PG=$(2) CHAINIFY_E2E_BIN=$(CHAINIFY) CHAINIFY_E2E_COMETBFT=$(COMETBFT) \
		$(GO) test -count=1 -timeout 4h -parallel 2 ./e2e -run '$(MAJOR_E2E)' -v
endef

space := $(subst ,, )

## check-cometbft: compile the node with the release of CometBFT before the pinned one
.PHONY: check-cometbft
check-cometbft: setup
	@scripts/check-cometbft

## test-rust: unit and property tests of the pure crates, every decoder fuzzed for a moment
.PHONY: test-rust
test-rust: setup
	$(CARGO) test --locked $(PURE)
	@scripts/fuzz-rust

# These packages and their tests start no goroutine (scripts/check-seams), so the race detector would find nothing there.
CALM      := ./archive ./audit ./canonical ./model ./portable ./turns

# The nodes of these tests are those of ./node, which the race detector sees there. Under it they would miss CometBFT's timeouts, and take minutes.
TIMED     := ./sim

## test-go: unit, property and conformance tests of the node but for the long ones
.PHONY: test-go
test-go: pgtree
	@scripts/with-postgres $(PGTREE) bash -c 'cd abci && ../scripts/go-test ./... -- -short -timeout 4h'

## test-race: all tests of the node under the race detector, an upgrade of the protocol, every decoder fuzzed for a moment
.PHONY: test-race
test-race: pgtree
	@scripts/with-postgres $(PGTREE) bash -c 'cd abci && ../scripts/go-test $$($(GO) list ./... | grep -vxF "$$($(GO) list $(CALM) $(TIMED))") -- -race -timeout 4h && $(GO) test -timeout 4h $(CALM) && ../scripts/go-test $(TIMED) -- -timeout 4h'
	@$(MAKE) --no-print-directory test-upgrade
	@scripts/fuzz-decoders

## test-upgrade: a synthetic next version of the protocol, which no release contains: four organisations upgraded one by one
.PHONY: test-upgrade
test-upgrade:
	@cd abci && $(GO) test -count=1 -tags synthetic_next -timeout 4h ./wire ./app ./audit ./node -run 'Version|Upgraded'

## test-update: databases and a network of release 0.1.0, which is built first (minutes, once), go on with this version; test-extension contains the part without that release
FORMER = $(STATE)/0.1.0
.PHONY: test-update
test-update: pgtree build-node
	@scripts/former-release $(FORMER)
	scripts/test-update $(PGTREE) $(FORMER)
	scripts/test-update-network $(PGTREE) $(CHAINIFY) $(FORMER)

## test-mariadb: the conformance suite against a private MariaDB, which is installed from Debian when it is missing; random blocks there and in PostgreSQL
.PHONY: test-mariadb
test-mariadb: pgtree
	@scripts/setup-mariadb
	@scripts/with-mariadb scripts/with-postgres $(PGTREE) bash -c 'cd abci && ../scripts/go-test ./backend/mariadb -- -count=1 -timeout 4h'

## test-bench: parts of the benchmarks, and those of one database, tiny; WHOLE=1: those of whole networks too
.PHONY: test-bench
# Servers of two benchmarks at once would take each other's time: one package after the other.
test-bench: pgtree
	@$(if $(WHOLE),scripts/setup-mariadb)
	@scripts/with-postgres $(PGTREE) bash -c 'cd bench && ../scripts/go-test ./... -- -p 1 $(if $(WHOLE),-timeout 4h,-short -timeout 4h)'

## fuzz-decoders: every decoder, in Rust and in Go, with random inputs, FUZZ_RUNS (5000000) times each
FUZZ_RUNS ?= 5000000
.PHONY: fuzz-decoders
fuzz-decoders: setup
	@scripts/fuzz-rust $(FUZZ_RUNS)
	@scripts/fuzz-decoders $(FUZZ_RUNS)

## check-explorer: the web pages in Chromium (installed from Debian when it is missing; not run where it cannot be)
.PHONY: check-explorer
check-explorer: pgtree
	@scripts/check-explorer $(PGTREE)

## installcheck: test-sql, then test-extension
.PHONY: installcheck
installcheck: test-sql test-extension

## test-sql: pg_regress and isolation tests of the extension in a private cluster; those of COMPARED run with each block in other sessions too
COMPARED := sessions frozen_time functions planned plain_sql row_locks agreement alike attach block call calls declared deploy_bodies deploy_rewrites digest effect_hashes \
	execute executor_states groups machine parallel_effects pinned plans prepared repair repair_by_key repair_partitions restore sequences stat stored_values value_settings \
	verify views
.PHONY: test-sql
test-sql: pgtree
	SESSIONS=0 scripts/regress $(PGTREE) $(filter-out setup $(COMPARED),$(sort $(basename $(notdir $(wildcard sql/*.sql specs/*.spec)))))
	scripts/regress $(PGTREE) $(COMPARED)

## test-sessions: the SQL tests that test-sql runs in one session alone, with each block in other sessions too; blocks that these cannot execute, in a second database. Half the tests beside the other half
ALONE = $(filter-out setup $(COMPARED),$(sort $(basename $(notdir $(wildcard sql/*.sql)))))
# Every second one, so that both halves take about as long.
half  = $(shell echo $(ALONE) | tr ' ' '\n' | sed -n '$(1)~2p')
.PHONY: test-sessions test-sessions-1 test-sessions-2
test-sessions: pgtree
	@scripts/stages 'test-sessions-1 & test-sessions-2'
test-sessions-1 test-sessions-2:
	SESSIONS=2 scripts/regress $(PGTREE) $(call half,$(patsubst test-sessions-%,%,$@))

## test-extension: the extension beside its neighbours: the explorer's SQL among traps, sessions at a node's socket, the update from release 0.1.0, random queries for an analytics worker
.PHONY: test-extension
test-extension: pgtree
	TRAPS=1 scripts/with-postgres $(PGTREE) bash -c 'cd abci && ../scripts/go-test ./explorer -- -count=1 -timeout 4h'
	extension/tests/socket/run $(PGTREE)
	scripts/test-update $(PGTREE)
	extension/tests/analytics/run $(PGTREE) --queries 3000

## trapcheck: SQL tests among operators and functions that no own SQL may call (extension/tests/traps); a part of it is in test-traps and test-extension
TRAPPED := agreement attack_rights deploy_bodies deploy_sequences repair restore scrub sequences verify
.PHONY: trapcheck
trapcheck: pgtree
	TRAPS=1 scripts/regress $(PGTREE)
	TRAPS=1 scripts/with-postgres $(PGTREE) bash -c 'cd abci && $(GO) test -count=1 -timeout 4h ./explorer ./backend/postgres'

## test-traps: those of trapcheck that meet most of the extension's own SQL
.PHONY: test-traps
test-traps: pgtree
	TRAPS=1 scripts/regress $(PGTREE) $(TRAPPED)

## test-analytics: the analytics worker's own tests, which compile DataFusion first (once), and the worker beside a real database: faults, random queries, also in a database of other letters
DEBUG_WORKER := analytics/target/debug/chainify-analytics
.PHONY: test-analytics build-analytics-tests
test-analytics: pgtree
	cd analytics && $(CARGO) test --locked --workspace
	cd analytics && $(CARGO) build --locked
	extension/tests/analytics/run $(PGTREE) --queries 1000 --worker $(DEBUG_WORKER)
	extension/tests/analytics/run $(PGTREE) --queries 400 --worker $(DEBUG_WORKER) --only queries
	extension/tests/analytics/run $(PGTREE) --queries 200 --worker $(DEBUG_WORKER) --only queries --letters en-US

# What test-analytics compiles, with the time that processors have left. The libraries are fetched first, since others wait for cargo's lock of them.
build-analytics-tests: setup
	cd analytics && $(CARGO) fetch --quiet --locked --target "$$(rustc -vV | sed -n 's/^host: //p')"
	cd analytics && chrt --idle 0 $(CARGO) test --locked --workspace --no-run
	cd analytics && chrt --idle 0 $(CARGO) build --locked

## fuzz: random blocks on random schemas in databases of different physical form, for FUZZ_SECONDS (600), from SEED (the day's)
FUZZ_SECONDS ?= 600
.PHONY: fuzz
fuzz: pgtree
	extension/tests/fuzz/run $(PGTREE) --seconds $(FUZZ_SECONDS)

## fuzz-few: the random blocks that test-all runs: 600 or some more, from SEED (the day's)
.PHONY: fuzz-few
fuzz-few: pgtree
	extension/tests/fuzz/run $(PGTREE) --seconds 0 --cases 600

## e2e: networks of real databases and nodes, then the short set of faults under load
.PHONY: e2e
e2e: pgtree build-node build-cometbft build-faults
	@scripts/setup-mariadb
	cd abci && CHAINIFY_E2E=1 CHAINIFY_E2E_PG=$(PGTREE) CHAINIFY_E2E_BIN=$(CHAINIFY) CHAINIFY_E2E_COMETBFT=$(COMETBFT) \
		../scripts/go-test ./e2e -- -count=1 -timeout 4h -parallel 2 -v
	$(FAULTS) run -v $(FAULTS_AT) abci/e2e/faults/manifests/*.toml

## e2e-few: some of these networks, of PostgreSQL alone: the tutorial, plain SQL, attacks, recovery, a take-over
E2E_FEW := Tutorial|TestPlainSQL$$|ATakeOverConvictsNobody|AttacksAndRestores|LadderOfRecovery|DefaultsOfAServer|PgbenchRuns
.PHONY: e2e-few
e2e-few: pgtree build-node
	cd abci && CHAINIFY_E2E=1 CHAINIFY_E2E_PG=$(PGTREE) CHAINIFY_E2E_BIN=$(CHAINIFY) \
		../scripts/go-test ./e2e -- -count=1 -timeout 4h -parallel 2 -v -run '$(E2E_FEW)'

## applications: sysbench, go-tpc, Django, SQLAlchemy, GORM, JDBC, Hibernate, node-postgres and Prisma against networks, as they are (five minutes); what this machine cannot get is named and skipped
.PHONY: applications
applications: pgtree build-node
	@scripts/setup-applications $(CURDIR)/build/applications
	cd abci && CHAINIFY_E2E=1 CHAINIFY_E2E_PG=$(PGTREE) CHAINIFY_E2E_BIN=$(CHAINIFY) CHAINIFY_E2E_APPLICATIONS=$(CURDIR)/build/applications \
		$(GO) test -count=1 -timeout 4h -parallel 2 -v -run 'Unmodified$$|DjangosOwnTests' ./e2e

## soak: the drills of lost machines (DRILLS=n times) and full disks. Then random faults for MINUTES (5) from SEED, each run LENGTH (60s); RUNS=n instead of MINUTES; report in build/soak.json; with RATE=n it is steady
MINUTES   ?= 5
RUNS      ?= 0
DRILLS    ?= 1
LENGTH    ?= 60s
FAULTS    := $(CURDIR)/build/faults
FAULTS_AT  = -pg $(PGTREE) -chainify $(CHAINIFY) -scripts $(CURDIR)/scripts/smallbank -dir $(STATE)/faults
.PHONY: soak build-faults build-clock
ifdef RATE
soak: steady
else
soak: pgtree build-node build-clock
	@scripts/setup-mariadb
	cd abci && CHAINIFY_DRILLS=$(DRILLS) CHAINIFY_E2E=1 CHAINIFY_E2E_PG=$(PGTREE) CHAINIFY_E2E_BIN=$(CHAINIFY) CHAINIFY_E2E_CLOCK=$(CHAINIFY)-clock \
		$(GO) test -count=1 -timeout 4h -parallel 1 -v -run 'TestLostMachines|TestFullDisksAtATakeOver' ./e2e
	$(FAULTS) soak $(FAULTS_AT) -chainify-clock $(CHAINIFY)-clock -minutes $(MINUTES) -runs $(RUNS) -length $(LENGTH) $(if $(SEED),-seed $(SEED)) -json $(CURDIR)/build/soak.json
endif
## tamper: changes behind the ledger of one organisation of a real network are undone, by a block and by the scrubber (three minutes)
.PHONY: tamper
tamper: pgtree build-node
	cd abci && CHAINIFY_TAMPER=1 CHAINIFY_E2E=1 CHAINIFY_E2E_PG=$(PGTREE) CHAINIFY_E2E_BIN=$(CHAINIFY) \
		$(GO) test -count=1 -timeout 4h -v -run TestTamperedOrganisationsComeBack ./e2e

## schedules: SCHEDULES (1000) random schedules of losses, take-overs, pauses and clock steps, from SEED, BATCH (100) in a process and ABREAST (16) at a time; half an hour on two quiet cores
SCHEDULES ?= 1000
ABREAST   ?= 16
BATCH     ?= 100
.PHONY: schedules
schedules:
	cd abci && $(GO) test -count=1 -timeout 8h -v ./sim -args -schedules $(SCHEDULES) -abreast $(ABREAST) -batch $(BATCH)

## soak-long: schedules, tamper, three greedy organisations of five, the whole tamper matrix, transactions on lists under faults, and the long manifests of faults: every named crash point, clocks, tampering, MariaDB (an hour)
.PHONY: soak-long
soak-long: pgtree build-node build-clock schedules tamper
	@scripts/setup-mariadb
	scripts/with-postgres $(PGTREE) bash -c 'cd abci && $(GO) test -count=1 -timeout 4h -run TestTamperMatrix ./backend/postgres -args -whole'
	cd abci && CHAINIFY_E2E=1 CHAINIFY_E2E_PG=$(PGTREE) CHAINIFY_E2E_BIN=$(CHAINIFY) \
		$(GO) test -count=1 -timeout 4h -v -run TestListsUnderFaults ./e2e -args -lists-time 2m
	cd abci && CHAINIFY_GREEDY=1 CHAINIFY_E2E=1 CHAINIFY_E2E_PG=$(PGTREE) CHAINIFY_E2E_BIN=$(CHAINIFY) \
		$(GO) test -count=1 -timeout 4h -v -run TestThreeGreedyOrganisations ./e2e
	$(FAULTS) run $(FAULTS_AT) -chainify-clock $(CHAINIFY)-clock abci/e2e/faults/manifests/long/*.toml

build-faults:
	@cd abci && $(GO) build -o $(FAULTS) ./e2e/cmd/faults
# The node with package time changed, so that its clock can be set: builds everything once more, which takes minutes.
build-clock: build-faults
	@cd abci && $(GO) build -overlay "$$($(FAULTS) overlay $(CURDIR)/build/clock)" -o $(CHAINIFY)-clock ./cmd/chainify

## bench: measure beside PostgreSQL alone; results in bench/out. BENCH=executor, network, plain, papers, distance, fabric, engines, snapshot, analytics, recovery or verify. REPEAT=n, SECONDS=n: steadier figures; STRICT=1: missed targets fail. SCALE=1: all of TPC-H; WITH_FORMER=1: network beside release 0.1
BENCH   ?= all
REPEAT  ?= 5
SECONDS ?= 1
.PHONY: bench
ifeq ($(BENCH),snapshot)
bench: setup
	$(CARGO) build --release --locked -p chainify-snapshot --example cost
	@$(GO) -C bench run . -bench snapshot -repeat $(REPEAT) $(if $(STRICT),-strict) -snapshot $(abspath $(or $(CARGO_TARGET_DIR),target))/release/examples/cost \
		-pg $(PGTREE) -dir $(STATE)/bench -out $(CURDIR)/bench/out
else ifeq ($(BENCH),analytics)
bench: pgtree build-analytics
	@scripts/setup-tpch $(CURDIR)/build/tpch
	@$(GO) -C bench run . -bench analytics -repeat $(REPEAT) -seconds $(SECONDS) $(if $(STRICT),-strict) -scale $(or $(SCALE),0.1) -worker $(abspath $(or $(CARGO_TARGET_DIR),analytics/target))/release/chainify-analytics \
		-generator $(CURDIR)/build/tpch/bin/tpchgen-cli -pg $(PGTREE) -dir $(STATE)/bench -out $(CURDIR)/bench/out
else
bench: pgtree build-node build-cometbft
	@$(GO) -C bench build -o ../build/baseline ./cmd/baseline && $(GO) -C bench build -o ../build/unsealed ./cmd/unsealed
	@cd abci && $(GO) build $$(../build/unsealed $(CURDIR)/build/without) -o $(CHAINIFY)-unsealed ./cmd/chainify
	@$(if $(findstring engines,$(BENCH)),scripts/setup-mariadb)
	@$(if $(WITH_FORMER),scripts/former-release $(FORMER))
	@$(if $(findstring fabric,$(BENCH)),$(CARGO) build --release --locked -q -p chainify-sched --example fabric)
	@$(GO) -C bench run . -bench $(BENCH) -repeat $(REPEAT) -seconds $(SECONDS) $(if $(STRICT),-strict) \
		-chainify $(CHAINIFY) -baseline $(CURDIR)/build/baseline -unsealed $(CHAINIFY)-unsealed -cometbft $(COMETBFT) \
		-reorderer $(CURDIR)/target/release/examples/fabric $(if $(WITH_FORMER),-former $(FORMER)) $(if $(ONLY),-only "$(ONLY)") $(if $(ROWS),-rows $(ROWS)) -pg $(PGTREE) -dir $(STATE)/bench -out $(CURDIR)/bench/out
endif

## steady: four organisations at RATE (100) transactions a second for MINUTES (60), watching latency and what the servers hold. Results are in bench/out
## years: clients without a pause for MINUTES (60), where three organisations archive and drop what is old: disks, throughput, archive
.PHONY: steady years
steady years: MINUTES = 60
steady years: pgtree build-node
	@$(GO) -C bench run . -bench $(if $(filter years,$@),retention,steady) $(if $(STRICT),-strict) -rate $(or $(RATE),100) -minutes $(MINUTES) -chainify $(CHAINIFY) -pg $(PGTREE) -dir $(STATE)/bench -out $(CURDIR)/bench/out

## performance: the reports in bench/out into docs/performance/figures.json, and from it all pages of figures, plots and copies of figures in documents
.PHONY: performance
performance:
	@$(GO) -C bench run ./cmd/page -in $(CURDIR)/bench/out -root $(CURDIR)

## test: all that a change has to pass, in a quarter of an hour: test-rust, test-sql, test-go, e2e-few
.PHONY: test test-all
# The programs that fuzz are optimised, but not over the bounds of crates. Nobody reads debug information of what is built here, nor builds it
# again.
test test-all: export CARGO_PROFILE_RELEASE_LTO = off
test test-all: export CARGO_PROFILE_RELEASE_DEBUG = false
test test-all: export CARGO_INCREMENTAL = 0
test test-all: export CARGO_PROFILE_DEV_DEBUG = false
test test-all: export CARGO_PROFILE_DEV_CODEGEN_UNITS = 1
# check vets all Go code; a test's own vet would go through the libraries once more, and again for the race detector. -w leaves out debuggers' tables.
test test-all: export GOFLAGS := $(GOFLAGS) -vet=off -ldflags=-w
test:
	@scripts/stages setup 'pgtree & test-rust' 'test-sql & test-go e2e-few'

## test-all: the rest of what CI runs: check, test-race, all networks and faults, deployment, pages, benchmarks, MariaDB, analytics, other sessions, traps, random blocks
# e2e has the machine for itself but for build-analytics-tests, which takes what is left.
test-all:
	@scripts/stages 'build-analytics-tests &' 'test-race & check check-deploy check-explorer test-bench' e2e 'test-sessions test-traps & test-mariadb test-analytics test-extension fuzz-few'

## clean: remove the results of builds here, and the demo's networks
.PHONY: clean
clean:
	rm -rf build target .chainify $(STATE)

## help: this text
.PHONY: help
help:
	@sed -n 's/^## \([a-z0-9-]*\): /\1\t/p' $(firstword $(MAKEFILE_LIST)) | awk -F '\t' '{printf "  make %-14s %s\n", $$1, $$2}'
