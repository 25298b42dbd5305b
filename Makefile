# dwell: see README.md. `make demo` and `make test` do all that is needed on a fresh machine.
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
DWELL := $(TARGET)/release/dwell
PROGRAMS := $(TARGET)/programs
DEMO := $(TARGET)/demo
VENV := $(TARGET)/venv
# Looked up when it is used: install-deps may have just brought it. Debian keeps it out of root's PATH.
STOCKFISH = $(shell PATH="$(PATH):/usr/games" command -v stockfish)
# Recording needs privileges; sudo keeps the environment so that cargo is found.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo -E env "PATH=$(PATH)")

export PATH := $(HOME)/.cargo/bin:$(PATH)
export DWELL_TEST_PROGRAMS := $(PROGRAMS)

help:
	@echo "make demo          record Stockfish and a small mixed program, print where their time went, draw it"
	@echo "make test          every test (as root: the end-to-end tests too)"
	@echo "make build         target/release/dwell and the test programs"
	@echo "make package       a .deb and a tarball, with manual pages, completions, header and systemd unit"
	@echo "make lint          formatting, clippy, dependencies"
	@echo "make bench         what dwell costs, next to other profilers"
	@echo "make suites        bash's, coreutils' and others' own test suites, stock against boosted"
	@echo "make boost-programs  programs of the distribution at work, stock against boosted"
	@echo "make boost-demo    the shell and its tools boosted by the daemon, measured, broken on purpose, taken back"
	@echo "make fuzz          each parser under the fuzzer, 60 s each"
	@echo "make install-deps  what the above need, where it is missing"
	@echo "make clean"

install-deps:
	@tools/install-deps.sh all

install-build-deps:
	@tools/install-deps.sh build

build: install-build-deps programs
	cargo build --release --locked --package dwell

programs:
	@$(MAKE) -j$(shell nproc) --no-print-directory --silent -C tests/programs OUT=$(PROGRAMS)

demo: install-deps build
	@mkdir -p $(DEMO)
	@$(SUDO) rm -rf $(DEMO)/stockfish.dwell $(DEMO)/mixed.dwell
	@echo "== Stockfish: a chess engine searching on two threads"
	$(SUDO) $(DWELL) -o $(DEMO)/stockfish.dwell -- $(STOCKFISH) bench 64 2 11
	$(SUDO) $(DWELL) export $(DEMO)/stockfish.dwell --to svg -o $(DEMO)/stockfish.svg
	@echo
	@echo "== mixed: computes, waits for locks, sleeps, does I/O and faults"
	$(SUDO) $(DWELL) -o $(DEMO)/mixed.dwell -- $(PROGRAMS)/mixed --dir $(DEMO)
	$(SUDO) $(DWELL) export $(DEMO)/mixed.dwell --to svg -o $(DEMO)/mixed.svg
	$(SUDO) $(DWELL) report $(DEMO)/mixed.dwell --html $(DEMO)/mixed.html
	@echo
	@echo "Open $(DEMO)/mixed.html in a browser; $(DEMO)/stockfish.svg and $(DEMO)/mixed.svg are flame graphs."

test: install-deps programs
	tools/test.sh

package: install-build-deps build
	tools/package.sh $(DWELL) $(TARGET)/package

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	tools/check-dependencies.sh

boost-demo: install-deps build
	$(SUDO) tools/boost-demo.py --dwell $(DWELL)

boost-programs: install-deps build
	$(SUDO) tools/boost-programs.py --dwell $(DWELL)

suites: install-deps build
	tools/suites.py --dwell $(DWELL) --folder $(TARGET)/suites

bench: install-deps build
	$(SUDO) $(DWELL) bench --peers --programs $(PROGRAMS) --json $(TARGET)/bench.json

fuzz:
	tools/fuzz.sh

clean:
	cargo clean
	rm -rf target

# install-deps must be through before anything compiles.
.NOTPARALLEL:
.PHONY: help install-deps install-build-deps build programs demo test package lint bench suites boost-programs boost-demo fuzz clean
