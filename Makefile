# Tests, checks and installs Tabane. Needs make, a POSIX shell, a Rust toolchain and a C compiler.
#
#   make            builds the tabane command, optimised
#   make test       first INSTALLS packages that the tests use (with apt-get, as root or by sudo; two
#                   servers below the target folder, with go and pip), then runs every test
#   make test-arm   first INSTALLS a cross compiler, qemu-user and the Rust library for aarch64, then runs the tests of
#                   the kernels on aarch64, and compares the command and the provider for it with those of this machine
#   make test-arm-short  of these, the tests of the kernels on one processor that has all instructions
#   make test-kernels    these, and the test of what the compiler makes of the kernels for this machine
#   make dist       makes what a release has, for x86-64 and aarch64, in the folder dist of the target folder: archives,
#                   packages for Debian and RPM, the container image, checksums; INSTALLS its tools below the target folder
#   make test-packages  as root on Debian: installs those packages on clean systems, and backs up and restores there
#   make test-image     as any other user: runs the image without root (skopeo, umoci, uidmap, runc)
#   make package    makes the package of each crate, as for crates.io, without building it
#   make test-python  builds the Python package and tests it in a fresh virtual environment, into which pip
#                   installs what crates/python/tests/requirements.txt lists
#   make wheels     builds the Python package for release: wheels for x86-64 and aarch64 with glibc and musl, and the
#                   source distribution, into the folder wheels of the target folder; INSTALLS its tools there
#   make test-page  first INSTALLS Chromium from Debian and axe-core by npm below the target folder, then looks at the
#                   page of tabane web in it; the pictures are in tmp/web of the target folder
#   make test-databases  first INSTALLS PostgreSQL and MariaDB from Debian, then runs the commands that the
#                   documentation has for databases, with servers of its own
#   make test-restic  restic's tests of its command line, for tabane: RESTIC=CHECKOUT; needs go
#   make lint       formatting, clippy and documentation, warnings as errors
#   make sanitize   the tests of the kernels, the ring, the offload service and the library for cards, under
#                   AddressSanitizer (x86-64 Linux)
#   make sanitize-threads  tests of the ring and of the offload service, under ThreadSanitizer (x86-64 Linux, needs
#                   rustup component add rust-src)
#   make fuzz       runs one parser in libFuzzer for a while, from the inputs that are kept for it: PARSER=directory
#                   SECONDS=60, or the provider: FUZZ=provider (x86-64 Linux, needs a C++ compiler)
#   make fuzz-corpus    the same, and then keeps inputs that reach all code that was reached
#   make bench      measures kernels, the paper's figures, copies and whole backups beside the tools that are installed
#   make guard      measures the ratios to peers that the documentation claims, fails where one has fallen by more
#                   than a tenth, and else writes docs/results/guard.json
#   make gpu-check  on a machine with an NVIDIA card: tests, then measures it and writes docs/results/gpu.json
#   make book       the documentation as a book in target/book; needs mdbook (cargo install mdbook)
#   make documents  writes what the command prints now into README, tutorial and reference
#   make figures    records README's tour anew, and draws the bars of the results
#   make models     takes the model of removal through 100 million states (some minutes, some GB of memory), or another
#                   as far as MODELS says
#   make simulate   lets many clients use one repository on storage that fails, in as many ways as SEEDS says, in memory
#                   and over a set of targets; prints the smallest run that fails
#   make miri       the examples of the kernels, and a test of AES-GCM, by portable code under Miri (nightly Rust with miri)
#   make coverage   prints which share of the lines and branches of repository, stripes and code the tests reach; COVERAGE
#                   names the crates; needs nightly Rust with llvm-tools, and cargo-llvm-cov
#   make fuzz-coverage  prints which share of the lines of each parser its kept inputs reach; needs the same
#   make install    copies the command, its manual pages and completions: PREFIX=/usr/local DESTDIR=
#   make install-lib  copies the hashes for C: tabane.h, libtabane.so, libtabane.a and tabane.pc
#   make uninstall  removes what install and install-lib copied
#   make clean      removes everything built
#
# CARGOFLAGS goes to every build, as in: make test CARGOFLAGS=--locked

SHELL = /bin/sh
CARGO = cargo
CARGOFLAGS =
PREFIX = /usr/local
DESTDIR =
BENCHFLAGS =

