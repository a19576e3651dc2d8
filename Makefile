# One target per check and product. `make run` needs a Rust toolchain; `make test` installs its other requirements.

# With another HOME, rustup does not find its toolchains; they are next to the cargo on the PATH.
ifeq ($(RUSTUP_HOME),)
ifeq ($(wildcard $(HOME)/.rustup),)
nearby := $(abspath $(dir $(shell command -v cargo))/../../.rustup)
ifneq ($(wildcard $(nearby)),)
export RUSTUP_HOME := $(nearby)
endif
endif
endif

# A fresh clone is compiled once: incremental compilation would only take time and disk space.
ifdef CI
export CARGO_INCREMENTAL ?= 0
endif

CARGO  ?= cargo
TRIPLE ?= $(shell rustc -vV | sed -n 's/^host: //p')
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 120
SOAK_TRANSFERS ?= 100
FUZZ_TARGETS = $(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))

.PHONY: run test test-web check check-web web-modules soak bench bench-agents fuzz dist install install-files setup generate

# rexhub is built separately, as for `dist`: together, the features of shared dependencies would compile these twice.
run:            ## build rexd, rex and rexhub and show them on a sample workspace; ONCE=1 exits afterwards, LAN=1 serves the network
	$(CARGO) build --locked --bin rexd --bin rex
	$(CARGO) build --locked -p hub --bin rexhub
	@target/debug/rex up $(if $(ONCE),--once) $(if $(LAN),--lan)

# `cargo test` builds the programs with the features of the tests; a `cargo build` before it would compile tokio and every
# crate above it twice. The tests of xtask are `tidy` and `generate --check`.
test: setup check   ## install the requirements of the tests and run every check
	$(CARGO) test --workspace --locked --quiet --no-fail-fast
	@$(MAKE) --no-print-directory test-web XTASK=target/debug/xtask

# The programs are those that `cargo test` has built.
XTASK ?= $(CARGO) xtask
test-web:       ## test the web application: its modules, its bundle, and the screens in a real browser
	@if test -f web/package.json; then \
	  $(XTASK) web && cd web && export PATH="$$(build/node.sh)" && npm run --silent test:unit && \
	  REXD=$(CURDIR)/target/debug/rexd REX=$(CURDIR)/target/debug/rex REXHUB=$(CURDIR)/target/debug/rexhub npm run --silent test:browser; \
	fi

check: check-web    ## formatting, lints, documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

check-web: web-modules
	@if test -f web/package.json; then cd web && export PATH="$$(build/node.sh)" && npm run --silent check; fi

# Installed again when the lock file is newer.
web-modules:
	@if test -f web/package.json && test ! web/node_modules/.package-lock.json -nt web/package-lock.json; then \
	  cd web && export PATH="$$(build/node.sh)" && npm install --ignore-scripts --no-save --no-audit --no-fund --silent && touch node_modules/.package-lock.json; \
	fi

setup:          ## install the requirements of the tests: sshd, rsync, vim, tmux, Chromium, PostgreSQL, systemd-socket-activate, the official MCP clients, Ansible, released Codex
	@missing=""; \
	test -x /usr/sbin/sshd || missing="$$missing openssh-server openssh-client"; \
	command -v systemd-socket-activate >/dev/null || missing="$$missing systemd"; \
	command -v rsync >/dev/null || missing="$$missing rsync"; \
	command -v git >/dev/null || missing="$$missing git"; \
	command -v vim >/dev/null || missing="$$missing vim"; \
	command -v tmux >/dev/null || missing="$$missing tmux"; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$$missing postgresql"; \
	command -v npm >/dev/null || missing="$$missing npm"; \
	test ! -f web/package.json || command -v chromium >/dev/null || missing="$$missing chromium"; \
	python3 -c 'import ensurepip' 2>/dev/null || missing="$$missing python3 python3-venv"; \
	test -z "$$missing" || { \
	  echo "installing$$missing"; \
	  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing) >/dev/null; }
	@crates/cli/tests/mcp/setup.sh
	@crates/cli/tests/ansible/setup.sh
	@crates/daemon/tests/codex/setup.sh

# In the two commands the features of dependencies are the same, so that nothing is compiled twice.
soak: setup     ## run the programs under faults for SOAK_SECONDS (SOAK_SEED repeats a run), then SOAK_TRANSFERS transfers with rsync, sftp, scp, git and Ansible
	$(CARGO) build --workspace --locked --quiet --bins --test soak --test binary_protocols
	SOAK_SECONDS=$(SOAK_SECONDS) $(CARGO) test --workspace --locked --quiet --test soak -- --nocapture
	SOAK_TRANSFERS=$(SOAK_TRANSFERS) $(CARGO) test --workspace --locked --quiet --test binary_protocols

