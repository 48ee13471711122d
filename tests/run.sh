#!/usr/bin/env bash
# Everything that must hold, on a fresh machine with rustup and Python 3: gate, tests, the real binary, the official client.
#
#   tests/run.sh          the normal run
#   tests/run.sh --long   also 200 rounds of kill -9, 100,000 simulated lives, and minutes of fuzzing
#
# The last line is `N passed, N failed`; the exit status is 0 only if nothing failed. What cannot be had here (a tool, the network) is
# told as a note and not counted. FUZZ_MINUTES says how long each fuzz target runs in the long run (default 10).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

LONG=false
for argument in "$@"; do
    case "$argument" in
        --long) LONG=true ;;
        -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "tests/run.sh: unknown argument $argument (there is --long)" >&2; exit 2 ;;
    esac
done

CACHE=$PWD/tests/.cache
LOGS=$CACHE/logs
TARGET=${CARGO_TARGET_DIR:-$PWD/target}
VENV=$CACHE/venv
DENY_VERSION=0.20.2
mkdir -p "$LOGS"
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0 PIP_DISABLE_PIP_VERSION_CHECK=1
exec < /dev/null

PASSED=0
FAILED=0
NOTES=()
BEGAN=$SECONDS

note() {
    NOTES+=("$*")
    echo "  note  $*"
}

# One line about a part: how it went, how long it took, what it counted.
told() {
    printf '  %-5s %-52s %4d s  %s\n' "$1" "$2" "$3" "${4:-}"
}

# Runs a command with its output in a log; shows the log if it failed. Sets LOG and TOOK.
quietly() {
    local began=$SECONDS status
    LOG=$LOGS/$(echo "$1" | tr -cs 'a-zA-Z0-9\n' '-').log
    shift
    "$@" > "$LOG" 2>&1
    status=$?
    TOOK=$((SECONDS - began))
    return $status
}

show_log() {
    echo "------ the end of ${LOG#"$PWD"/}"
    tail -n "${1:-60}" "$LOG"
    echo "------"
}

# A part that either holds or does not: one passed or one failed.
check() {
    local name=$1
    if quietly "$@"; then
        PASSED=$((PASSED + 1))
        told ok "$name" "$TOOK"
    else
        FAILED=$((FAILED + 1))
        told FAIL "$name" "$TOOK"
        show_log
        return 1
    fi
}

# A part that counts: sums what its test runner says. A part that ends badly without a failed test is a failure itself.
tests() {
    local name=$1 status passed failed
    quietly "$@"
    status=$?
    read -r passed failed < <(count "$LOG")
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
    if [ "$status" -eq 0 ] && [ "$passed" -eq 0 ]; then failed=1; fi
    PASSED=$((PASSED + passed))
    FAILED=$((FAILED + failed))
    if [ "$failed" -eq 0 ]; then
        told ok "$name" "$TOOK" "$passed passed"
    else
        told FAIL "$name" "$TOOK" "$passed passed, $failed failed"
        grep -E '^(test .* FAILED|FAIL: |ERROR: |error(\[|:))' "$LOG" | sort -u | head -n 40
        show_log 100
        return 1
    fi
}

# "passed failed" out of a log of cargo test or of Python's unittest.
count() {
    awk '
        /^test result: / { for (i = 1; i < NF; i++) { if ($(i + 1) == "passed;") passed += $i; if ($(i + 1) == "failed;") failed += $i } }
        /^Ran [0-9]+ tests? in / { ran += $2 }
        /^FAILED \(/ { line = $0; gsub(/[^0-9,]/, "", line); n = split(line, parts, ","); for (i = 1; i <= n; i++) bad += parts[i] }
        END { if (bad > ran) bad = ran; print passed + ran - bad + 0, failed + bad + 0 }
    ' "$1"
}

# The test binaries that took longest, out of a log of cargo test.
slowest() {
    awk '
        /^ +Running / { name = $0; sub(/.*[\/]deps[\/]/, "", name); sub(/-[0-9a-f]+\)$/, "", name) }
        /^ +Doc-tests / { name = "doc " $2 }
        /^test result: / { time = $NF; sub(/s$/, "", time); if (time + 0 >= 1) printf "%8.1f s  %s\n", time, name }
    ' "$1" | sort -rn | head -n 8 | sed 's/^/        /'
}

part() {
    printf '%s\n' "$1"
}

# --- tools