# The instruction sets of TABANE_SIMD that the tests force, one after another.
SIMD = $(if $(filter aarch64,$(shell uname -m)),portable neon armce armsha512,portable sse41 avx2 avx512 shani)

# Always all members, since cargo compiles dependencies anew where another choice of members asks less of them.
# For the same reason everything here but bench and install is the dev profile.
CARGO_TEST = RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test $(CARGOFLAGS) --workspace --no-fail-fast

# Many tests wait for nodes, servers and timers.
TEST_THREADS = $$((2 * $$(getconf _NPROCESSORS_ONLN)))

# A shell command that prints the folder for what cargo builds.
TARGET = $(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'

all: build

build:
	$(CARGO) build $(CARGOFLAGS) --release

# The last lines have what the failed tests said, name them, and count the tests of all runs. A failed run fails the
# whole, whatever was counted.
test:
	@log=$$(mktemp) && trap 'rm -f "$$log" "$$log.status"' EXIT && trap 'exit 1' HUP INT TERM && \
	{ code=0; $(MAKE) test-all || code=$$?; echo $$code > "$$log.status"; } 2>&1 | tee "$$log"; \
	echo; \
	grep -E '^[ *]*(NOT RUN|NOT CHECKED|NOT INSTALLED)' "$$log" | sort -u || true; \
	awk -v status="$$(cat "$$log.status")" ' \
		function count(what) { return match($$0, "[0-9]+ " what) ? substr($$0, RSTART) + 0 : 0 } \
		/^test result: / { runs++; \
			passed += count("passed"); failed += count("failed"); ignored += count("ignored") } \
		/^failures:$$/ { in_failures = 1; next } \
		/^test result: / { in_failures = 0 } \
		in_failures && /^    [A-Za-z0-9_:]+$$/ { names = names "FAILED: " $$1 "\n"; next } \
		in_failures { print } \
		END { \
			printf "%s", names; \
			if (status != 0 && !failed) print "a step ended with an error, see above"; \
			bad = status != 0 || failed || !passed; \
			printf "test result: %s. %d passed; %d failed; %d ignored; in %d runs\n", \
				bad ? "FAILED" : "ok", passed, failed, ignored, runs; \
			exit bad }' "$$log"

# What make test counts. No prerequisites, so that the steps keep their order under make -j.
test-all:
	@$(MAKE) test-tools
	$(CARGO_TEST) --all-targets -- --show-output
	$(CARGO_TEST) --doc
	@$(MAKE) test-examples
	@$(MAKE) test-python
	@$(MAKE) test-libfabric
	@$(MAKE) test-simd

# The examples: each must end well. cargo test --all-targets builds them as tests only.
EXAMPLES = backup_restore read_a_snapshot striped hash_many on_card
test-examples:
	$(CARGO) build $(CARGOFLAGS) --workspace --examples
	@examples=$$($(TARGET))/debug/examples; \
	for example in $(EXAMPLES); do \
		echo; echo "=== example $$example ==="; "$$examples/$$example" || exit 1; \
	done

# The Python package in a fresh virtual environment. PYTHON_EXTRA='-r crates/python/tests/extra.txt' adds Dask, DuckDB,
# Jupyter, mypy and what else the package is tested with; PYTHON_WHEELS is a folder of wheels to test (make wheels).
PYTHON = python3
PYTHON_EXTRA =
PYTHON_WHEELS =
test-python:
	@PYTHON="$(PYTHON)" WHEELS="$(PYTHON_WHEELS)" CARGO="$(CARGO)" CARGOFLAGS="$(CARGOFLAGS)" crates/python/test.sh $(PYTHON_EXTRA)

# Wheels and source distribution, as PyPI takes them; WHEELS=x86_64-unknown-linux-gnu makes that one.
WHEELS = x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl
wheels:
	crates/python/wheels.sh $(WHEELS)

# Every crate that others can use makes a package that crates.io would take.
LABORATORY = --exclude tabane-bench --exclude tabane-papers --exclude tabane-models --exclude tabane-simulation --exclude tabane-testing --exclude tabane-provider \
	--exclude tabane-capi --exclude tabane-python
package:
	$(CARGO) package $(CARGOFLAGS) --workspace $(LABORATORY) --no-verify --allow-dirty --quiet

# For fewer processors: PROCESSORS=x86_64. For other releases of Debian: SUITES=sid.
PROCESSORS = x86_64 aarch64
SUITES = bookworm trixie
dist:
	PROCESSORS="$(PROCESSORS)" contrib/package/dist.sh
test-packages:
	contrib/package/test-packages.sh "$$($(TARGET))/dist" $(SUITES)
test-image:
	contrib/package/test-image.sh "$$($(TARGET))"/dist/tabane-*-oci.tar

# The page in a browser, and before a judge of accessibility.
AXE = axe-core@4.14.1
test-page:
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } > /dev/null 2>&1 || \
	if command -v apt-get > /dev/null 2>&1; then \
		if [ "$$(id -u)" = 0 ]; then sudo=; else sudo='sudo -n'; fi; \
		$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core \
			< /dev/null; \
	fi
	@tools=$$($(TARGET))/tools; [ -e "$$tools/node_modules/axe-core/axe.min.js" ] || \
		npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$$tools" $(AXE)
	$(CARGO) test $(CARGOFLAGS) -p tabane --test cli web:: -- --show-output