generate:       ## write the files generated from the code: reference pages, schemas, manual pages, completions
	$(CARGO) xtask generate

bench: dist     ## measure the static rexd and comparable programs and write docs/benchmarks.md
	bench/setup.sh
	$(CARGO) build --release --locked --quiet -p bench
	target/release/bench --rexd dist/rexd --rex dist/rex --out docs/benchmarks.md

# The clients are those of the tests.
bench-agents:   ## compare the tools of rex mcp with those of Claude Code on twenty tasks; writes docs/benchmarks-agents.md
	crates/cli/tests/mcp/setup.sh
	$(CARGO) build --locked --quiet --bin rexd --bin rex
	python3 bench/agents/run.py --out docs/benchmarks-agents.md

fuzz:           ## run every fuzz target for FUZZ_SECONDS
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --quiet --locked cargo-fuzz
	@for target in $(FUZZ_TARGETS); do \
	  echo "fuzzing $$target for $(FUZZ_SECONDS) s"; \
	  RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=4096 -verbosity=0 || exit 1; \
	done

# Static; on x86_64, where lld is the default linker, identical functions are merged. rexd and rex, which start often, have
# fixed addresses unless PIE=1 (docs/decisions/0025-fixed-addresses.md); the relocations of a PIE are packed.
static = -C target-feature=+crt-static -C $(1) $(if $(findstring x86_64,$(TRIPLE)),-C link-arg=-Wl$(comma)--icf=all)
comma := ,
pie = link-arg=-Wl$(comma)-z$(comma)pack-relative-relocs
# Only zstd's fastest compressor is used; leave out the others.
FASTEST_ONLY = $(foreach name,DFAST GREEDY LAZY LAZY2 BTLAZY2 BTOPT BTULTRA,-DZSTD_EXCLUDE_$(name)_BLOCK_COMPRESSOR)

# rexhub is built separately: in one build, its features of shared dependencies would enlarge the others.
dist:           ## build static rexd, rex and rexhub in dist/; PIE=1 loads rexd and rex at random addresses too
	RUSTFLAGS="$(call static,$(if $(PIE),$(pie),relocation-model=static))" CFLAGS="$(FASTEST_ONLY)" $(CARGO) build --release --locked --quiet --target $(TRIPLE) --bin rexd --bin rex
	RUSTFLAGS="$(call static,$(pie))" $(CARGO) build --release --locked --quiet --target $(TRIPLE) -p hub
	@mkdir -p dist && cp $(foreach program,rexd rex rexhub,target/$(TRIPLE)/release/$(program)) dist/ && ls -l dist/rexd dist/rex dist/rexhub

install: dist install-files   ## install programs, units, manual pages and completions below $(PREFIX)
	install -Dm755 dist/rexd $(DESTDIR)$(PREFIX)/bin/rexd
	install -Dm755 dist/rex $(DESTDIR)$(PREFIX)/bin/rex
	install -Dm755 dist/rexhub $(DESTDIR)$(PREFIX)/bin/rexhub

share := $(DESTDIR)$(PREFIX)/share
lib   := $(DESTDIR)$(PREFIX)/lib

install-files:  ## install everything except the programs; units refer to $(PREFIX)/bin
	@for unit in $(notdir $(wildcard packaging/systemd/*.*)); do \
	  install -Dm644 packaging/systemd/$$unit $(lib)/systemd/system/$$unit || exit 1; \
	done
	@for unit in $(notdir $(wildcard packaging/systemd/user/*.*)); do \
	  install -Dm644 packaging/systemd/user/$$unit $(lib)/systemd/user/$$unit || exit 1; \
	done
	@sed -i 's|^ExecStart=/usr/local/bin/|ExecStart=$(PREFIX)/bin/|' $(lib)/systemd/system/rexd.service $(lib)/systemd/system/rexhub.service $(lib)/systemd/user/rexd.service
	install -Dm644 packaging/sysusers.d/rexd.conf $(lib)/sysusers.d/rexd.conf
	install -Dm644 packaging/sysusers.d/rexhub.conf $(lib)/sysusers.d/rexhub.conf
	@for page in $(notdir $(wildcard packaging/man/*.1)); do \
	  install -Dm644 packaging/man/$$page $(share)/man/man1/$$page || exit 1; \
	done
	@for program in rexd rex rexhub; do \
	  install -Dm644 packaging/completions/$$program.bash $(share)/bash-completion/completions/$$program && \
	  install -Dm644 packaging/completions/_$$program $(share)/zsh/site-functions/_$$program && \
	  install -Dm644 packaging/completions/$$program.fish $(share)/fish/vendor_completions.d/$$program.fish || exit 1; \
	done
