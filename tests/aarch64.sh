#!/usr/bin/env bash
# Emitted C on AArch64: hop is built by a cross compiler, and the tests of programs run through emitted C under an emulator, bit for bit against the interpreter
# there: `tests/aarch64.sh [FILE|DIR…]`, otherwise the whole corpus. Not part of make test; see docs/emit.md.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}/aarch64
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v $tool >/dev/null || {
        echo "there is no $tool: install gcc-aarch64-linux-gnu, qemu-user and zlib1g-dev:arm64" >&2
        exit 2
    }
done
export HOP_CACHE=off HOP_SETUP=done
make -s BUILD="$build" CC=aarch64-linux-gnu-gcc CFLAGS=-O1 LLVM_CONFIG= "$build/hop" "$build/tests/operators.so"
[ $# -gt 0 ] || set -- tests/corpus examples
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/clang" <<'END'
#!/bin/sh
exec clang --target=aarch64-linux-gnu "$@"
END
chmod +x "$dir/clang"
status=0
for compiler in aarch64-linux-gnu-gcc "$dir/clang"; do
    if [ "$compiler" = "$dir/clang" ] && ! command -v clang >/dev/null; then continue; fi
    echo "${compiler##*/}:"
    CC=$compiler HOP_TEST_CFLAGS=-O2 qemu-aarch64 "$build/hop" test --c --quick --operators "$build/tests/operators.so" "$@" || status=1
done
exit $status