# Databases of Debian. The package of a server starts it, if the system starts services; that one is not touched.
test-databases: test-tools
	@if command -v apt-get > /dev/null 2>&1; then \
		if [ "$$(id -u)" = 0 ]; then sudo=; else sudo='sudo -n'; fi; \
		$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql mariadb-server \
			< /dev/null; \
	fi
	$(CARGO) test $(CARGOFLAGS) --workspace --test cli databases -- --include-ignored --show-output

# RESTIC is a checkout of https://github.com/restic/restic.
RESTIC =
test-restic:
	$(CARGO) build $(CARGOFLAGS) --workspace --bin tabane
	contrib/restic-tests/run.py --tabane "$$($(TARGET))/debug/tabane" $(RESTIC)

# Rings and clusters once more, with what needs a library of the system. Not the command: whatever is linked with
# libfabric takes a fifth of a second to begin.
LIBFABRIC = /usr/include/rdma/fabric.h
LIBFABRIC_TESTS = --features tabane-node/libfabric --test copies --test endpoints --test libfabric --test tcp --test nodes
test-libfabric:
	@if [ -e $(LIBFABRIC) ]; then $(CARGO_TEST) $(LIBFABRIC_TESTS) -- --show-output; \
	else printf '\n%s\n\n' "NOT RUN: endpoints over libfabric: $(LIBFABRIC) is missing (Debian package libfabric-dev)"; fi
build-libfabric:
	@[ ! -e $(LIBFABRIC) ] || $(CARGO_TEST) $(LIBFABRIC_TESTS) --no-run

# What computes by the kernels, once for each instruction set that the processor has.
SIMD_TESTS = (tabane_lanes|tabane_engine|tabane_format|tabane_parity|every_backend|streaming|vmac)-
test-simd: test-programs
	@tabane=$$($(TARGET))/debug/tabane; \
	tests=$$($(CARGO_TEST) --all-targets --no-run 2>&1 | \
		sed -nE 's,^ *Executable [^(]*\((.*$(SIMD_TESTS).*)\)$$,\1,p'); \
	[ -n "$$tests" ] || { echo 'test-simd finds no tests'; exit 1; }; \
	for simd in $(SIMD); do \
		if why=$$(TABANE_SIMD=$$simd "$$tabane" version 2>&1); then \
			echo; echo "=== TABANE_SIMD=$$simd ==="; \
			for test in $$tests; do TABANE_SIMD=$$simd "$$test" || exit 1; done; \
		else \
			case $$why in \
			*"lacks $$simd"*) printf '\n%s\n\n' "NOT RUN: TABANE_SIMD=$$simd: this processor lacks it" ;; \
			*) echo "$$why"; exit 1 ;; \
			esac; \
		fi; \
	done

# aarch64 on another machine. Three processors: with all instructions, without those of SHA-512, and without any of AES
# and SHA, which no model of qemu lacks: what tells of them is hidden, and the program is watched not to use them.
ARM = aarch64-unknown-linux-gnu
ARM_ROOT = /usr/aarch64-linux-gnu
ARM_RUNNER = qemu-aarch64-static -L $(ARM_ROOT)
ARM_CARGO = env CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='$(ARM_RUNNER)' TABANE_TEST_RUNNER='$(ARM_RUNNER)' $(CARGO)
ARM_FLAGS = $(CARGOFLAGS) --target $(ARM)
ARM_TESTS = $(ARM_CARGO) test $(ARM_FLAGS) -p tabane-lanes --no-fail-fast --lib --test every_backend --test streaming \
	--test aes --test gcm --test gear --test xor --test instructions -- --show-output
