# Writes the public header with its lists of elementwise operators as elementwise.def has them:
#   awk -f src/ops/header.awk src/ops/elementwise.def include/hop/hop.h
# Those are HOP_UNARY_OPERATORS, HOP_BINARY_OPERATORS, and behind a comment that says so a macro for each call.
# A macro cannot be made by another one, so this is done by make, and the header is the same for every compiler.
FNR == NR {
    if (match($0, /^(UNARY|BINARY)\([a-z0-9_]+,/)) {
        split(substr($0, 1, RLENGTH - 1), part, "(")
        names[part[1]] = names[part[1]] " " part[2]
    }
    next
}
function list(kind,    n, each, i, line, item) {
    n = split(names[kind], each, " ")
    print "#define HOP_" kind "_OPERATORS(X) \\"
    line = "   "
    for (i = 1; i <= n; i++) {
        item = " X(" each[i] ")"
        if (length(line) + length(item) > 108) {
            print line " \\"
            line = "   "
        }
        line = line item
    }
    print line
}
function calls(kind,    n, each, i) {
    n = split(names[kind], each, " ")
    for (i = 1; i <= n; i++) print "#define hop_" each[i] "(...) hop_" each[i] "_at(HOP_HERE, __VA_ARGS__)"
}
in_list {
    in_list = /\\$/
    next
}
in_calls && /^#define hop_/ { next }
{ in_calls = 0 }
match($0, /^#define HOP_(UNARY|BINARY)_OPERATORS\(X\)/) {
    list(substr($0, 13, index($0, "_OPERATORS") - 13))
    in_list = 1
    next
}
{ print }
/^\/\* Calls of the operators of elementwise.def/ {
    calls("UNARY")
    calls("BINARY")
    in_calls = 1
}
