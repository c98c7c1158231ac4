#!/usr/bin/env bash
# The command from outside: options, messages, exit codes, and inputs that are no programs.
set -u
export HOP_CACHE="${HOP_CACHE-off}"
cd "$(dirname "$0")/.." || exit 2
HOP=$(realpath "${HOP:-${BUILD:-build}/hop}")
if ! [ -x "$HOP" ]; then
    echo "$HOP is not there"
    echo '0 passed, 1 failed'
    exit 1
fi
passed=0 failed=0
sums=$PWD/tests/corpus/product/sums.hop
first=$PWD/examples/first.hop
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2

# expect CODE PATTERN COMMAND…: the exit code, and an extended regular expression somewhere in what it prints ('' for anything)
expect() {
    local code=$1 pattern=$2 found
    shift 2
    "$@" >out 2>&1
    found=$?
    if [ "$found" -eq "$code" ] && { [ -z "$pattern" ] || grep -qE -- "$pattern" out; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$*: expected code $code and '$pattern', found code $found and:"
        head -n 12 out
    fi
}
# same FILE FILE
same() {
    if cmp -s "$1" "$2"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1 and $2 differ:"
        diff "$1" "$2" | head -n 12
    fi
}

cat >square.hop <<'HOP'
hop 1

fn @main(%x: f32[3]) -> (f32[]) {
  %y = mul(%x, %x)
  %s = sum(%y)
  return %s
}

fn @scale[T in 1..100](%v: f32[T], %k: f32[]) -> (f32[T]) {
  %b = broadcast {dims = [T], at = []} (%k)
  %r = mul(%v, %b)
  return %r
}

fn @guard(%x: f32[]) -> (f32[]) {
  %z = full {value = 0, dims = []}
  %p = gt(%x, %z)
  check {message = "x must be positive"} (%p, %x)
  %r = sqrt(%x)
  return %r
}

fn @count(%n: i64[], %b: bool[2], %u: u32[]) -> (i64[], bool[2], u32[]) {
  return %n, %b, %u
}
HOP
cat >good.hop <<'HOP'
hop 1
fn @f(%x: f32[2]) -> (f32[2]) {
  %y = add(%x, %x)
  return %y
}
test @f { x = [1, 2] expect 0 = [2, 4] }
HOP
sed 's/\[2, 4\]/[2, 5]/' good.hop >bad.hop
printf '# error: 3:8: unknown operator\nhop 1\n' >error.hop

# help and versions
expect 0 '^hop [0-9]+\.[0-9]+\.[0-9]+$' "$HOP" --version
expect 0 'Commands:' "$HOP" help
expect 0 'Commands:' "$HOP" --help
expect 2 'Commands:' "$HOP"
expect 2 "no command 'fly'" "$HOP" fly
for c in run test check show grad jvp vmap explain ops; do
    expect 0 "^hop $c " "$HOP" "$c" --help
    expect 0 "^hop $c " "$HOP" help "$c"
    expect 2 "no option '--fly'" "$HOP" "$c" --fly
done
for c in run test check show grad jvp vmap explain; do expect 2 'needs FILE' "$HOP" "$c"; done

# run
expect 0 '^%s: f32\[\] = 14$' "$HOP" run square.hop --in 'x=[1, 2, 3]'
expect 0 '^%s: f32\[\] = 14$' "$HOP" run square.hop --interpret --in 'x=[1, 2, 3]'
expect 0 '^%s: f32\[\] = 14$' "$HOP" run square.hop --strict --without fuse --without=vector --threads 1 --in 'x=[1, 2, 3]'
expect 0 '^%r: f32\[2\] = \[6, 8\]$' "$HOP" run square.hop --fn scale --in 'v=[3, 4]' --in k=2
expect 0 '^%r: f32\[2\] = \[6, 8\]$' "$HOP" run square.hop --fn @scale --in '%v=[3, 4]' --in 1=2
expect 0 '^%r: f32\[5\] = ' "$HOP" run square.hop --fn scale --in 'v:f32[5]=random:7' --in k=2
expect 0 '^%n: i64\[\] = -9000000000000000000$' "$HOP" run square.hop --fn count --in n=-9000000000000000000 --in 'b=[true, false]' --in u=4294967295
expect 0 '"value": 14' "$HOP" run square.hop --json --in 'x=[1, 2, 3]'
expect 0 'first run' "$HOP" run square.hop --time --in 'x=[1, 2, 3]'
"$HOP" run square.hop --in x=random:3 >one && "$HOP" run square.hop --in x=random:3 >two
same one two
"$HOP" run square.hop --strict --in x=random:3 >one && "$HOP" run square.hop --interpret --in x=random:3 >two
same one two
# tensor files
expect 0 '' "$HOP" run square.hop --fn scale --in 'v=[3, 4]' --in k=2 --out r=v.npy
expect 0 '^%r: f32\[2\] = \[18, 24\]$' "$HOP" run square.hop --fn scale --in v=v.npy --in k=3
expect 0 '' "$HOP" run square.hop --fn count --in n=1 --in 'b=[true, false]' --in u=7 --out three.npz
expect 0 '^%u: u32\[\] = 7$' "$HOP" run square.hop --fn count --in n=three.npz:n --in b=three.npz:b --in u=three.npz:u
expect 0 '' "$HOP" run square.hop --fn scale --in 'v=[3, 4]' --in k=2 --out v.safetensors
expect 0 '= \[18, 24\]$' "$HOP" run square.hop --fn scale --in v=v.safetensors:r --in k=3
expect 2 'nothing.npy' "$HOP" run square.hop --fn scale --in v=nothing.npy --in k=3
expect 2 'expected f32' "$HOP" run square.hop --fn scale --in v=three.npz:n --in k=3
expect 2 'out.txt' "$HOP" run square.hop --fn scale --in 'v=[3, 4]' --in k=2 --out out.txt
expect 2 "'x' .*is not given" "$HOP" run square.hop
expect 2 "no parameter 'z'" "$HOP" run square.hop --in z=1
expect 2 'given twice' "$HOP" run square.hop --in 'x=[1,2,3]' --in 'x=[1,2,3]'
expect 2 'NAME=VALUE' "$HOP" run square.hop --in x
expect 2 'expected a number' "$HOP" run square.hop --in 'x=[1, fish, 3]'
expect 2 'x' "$HOP" run square.hop --in 'x=[1, 2]'
expect 2 'a list of 1 elements' "$HOP" run square.hop --in 'x=[[1, 2], [3]]'
expect 2 'fits u32' "$HOP" run square.hop --fn count --in n=1 --in 'b=[true, true]' --in u=-1
expect 2 'true or false' "$HOP" run square.hop --fn count --in n=1 --in 'b=[1, 0]' --in u=1
expect 2 'give the sizes' "$HOP" run square.hop --fn scale --in v=random:1 --in k=1
expect 2 'no function @nothing' "$HOP" run square.hop --fn nothing
expect 2 'no pass' "$HOP" run square.hop --without sleep
expect 2 'exclude' "$HOP" run square.hop --jit --interpret
expect 2 'exclude' "$HOP" run square.hop --backend executor --interpret
expect 0 '^%s: f32\[\] = 14$' "$HOP" run square.hop --backend executor --in 'x=[1, 2, 3]'
expect 2 "there is no back end 'abacus'; the back ends are llvm, executor" "$HOP" run square.hop --backend abacus --in 'x=[1, 2, 3]'
expect 2 'from 1 to' "$HOP" run square.hop --threads 0
expect 0 '%r: f32\[\] = 2' "$HOP" run square.hop --fn guard --in x=4
expect 1 'x must be positive' "$HOP" run square.hop --fn guard --in x=-4
expect 1 'x must be positive' "$HOP" run square.hop --fn guard --in x=-4 --interpret

# files that are no programs
expect 2 'No such file' "$HOP" run nothing.hop
expect 2 'directory' "$HOP" run .
head -c 4096 /dev/urandom >noise.hop
expect 2 'noise.hop' "$HOP" check noise.hop
printf 'hop 1\nfn @f(%%x: f32[' >cut.hop
expect 2 'cut.hop:2:' "$HOP" check cut.hop
: >empty.hop
expect 2 'no function' "$HOP" run empty.hop
expect 2 'no\.hop|square' "$HOP" check square.hop no.hop
if [ -w /dev/full ]; then expect 2 'could not be written' sh -c '"$0" show square.hop >/dev/full' "$HOP"; fi

# check, show
expect 0 '^square.hop: ok$' "$HOP" check square.hop
expect 0 '"ok": true' "$HOP" check --json square.hop
"$HOP" show square.hop >once.hop && "$HOP" show once.hop >twice.hop
same once.hop twice.hop
expect 0 'fn @scale' "$HOP" show square.hop --fn scale
expect 0 'fn ' "$HOP" show square.hop --simplify
expect 0 'square.hop' "$HOP" show square.hop --locations

# between the passes: a call is there until inline, a sum of two equal nodes until cse, what nobody reads until dce
cat >between.hop <<'END'
hop 1
fn @twice(%x: f32[]) -> (f32[]) {
  %y = add(%x, %x)
  return %y
}
fn @main(%x: f32[]) -> (f32[]) {
  %a = invoke_subgraph @twice(%x)
  %b = sin(%a)
  %c = sin(%a)
  %unread = cos(%a)
  %d = mul(%b, %c)
  return %d
}
END
count_of() { printf '%s\n' "$1" | grep -cE "$2"; }
inlined=$("$HOP" show between.hop --after inline)
merged=$("$HOP" show between.hop --after cse)
pruned=$("$HOP" show between.hop --after dce)
result="$(count_of "$inlined" invoke_subgraph) $(count_of "$inlined" 'sin\(') $(count_of "$merged" 'sin\(')"
result="$result $(count_of "$merged" 'cos\(') $(count_of "$pruned" 'cos\(')"
expect 0 '^0 2 1 1 0$' echo "$result"
expect 2 "no pass 'fuse'" "$HOP" show between.hop --after fuse

# transforms
expect 0 'f32\[3\] = \[2, 4, 6\]$' "$HOP" grad square.hop --run --in 'x=[1, 2, 3]'
expect 0 '= 14$' "$HOP" grad square.hop --run --value --in 'x=[1, 2, 3]'
expect 0 'fn ' "$HOP" grad square.hop --wrt x --simplify
expect 0 'fn ' "$HOP" grad square.hop --wrt x --after fold

# a pass that is switched off is off in the transform, too
cat >counted.hop <<'END'
hop 1
fn @main(%x: f32[], %n: i64[]) -> (f32[]) {
  %zero = full {value = 0, dims = [], dtype = i64}
  %i, %y = while_loop carry(%k = %zero, %c = %x) cond with(%n) {
    %p = lt(%k, %n)
    test(%p)
  } body {
    %one = full {value = 1, dims = [], dtype = i64}
    %j = add(%k, %one)
    %z = sin(%c)
    next(%j, %z)
  }
  return %y
}
END
expect 0 'fori_loop|scan' "$HOP" grad counted.hop --wrt x
expect 0 'while_loop' "$HOP" grad counted.hop --wrt x --without trips
HOP_DEBUG=verify expect 0 '^%[^:]*: f32\[\] = 0.54030' "$HOP" grad counted.hop --wrt x --without trips --run --in x=1 --in n=1
"$HOP" grad square.hop >grad.hop
expect 0 'ok' "$HOP" check grad.hop
expect 2 'scalar' "$HOP" grad square.hop --fn scale
expect 2 "no parameter 'q'" "$HOP" grad square.hop --wrt q
expect 0 '= 12$' "$HOP" jvp square.hop --run --in 'x=[1, 2, 3]' --in '1=[1, 1, 1]'
printf 'hop 1\nfn @two(%%x: f32[], %%y: f32[]) -> (f32[], f32[]) {\n  %%a = neg(%%y)\n  %%b = neg(%%x)\n  return %%a, %%b\n}\n' >two.hop
expect 0 '-> \(f32\[\], f32\[\], f32\[\], f32\[\]\)' "$HOP" jvp two.hop --wrt x # a tangent for every float result, zeros where it depends on nothing
expect 0 '= 0$' "$HOP" jvp two.hop --wrt x --run --in x=1 --in y=2 --in d_x=3
expect 0 'f32\[2\] = \[14, 77\]$' "$HOP" vmap square.hop --run --in 'x=[[1, 2, 3], [4, 5, 6]]'
expect 0 'f32\[2, 2\] = \[\[3, 4\], \[6, 8\]\]$' "$HOP" vmap square.hop --fn scale --in-axes v=none --run --in 'v=[3, 4]' --in 'k=[1, 2]'
expect 2 'axis from 0' "$HOP" vmap square.hop --in-axes x=7

# test
expect 0 '^[0-9]+ passed, 0 failed$' "$HOP" test good.hop
expect 1 '^bad.hop:6: interpreter: result 0: element \[1\]: expected 5' "$HOP" test bad.hop
expect 1 '^[0-9]+ passed, [1-9][0-9]* failed$' "$HOP" test good.hop bad.hop
expect 0 'good.hop:6: interpreter: ok' "$HOP" test --verbose good.hop
expect 1 'expected the error' "$HOP" test error.hop
expect 1 'noise.hop' "$HOP" test noise.hop
mkdir -p tree/branch && cp good.hop tree/branch/ && echo 'not a program' >tree/notes.txt
expect 0 '^[0-9]+ passed, 0 failed$' "$HOP" test tree
expect 2 'No such file' "$HOP" test nowhere
expect 0 '^[0-9]+ passed, 0 failed$' "$HOP" test --interpret good.hop
expect 0 'good.hop:6: executor strict without fuse: ok' "$HOP" test --verbose --backend executor good.hop

# updated parameters
cat >update.hop <<'HOP'
hop 1

fn @step(%w: mut f32[N], %x: f32[N], %n: mut i64[]) -> (new %w, f32[], new %n) {
  %y = mul(%w, %x)
  %s = sum(%y)
  %one = full {value = 1, dims = [], dtype = i64}
  %k = add(%n, %one)
  return %y, %s, %k
}
HOP
expect 0 '^fn @step\(%w: mut f32\[N\], %x: f32\[N\], %n: mut i64\[\]\) -> \(new %w, f32\[\], new %n\) \{$' "$HOP" show update.hop
expect 0 '^new %w: f32\[2\] = \[3, 8\]$' "$HOP" run update.hop --in w=[1,2] --in x=[3,4] --in n=6
expect 0 '^%s: f32\[\] = 11$' "$HOP" run update.hop --in w=[1,2] --in x=[3,4] --in n=6 --interpret
expect 0 '"name": "n", "new": true, "type": "i64\[\]", "value": 7' "$HOP" run update.hop --in w=[1,2] --in x=[3,4] --in n=6 --json
expect 0 '^new %n' "$HOP" run update.hop --in w=[1,2] --in x=[3,4] --in n=6 --out w=w.npy
expect 0 '^new %w: f32\[2\] = \[9, 32\]$' "$HOP" run update.hop --in w=w.npy --in x=[3,4] --in n=6
expect 0 '-> \(f32\[\], new %w, new %n, f32\[N\]\)' "$HOP" grad update.hop --wrt x --value
expect 0 '-> \(f32\[N\]\)' "$HOP" grad update.hop --wrt x
expect 0 '-> \(f32\[\], f32\[\]\)' "$HOP" jvp update.hop --wrt x
expect 0 '-> \(new %w, f32\[.*\], new %n\)' "$HOP" vmap update.hop
expect 2 "'w' is updated, differently for each lane of 'x'" "$HOP" vmap update.hop --in-axes w=none,n=none
if "$HOP" explain square.hop >/dev/null 2>&1; then
    expect 0 '^  w +in place$' "$HOP" explain update.hop
    expect 0 '"updates": \[\{"parameter": "w", "in_place": true\}' "$HOP" explain update.hop --json
    expect 0 '^  w +copied: updates in place are switched off' "$HOP" explain update.hop --without inplace
fi

# operators from outside
library=$(dirname "$(realpath "$(command -v "$HOP")")")/tests/operators.so
cat > outside.hop <<'END'
hop 1
operator @scaled(x: f32[N], factor: f32[]) -> f32[N]
fn @main(%x: f32[N]) -> (f32[N]) {
  %k = full {value = 3, dims = [], dtype = f32}
  %y = scaled(%x, %k)
  return %y
}
END
sed 's/f32\[N\], factor/f32[N, 2], factor/; s/%x: f32\[N\]/%x: f32[N, 2]/' outside.hop > otherwise.hop
if [ -e "$library" ]; then
    expect 0 '^%y: f32\[2\] = \[3, 6\]' "$HOP" run outside.hop --operators "$library" --in 'x=[1, 2]'
    expect 0 '^%y: f32\[2\] = \[3, 6\]' "$HOP" run outside.hop --operators "$library" --in 'x=[1, 2]' --interpret
    expect 0 '^scaled +from outside scaled\(x: f32\[N\], factor: f32\[\]\) -> f32\[N\]' "$HOP" ops --operators "$library"
    expect 0 'effects +check' "$HOP" ops ratio_sum --operators "$library"
    expect 2 'the program declares scaled\(x: f32\[N, 2\], .* registered is scaled\(x: f32\[N\]' "$HOP" run otherwise.hop --operators "$library" --in 'x=[[1, 2]]'
fi
expect 2 "outside.hop:5:3: scaled: there is no operator 'scaled': expected one that hop_operator_register or --operators" "$HOP" run outside.hop --in 'x=[1, 2]'
expect 2 '--operators: ./nowhere.so: ' "$HOP" run outside.hop --operators nowhere.so --in 'x=[1, 2]'

# profiles
if "$HOP" explain square.hop >/dev/null 2>&1; then
    expect 0 'self  entered +trips +rate  what' "$HOP" run "$first" --in h=0 --in w=0.5 --in 'xs:f32[9000]=random:3' --profile
    expect 0 '1 +9000 +scan' "$HOP" run "$first" --in h=0 --in w=0.5 --in 'xs:f32[9000]=random:3' --profile
    "$HOP" run "$first" --in h=0 --in w=0.5 --in 'xs=[1]' --profile-out profile.svg >/dev/null 2>&1
    expect 0 '^<svg ' cat profile.svg
    expect 2 "expected table, json, svg or folded, found 'flame'" "$HOP" run "$first" --in h=0 --in w=0.5 --in 'xs=[1]' --profile=flame
    expect 2 'cannot be written' "$HOP" run "$first" --in h=0 --in w=0.5 --in 'xs=[1]' --profile-out missing/x.svg
fi
expect 2 'exclude each other' "$HOP" run "$first" --in h=0 --in w=0.5 --in 'xs=[1]' --profile --interpret

# explain, ops
if "$HOP" run square.hop --jit --in 'x=[1,2,3]' >/dev/null 2>&1; then
    expect 0 'code: [0-9]+ bytes' "$HOP" explain square.hop
    expect 0 'nests: ' "$HOP" explain square.hop --grad --saved --loops
    expect 0 'res0\[0\] \+= gemm\(arg2' "$HOP" explain "$sums" --fn sums --loops
    expect 0 '    res0\[0\] \+= gemm\(' "$HOP" explain "$sums" --fn carried --loops --without accumulate
    cat > policies.hop <<'END'
hop 1
fn @layer(%x: f32[2, 2], %w: f32[2, 2]) -> (f32[2, 2]) {
  %a = matmul(%x, %w)
  %n = tag {name = "first"} (%a)
  %s = sin(%n)
  %t = tanh(%s)
  return %t
}
fn @loss(%x: f32[2, 2], %w: f32[2, 2]) -> (f32[]) {
  %y = invoke_subgraph {policy = "names(save = [first])"} @layer(%x, %w)
  %z = scan {length = 3} carry(%c = %y) with(%v = %w) {
    %l = invoke_subgraph {policy = "products"} @layer(%c, %v)
    next(%l)
  }
  %t = sum(%z)
  return %t
}
END
    expect 0 "'first'  *f32\\[2, 2\\]  *16 .*invoke_subgraph: kept, by policy \"names\\(save = \\[first\\]\\)\"" \
        "$HOP" explain policies.hop --fn loss --grad --saved
    expect 0 "'first'  *f32\\[3, 2, 2\\]  *48 .*scan: kept, by policy \"products\"; 16 bytes a row" \
        "$HOP" explain policies.hop --fn loss --grad --saved
    expect 0 ' y  *f32\[2, 2\]  *16 .*scan: its pullback reads it' \
        "$HOP" explain policies.hop --fn loss --grad --saved
    expect 0 '"tag": "first".*"policy": "products"' "$HOP" explain policies.hop --fn loss --grad --saved --json
    expect 0 'define' "$HOP" explain square.hop --llvm
    expect 0 'ret' "$HOP" explain square.hop --asm
    expect 0 '"code_bytes": ' "$HOP" explain square.hop --json
    HOP_BACKEND= expect 0 '14' "$HOP" run square.hop --in 'x=[1,2,3]'
fi
expect 0 '^scan ' "$HOP" ops
expect 0 'attribute reverse' "$HOP" ops scan
expect 0 '"kind": "higher-order"' "$HOP" ops --json scan
expect 2 "no operator 'fish'" "$HOP" ops fish
if command -v python3 >/dev/null; then
    expect 0 '^good$' sh -c '"$0" ops --json | python3 -c "
import json, sys
rows = json.load(sys.stdin)
columns = \"infer eval vjp jvp batch lower samples\".split()
assert len(rows) > 20
for r in rows:
    assert r[\"kind\"] in (\"first-order\", \"composite\", \"higher-order\") and r[\"meaning\"]
    assert list(r[\"columns\"]) == columns
    assert all(c == \"yes\" or c.startswith(\"none: \") for c in r[\"columns\"].values())
print(\"good\")"' "$HOP"
    for c in 'run square.hop --in x=[1,2,3]' 'check square.hop'; do expect 0 '^good$' sh -c '"$0" $1 --json | python3 -c "import json, sys; json.load(sys.stdin); print(\"good\")"' "$HOP" "$c"; done
fi

# tensor files in and out
data=$OLDPWD/tests/data
cat >files.hop <<'HOP'
hop 1
fn @main(%x: f32[2, 3]) -> (f32[2, 3], f32[]) {
  %y = mul(%x, %x)
  %s = sum(%y)
  return %y, %s
}
HOP
for file in f4.npy plain.npz:a several.safetensors:w; do expect 0 '= 17\.5$' "$HOP" run files.hop --interpret --in "x=$data/$file"; done
expect 0 '^%s: f32\[\] = 17\.5$' "$HOP" run files.hop --interpret --in "x=$data/f4.npy" --out y=y.npy
expect 0 '= \[\[39' "$HOP" run files.hop --interpret --in x=y.npy
expect 0 '"file": "y.npy"' "$HOP" run files.hop --interpret --in "x=$data/f4.npy" --out y=y.npy --json
expect 0 '' "$HOP" run files.hop --interpret --in "x=$data/f4.npy" --out r.npz --out r.safetensors --out %s=s.npy
[ ! -s out ] || { failed=$((failed + 1)); echo 'results that go to files are printed'; }
for file in r.npz:y r.safetensors:y; do expect 0 '= \[\[39' "$HOP" run files.hop --interpret --in "x=$file"; done
expect 2 '^hop: --in x: expected f32\[2, 3\], found f64\[2, 3, 2\] in ' "$HOP" run files.hop --in "x=$data/f8_fortran.npy"
expect 2 'the names are: a, b, ' "$HOP" run files.hop --in "x=$data/plain.npz"
expect 2 'no.npy: cannot be opened' "$HOP" run files.hop --in x=no.npy
expect 2 "there is no result 'q'; the results are: y, s" "$HOP" run files.hop --in "x=$data/f4.npy" --out q=q.npy
expect 2 'holds one tensor, found 2' "$HOP" run files.hop --in "x=$data/f4.npy" --out r.npy
expect 2 'ends in .npy, .npz or .safetensors' "$HOP" run files.hop --in "x=$data/f4.npy" --out r.txt
expect 2 'cannot be written' "$HOP" run files.hop --in "x=$data/f4.npy" --out nowhere/r.npz

# an installed hop finds its back end
root=$OLDPWD
if [ -n "${BUILD:-}" ]; then
    expect 0 '' make -s -C "$root" BUILD="$BUILD" PREFIX="$dir/prefix" install
    expect 0 '= 14$' prefix/bin/hop run square.hop --in 'x=[1, 2, 3]'
    if [ -e "$root/$BUILD/libhop_llvm.so" ]; then expect 0 '= 14$' prefix/bin/hop run square.hop --jit --in 'x=[1, 2, 3]'; fi
    mkdir -p alone && cp "$HOP" alone/ # the installed one knows where its back end is
    expect 0 'hop: interpreting: ' alone/hop run square.hop --in 'x=[1, 2, 3]'
    expect 2 'cannot compile: ' alone/hop run square.hop --jit --in 'x=[1, 2, 3]'
    expect 2 'without a compiler' alone/hop explain square.hop
    expect 0 '^[0-9]+ passed, 0 failed$' alone/hop test good.hop
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