# The part of test-arm for each change, most of which is the compiler's.
test-arm-short:
	@if $(MAKE) arm-tools; then \
		echo; echo '=== aarch64: max ==='; QEMU_CPU=max $(ARM_CARGO) test $(ARM_FLAGS) -p tabane-lanes --no-fail-fast \
			--test every_backend --test streaming --test aes --test gcm --test gear --test xor; \
	else printf '\n%s\n\n' 'NOT RUN: kernels of aarch64: see above for what is missing'; fi
# Each compiles all kernels, on one processor. In this order other tests, too, get at what is compiled.
test-kernels:
	$(CARGO_TEST) --test hot_loops
	@$(MAKE) test-arm-short
test-arm: arm-tools
	$(ARM_CARGO) clippy $(CARGOFLAGS) --target $(ARM) -p tabane-lanes --all-targets -- -D warnings
	@set -e; place=$$($(TARGET))/$(ARM); mkdir -p "$$place"; \
	aarch64-linux-gnu-gcc -shared -fPIC -O2 crates/lanes/tests/no_crypto.c -o "$$place/no_crypto.so"; \
	for cpu in max cortex-a53; do \
		echo; echo "=== aarch64: $$cpu ==="; QEMU_CPU=$$cpu $(ARM_TESTS); \
	done; \
	echo; echo '=== aarch64: without the instructions of AES and SHA ==='; \
	QEMU_SET_ENV="LD_PRELOAD=$$place/no_crypto.so" $(ARM_TESTS)
	@$(MAKE) test-arm-programs

# Whole programs on these processors: backup, restore, check and sum beside this machine's command, and openssl with
# the provider beside this machine's openssl.
test-arm-programs: arm-tools
	$(CARGO) build $(CARGOFLAGS) --workspace --bin tabane
	$(ARM_CARGO) build $(ARM_FLAGS) -p tabane -p tabane-provider
	@set -e; target=$$($(TARGET)); place=$$target/$(ARM); mkdir -p "$$place"; \
	aarch64-linux-gnu-gcc -shared -fPIC -O2 crates/lanes/tests/no_crypto.c -o "$$place/no_crypto.so"; \
	[ -e "$$place/debian.packages" ] || \
		contrib/package/debian-root.sh arm64 "$$place/debian" libc6 libgcc-s1 openssl 'libssl3t64|libssl3' libzstd1 zlib1g || { \
			printf '\n%s\n\n' 'NOT RUN: programs for aarch64: apt-get has no packages for arm64'; exit 1; }; \
	contrib/package/test-arm.sh "$$target/debug/tabane" "$$place/debug/tabane" \
		"$$place/debug/deps/libtabane_provider.so" "$$place/debian" "$$place/no_crypto.so"

# A cross compiler, qemu-user and the Rust library of aarch64.
arm-tools:
	@if ! command -v aarch64-linux-gnu-gcc > /dev/null 2>&1 || ! command -v qemu-aarch64-static > /dev/null 2>&1; then \
		contrib/package/apt.sh gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static; \
	fi; \
	rustc --print target-libdir --target $(ARM) | xargs test -d || rustup target add $(ARM)

# The command, which tells test-simd what the processor has; cargo test leaves it there, too.
test-programs:
	@$(CARGO_TEST) --all-targets --no-run > /dev/null 2>&1 || $(CARGO_TEST) --all-targets --no-run