need() {
    command -v "$1" > /dev/null || { echo "tests/run.sh needs $1: $2" >&2; echo "0 passed, 1 failed"; exit 1; }
}

export PATH=$PATH:$HOME/.cargo/bin
need cargo "install Rust with rustup, https://rustup.rs"
need python3 "install Python 3.9 or later"
need curl "it is used as README.md says"

part "tools"
if command -v rustup > /dev/null; then
    # Installs the compiler that rust-toolchain.toml names, if it is missing.
    quietly toolchain cargo --version || { show_log; echo "0 passed, 1 failed"; exit 1; }
    if ! quietly wasm rustup target add wasm32-wasip2; then
        note "the target wasm32-wasip2 cannot be installed here; plugins will need it, nothing does so far"
    fi
else
    note "no rustup: using $(cargo --version) as it is"
fi

python_packages() {
    [ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" || return 1
    "$VENV/bin/python" -m pip install --quiet --requirement tests/python/requirements.txt
}

# Built without optimisation, which halves the time; it looks at a lock file, not at a universe.
install_deny() {
    DENY=$(command -v cargo-deny || true)
    [ -n "$DENY" ] && return 0
    DENY=$CACHE/tools/bin/cargo-deny
    [ -x "$DENY" ] && return 0
    CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$CACHE/tools/target \
        cargo install --quiet --locked --debug --root "$CACHE/tools" "cargo-deny@$DENY_VERSION" && rm -rf "$CACHE/tools/target"
}

# Counts instructions; Debian has it.
install_valgrind() {
    command -v valgrind > /dev/null && return 0
    command -v apt-get > /dev/null && [ "$(id -u)" -eq 0 ] || return 1
    { apt-get install --yes --no-install-recommends valgrind || { apt-get update && apt-get install --yes --no-install-recommends valgrind; }; }
}

# --- the gate

part "gate"
check "fmt" cargo fmt --all --check
check "clippy" cargo clippy --workspace --all-targets --locked -- -D warnings
check "docs" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
if quietly "install cargo-deny" install_deny; then
    check "deny" "$DENY" --locked check bans licenses sources
else
    note "cargo-deny $DENY_VERSION cannot be installed here: bans, licences and sources were not checked"
fi

# --- the product

part "product"
if check "build" cargo build --release --locked -p geminga-geminga; then
    export GEMINGA_BIN=$TARGET/release/geminga
fi

part "tests"
quietly "install valgrind" install_valgrind || note "valgrind cannot be installed here: instructions per message were not counted"
# One selection of crates for all of it, so that nothing is built twice for the sake of features.
if [ -n "${GEMINGA_BIN:-}" ] && check "build the tests" cargo test --workspace --locked --no-run; then
    tests "rooms, house and behaviours" cargo test --workspace --locked --no-fail-fast
    slowest "$LOG"
    if quietly "install python packages" python_packages; then
        tests "official client and readme" "$VENV/bin/python" -m unittest discover --verbose --start-directory tests/python
        grep -ho 'case [a-z], .*' "$LOG" | sed 's/^/        /'
    else
        FAILED=$((FAILED + 1))
        told FAIL "install python packages" "$TOOK"
        show_log
    fi
fi

# --- the long run

if $LONG && [ -n "${GEMINGA_BIN:-}" ]; then
    part "long"
    tests "200 rounds of kill -9, 100 restarts" env GEMINGA_LONG=1 \
        cargo test --workspace --locked --test all -- --nocapture durability:: restart::
    grep -h 'acked=.*lost=' "$LOG"
    tests "100,000 simulated lives" env SIM_SEEDS=100000 cargo test --release -p geminga-topic --locked --test sim -- --nocapture
    tests "crashes of the log at every point" env CRASH_SEEDS=100 cargo test --release -p geminga-ledger --locked --test crash
    tests "fuzz, wire" env GEMINGA_FUZZ_SECONDS=$((${FUZZ_MINUTES:-10} * 60)) cargo test --release -p geminga-wire --locked --test fuzz
    tests "fuzz, recovery" env FUZZ_ROUNDS=$((${FUZZ_MINUTES:-10} * 60000)) cargo test --release -p geminga-ledger --locked --test fuzz
fi

echo
for text in "${NOTES[@]+"${NOTES[@]}"}"; do echo "note: $text"; done
echo "took $((SECONDS - BEGAN)) s; logs are in tests/.cache/logs"
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" -eq 0 ]