# Programs that some tests start. On Debian and its kin they are installed; elsewhere they are asked for. Tests go
# on without them and say NOT CHECKED.
test-tools: test-servers
	@missing=; packages=; \
	need() { command -v "$$1" > /dev/null 2>&1 || { missing="$$missing $$1"; packages="$$packages $$2"; }; }; \
	need openssl openssl; need nginx nginx; need curl curl; need xxhsum xxhash; need b3sum b3sum; need setfacl acl; need mkfs.xfs xfsprogs; need mkfs.btrfs btrfs-progs; need setfattr attr; need restic restic; need borg borgbackup; need sqlite3 sqlite3; need unzip unzip; [ -x /usr/sbin/sshd ] || { missing="$$missing sshd"; packages="$$packages openssh-server openssh-client"; }; need python3 python3; { ! command -v apt-get > /dev/null 2>&1 || python3 -c "import ensurepip" 2> /dev/null; } || { missing="$$missing python3-venv"; packages="$$packages python3-venv"; }; \
	need c++ g++; [ -e /usr/include/cryptopp/vmac.h ] || { missing="$$missing Crypto++"; packages="$$packages libcrypto++-dev"; }; \
	[ -e $(LIBFABRIC) ] || { missing="$$missing libfabric"; packages="$$packages libfabric-dev"; }; \
	[ -n "$$missing" ] || exit 0; \
	if command -v apt-get > /dev/null 2>&1; then \
		if [ "$$(id -u)" = 0 ]; then sudo=; else sudo='sudo -n'; fi; \
		echo "Installing what tests need:$$packages"; \
		install() { $$sudo env DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -q --no-install-recommends $$packages < /dev/null; }; \
		install || { $$sudo apt-get update -q < /dev/null && install; } && exit 0; \
	fi; \
	printf '\n%s\n%s\n\n' "NOT INSTALLED:$$missing (Debian packages:$$packages)" \
		"NOT CHECKED: what tests do with$$missing. Install them and run make test again." >&2

# Real servers of S3 and WebDAV, beside what cargo builds: two minutes, once.
VERSITYGW = github.com/versity/versitygw/cmd/versitygw@v1.8.0
WSGIDAV = wsgidav==4.4.0 cheroot==11.1.2
# For contrib/read-repository.py.
READER = blake3==1.0.11 cryptography==50.0.2 xxhash==4.1.0 zstandard==0.25.0
test-servers:
	@tools=$$($(TARGET))/tools; missing=; \
	if ! command -v versitygw > /dev/null 2>&1 && ! [ -x "$$tools/versitygw" ]; then \
		echo "Installing what tests need: versitygw, an S3 server"; \
		CGO_ENABLED=0 GOBIN=$$tools go install $(VERSITYGW) || missing="$$missing versitygw ($(VERSITYGW), with go)"; \
	fi; \
	if ! command -v wsgidav > /dev/null 2>&1 && ! "$$tools/python/bin/wsgidav" --version > /dev/null 2>&1; then \
		echo "Installing what tests need: wsgidav, a WebDAV server"; \
		{ python3 -m venv --clear "$$tools/python" && "$$tools/python/bin/pip" install -q $(WSGIDAV); } || missing="$$missing wsgidav ($(WSGIDAV), with pip)"; \
	fi; \
	if ! "$$tools/python/bin/python" -c "import blake3, cryptography.hazmat.primitives.asymmetric.mlkem, xxhash, zstandard" 2> /dev/null; then \
		echo "Installing what tests need: packages of the second reader of repositories"; \
		{ { [ -x "$$tools/python/bin/pip" ] || python3 -m venv "$$tools/python"; } && \
			"$$tools/python/bin/pip" install -q $(READER); } || missing="$$missing $(READER) (with pip)"; \
	fi; \
	[ -z "$$missing" ] || printf '\n%s\n%s\n\n' "NOT INSTALLED:$$missing" \
		"NOT CHECKED: repositories on such servers, or with a second reader. Install them and run make test again." >&2

lint:
	$(CARGO) fmt --all --check
	libfabric=; [ ! -e $(LIBFABRIC) ] || libfabric=,tabane/libfabric,tabane-bench/libfabric,tabane-papers/libfabric; \
	$(CARGO) clippy $(CARGOFLAGS) --workspace --all-targets --features "tabane-python/extension$$libfabric" -- -D warnings
	RUSTDOCFLAGS="-D warnings $$RUSTDOCFLAGS" $(CARGO) doc $(CARGOFLAGS) --workspace --no-deps

# TREE is what to back up; without it a mixed tree is made.
# Sanitizers are unstable in rustc: the variable lets the stable one have them.
# Leaks are not looked for: processes that tests end leave memory behind. The fabric's count of copies would see others.
sanitize:
	for crate in '-p tabane-lanes --lib --tests' '-p tabane-offload -p tabane-gpu --lib --tests' \
		'-p tabane-fabric --lib --test endpoints --test tcp'; do \
		RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address $$RUSTFLAGS" ASAN_OPTIONS=detect_leaks=0 \
			$(CARGO) test $(CARGOFLAGS) $$crate --target x86_64-unknown-linux-gnu \
			--config 'profile.dev.package.tabane-lanes.overflow-checks=true' \
			--config 'profile.dev.package.tabane-lanes.debug-assertions=true' \
			--target-dir "$$($(TARGET))/sanitize" || exit 1; \
	done

# The standard library is built anew, since what it does with locks must be seen too.
sanitize-threads:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread $$RUSTFLAGS" $(CARGO) test $(CARGOFLAGS) -Zbuild-std \
		-p tabane-fabric -p tabane-offload --lib --test endpoints --test tcp \
		--target x86_64-unknown-linux-gnu --target-dir "$$($(TARGET))/sanitize-threads"

# What cargo-fuzz does, without having to install it. Leaks are not looked for: a thread that is about to end looks like one.
FUZZ = parsers
SECONDS = 60
PARSER =
FUZZED = $(or $(PARSER),$(FUZZ))
FUZZER = fuzz/target/x86_64-unknown-linux-gnu/release/$(FUZZ)
fuzzer:
	cd fuzz && RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg fuzzing -Cpasses=sancov-module \
		-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
		-Cllvm-args=-sanitizer-coverage-pc-table -Ccodegen-units=1" \
		$(CARGO) build $(CARGOFLAGS) --release --target x86_64-unknown-linux-gnu --target-dir target --bin "$(FUZZ)"

fuzz: fuzzer
	mkdir -p "fuzz/corpus/$(FUZZED)" fuzz/artifacts
	CORPUS="fuzz/corpus/$(FUZZED)" PARSER=$(PARSER) "$(FUZZER)" -max_total_time=$(SECONDS) -malloc_limit_mb=256 \
		-detect_leaks=0 -artifact_prefix=fuzz/artifacts/ "fuzz/corpus/$(FUZZED)"

# The fewest inputs are kept that reach what samples do not, however often they go through it.
fuzz-corpus: fuzz
	rm -rf "fuzz/corpus/$(FUZZED).least"
	mkdir "fuzz/corpus/$(FUZZED).least"
	find "fuzz/corpus/$(FUZZED)" -name 'sample-*' -exec cp -t "fuzz/corpus/$(FUZZED).least" {} +
	PARSER=$(PARSER) "$(FUZZER)" -set_cover_merge=1 -use_counters=0 -malloc_limit_mb=256 -detect_leaks=0 \
		"fuzz/corpus/$(FUZZED).least" "fuzz/corpus/$(FUZZED)"
	KEEP="fuzz/corpus/$(FUZZED).least" PARSER=$(PARSER) "$(FUZZER)"

book:
	@command -v mdbook > /dev/null || { echo 'mdbook is missing: cargo install mdbook --locked' >&2; exit 1; }
	mdbook build

documents:
	UPDATE_DOCUMENTS=1 $(CARGO) test $(CARGOFLAGS) --workspace --test documents

figures:
	$(CARGO) build $(CARGOFLAGS) --workspace --bin tabane --example figures
	@built=$$($(TARGET))/debug; "$$built/examples/figures" "$$built/tabane"

miri:
	MIRIFLAGS=-Zmiri-disable-isolation TABANE_SIMD=portable $(CARGO) +nightly miri test -p tabane-lanes --doc
	MIRIFLAGS=-Zmiri-disable-isolation TABANE_SIMD=portable $(CARGO) +nightly miri test -p tabane-lanes --test gcm the_counter_wraps

# Branches need nightly Rust. What the tests of nodes, of the command and simulated runs reach counts, too.
# COVERAGEFLAGS=--missing lists what no test reaches.
COVERAGE = format index store striped parity
COVERAGEFLAGS =
COVERED = +nightly llvm-cov --branch --no-report $(CARGOFLAGS) \
	$(foreach crate,$(COVERAGE) node simulation,-p tabane-$(crate)) -p tabane
coverage: coverage-tools
	$(CARGO) +nightly llvm-cov clean --profraw-only
	$(CARGO) $(COVERED)
	@lcov=$$($(TARGET))/coverage.lcov; \
	$(CARGO) +nightly llvm-cov report --branch --lcov --output-path "$$lcov" && \
	$(PYTHON) contrib/coverage.py "$$lcov" $(COVERAGE) $(COVERAGEFLAGS)

# With the same crates as above, so that nothing is built twice.
fuzz-coverage: coverage-tools
	$(CARGO) $(COVERED) --test fuzz -- --list > /dev/null
	@$(PYTHON) -B contrib/fuzz_coverage.py "$$($(TARGET))/llvm-cov-target" $(PARSER) $(COVERAGEFLAGS)

coverage-tools:
	@$(CARGO) llvm-cov --version > /dev/null 2>&1 || \
		{ echo 'cargo-llvm-cov is missing: cargo install cargo-llvm-cov --locked' >&2; exit 1; }
	@$(CARGO) +nightly --version > /dev/null 2>&1 && ls "$$(rustc +nightly --print sysroot)"/lib/rustlib/*/bin/llvm-cov > /dev/null 2>&1 || \
		{ echo 'nightly Rust with llvm-tools is missing: rustup toolchain install nightly --component llvm-tools' >&2; exit 1; }

# MODELS='removal 1 2' exhausts one backup and two prunes, 'cluster 2 1' two faults and a heal; see
# crates/models/README.md.
MODELS = removal 3 2 420000000
models:
	$(CARGO) build $(CARGOFLAGS) --release -p tabane-models
	@"$$($(TARGET))/release/tabane-models" $(MODELS)

# SIMULATEFLAGS='--place server', '--first 1000', "--plan '{…}'"; see crates/simulation/README.md.
SEEDS = 1000
simulate:
	$(CARGO) build $(CARGOFLAGS) --release -p tabane-simulation
	@"$$($(TARGET))/release/tabane-simulation" --seeds $(SEEDS) $(SIMULATEFLAGS)

bench:
	$(CARGO) build $(CARGOFLAGS) --release --workspace
	@bin=$$($(TARGET))/release; \
	"$$bin/tabane-bench" lanes $(BENCHFLAGS) || exit 1; \
	"$$bin/tabane-papers" sha1 $(BENCHFLAGS) || exit 1; \
	"$$bin/tabane-bench" mac $(BENCHFLAGS) || exit 1; \
	"$$bin/tabane-bench" cp $(BENCHFLAGS) || exit 1; \
	if [ -n "$(TREE)" ]; then \
		"$$bin/tabane-bench" sum --tree "$(TREE)" $(BENCHFLAGS) && \
		"$$bin/tabane-bench" store --tree "$(TREE)" $(BENCHFLAGS); \
	else \
		dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && trap 'exit 1' HUP INT TERM || exit 1; \
		"$$bin/tabane-bench" store --make-tree "$$dir/tree" $(BENCHFLAGS); \
	fi

# The programs are those of a plain cargo build --release: the same profile, and the kernels compiled once for all.
# GUARDFLAGS=--accept makes a fallen ratio the last result, GUARDFLAGS='--benches mac,lanes' runs only these.
GUARDFLAGS =
guard:
	$(CARGO) build $(CARGOFLAGS) --release -p tabane -p tabane-provider -p tabane-bench -p tabane-papers
	@bin=$$($(TARGET))/release; mkdir -p docs/results; \
	"$$bin/tabane-bench" guard --commit "$$(git describe --always --dirty --abbrev=12)" $(GUARDFLAGS)

# Fails where there is no card: what it is for is to be run where there is one. compute-sanitizer is of NVIDIA's toolkit.
# Data in MiB: GPU_MIB.
GPU_MIB = 256
gpu-check:
	@$(PYTHON) -c 'import ctypes; cuda = ctypes.CDLL("libcuda.so.1"); count = ctypes.c_int(); \
		exit(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or not count.value)' 2> /dev/null || \
		{ echo 'gpu-check: here is no NVIDIA card with a driver (libcuda.so.1)' >&2; exit 1; }
	$(CARGO_TEST) --test gpu
	$(CARGO) build $(CARGOFLAGS) --release -p tabane -p tabane-papers
	@bin=$$($(TARGET))/release; new=docs/results/gpu.json.new; trap 'rm -f "$$new"' EXIT; trap 'exit 1' HUP INT TERM; \
	"$$bin/tabane" devices && \
	if command -v compute-sanitizer > /dev/null; then \
		compute-sanitizer --error-exitcode 1 "$$bin/tabane-papers" gpu --need-card --no-peers --data 1 --rounds 1 --time 1 > /dev/null || exit 1; \
	else echo 'NOT CHECKED: compute-sanitizer is not installed'; fi && \
	mkdir -p docs/results && \
	"$$bin/tabane-papers" gpu --need-card --data $(GPU_MIB) --json --plots docs/figures $(BENCHFLAGS) > "$$new" && \
	mv "$$new" docs/results/gpu.json && echo 'written: docs/results/gpu.json'

install: build
	@$(MAKE) install-from FROM="$$($(TARGET))/release"

# Copies from the folder FROM. Manual pages and completions come from the command TABANE.
TABANE = $(FROM)/tabane
install-from:
	@root="$(DESTDIR)$(PREFIX)"; umask 022; set -e; \
	mkdir -p "$$root/bin" "$$root/share/man/man1" "$$root/share/bash-completion/completions" \
		"$$root/share/zsh/site-functions" "$$root/share/fish/vendor_completions.d"; \
	cp "$(FROM)/tabane" "$$root/bin/tabane.new"; \
	chmod 755 "$$root/bin/tabane.new"; \
	mv -f "$$root/bin/tabane.new" "$$root/bin/tabane"; \
	mkdir -p "$$root/lib/tabane"; \
	cp "$(FROM)/deps/libtabane_provider.so" "$$root/lib/tabane/tabane.so.new"; \
	chmod 755 "$$root/lib/tabane/tabane.so.new"; \
	mv -f "$$root/lib/tabane/tabane.so.new" "$$root/lib/tabane/tabane.so"; \
	"$(TABANE)" man --quiet --dir "$$root/share/man/man1"; \
	"$(TABANE)" completions bash > "$$root/share/bash-completion/completions/tabane"; \
	"$(TABANE)" completions zsh > "$$root/share/zsh/site-functions/_tabane"; \
	"$(TABANE)" completions fish > "$$root/share/fish/vendor_completions.d/tabane.fish"; \
	echo "installed $$root/bin/tabane, its manual pages and completions, and $$root/lib/tabane/tabane.so"

install-lib:
	$(CARGO) build $(CARGOFLAGS) --release -p tabane-capi
	@$(MAKE) install-lib-from FROM="$$($(TARGET))/release"

# The name with the ABI's number is the one that crates/capi/build.rs gives the library.
install-lib-from:
	@root="$(DESTDIR)$(PREFIX)"; umask 022; set -e; \
	version=$$($(CARGO) pkgid -p tabane-capi | sed 's/.*[@#:]//'); \
	abi=$$(sed -n 's/^const ABI: u32 = \(.*\);/\1/p' crates/capi/build.rs); \
	mkdir -p "$$root/include" "$$root/lib/pkgconfig"; \
	cp crates/capi/include/tabane.h "$$root/include"; \
	cp "$(FROM)/libtabane.a" "$$root/lib"; \
	cp "$(FROM)/libtabane.so" "$$root/lib/libtabane.so.new"; \
	chmod 755 "$$root/lib/libtabane.so.new"; \
	mv -f "$$root/lib/libtabane.so.new" "$$root/lib/libtabane.so.$$version"; \
	ln -sf "libtabane.so.$$version" "$$root/lib/libtabane.so.$$abi"; \
	ln -sf "libtabane.so.$$abi" "$$root/lib/libtabane.so"; \
	printf '%s\n' "prefix=$(PREFIX)" 'Name: tabane' 'Description: Hashes of many messages at once, one a SIMD lane' \
		"Version: $$version" 'Cflags: -I$${prefix}/include' 'Libs: -L$${prefix}/lib -ltabane' \
		'Libs.private: -lpthread -ldl -lm' > "$$root/lib/pkgconfig/tabane.pc"; \
	echo "installed $$root/include/tabane.h, libtabane.so, libtabane.a and tabane.pc"

uninstall:
	@root="$(DESTDIR)$(PREFIX)"; \
	rm -f "$$root/bin/tabane" "$$root/share/man/man1/tabane.1" "$$root/share/man/man1"/tabane-*.1 \
		"$$root/share/bash-completion/completions/tabane" "$$root/share/zsh/site-functions/_tabane" \
		"$$root/share/fish/vendor_completions.d/tabane.fish" "$$root/include/tabane.h" \
		"$$root/lib"/libtabane.so* "$$root/lib/libtabane.a" "$$root/lib/tabane/tabane.so" "$$root/lib/pkgconfig/tabane.pc"

clean:
	$(CARGO) clean

.PHONY: coverage coverage-tools fuzz-coverage simulate sanitize-threads dist test-packages test-image arm-tools test-arm test-arm-short test-kernels test-arm-programs all book guard build documents figures miri models gpu-check fuzz fuzzer fuzz-corpus package wheels test test-all test-examples test-python test-page test-databases test-restic test-libfabric test-simd test-programs test-tools test-servers lint sanitize bench install install-from install-lib \
	uninstall clean
