/* The programs of simplify_test.c: { name, gradient parameters, passes, structure afterwards, text }. */
/* Their text is not C. clang-format lays none of it out: */
/* clang-format off */
#define TEXT(...) "hop 1\n" #__VA_ARGS__ "\n"

/* ---- inline ---- */
{ "a small body is inlined", "", "inline", "invoke_subgraph=0 add=2 mul=1",
  TEXT(fn @twice(%x: f32[4]) -> (f32[4]) { %y = add(%x, %x) return %y }
       fn @main(%x: f32[4]) -> (f32[4]) { %a = invoke_subgraph @twice(%x) %b = mul(%a, %x) %c = invoke_subgraph @twice(%b) return %c }) },
{ "a large body with two callers stays a call", "", "inline", "invoke_subgraph=2 nodes=3",
  TEXT(fn @long(%x: f32[4]) -> (f32[4]) {
           %a = exp(%x) %b = neg(%a) %c = tanh(%b) %d = exp(%c) %e = neg(%d) %f = tanh(%e) %g = exp(%f)
           %h = neg(%g) %i = tanh(%h) %j = exp(%i) %k = neg(%j) %l = tanh(%k) %n = exp(%l) return %n }
       fn @main(%x: f32[4], %y: f32[4]) -> (f32[4]) { %a = invoke_subgraph @long(%x) %b = invoke_subgraph @long(%y) %c = add(%a, %b) return %c }) },
{ "a large body with one caller is inlined", "", "inline", "invoke_subgraph=0 exp=5",
  TEXT(fn @long(%x: f32[4]) -> (f32[4]) {
           %a = exp(%x) %b = neg(%a) %c = tanh(%b) %d = exp(%c) %e = neg(%d) %f = tanh(%e) %g = exp(%f)
           %h = neg(%g) %i = tanh(%h) %j = exp(%i) %k = neg(%j) %l = tanh(%k) %n = exp(%l) return %n }
       fn @main(%x: f32[4]) -> (f32[4]) { %a = invoke_subgraph @long(%x) return %a }) },
{ "a body with symbols is inlined", "", "inline", "invoke_subgraph=0",
  TEXT(fn @rows[N, K](%x: f32[N, K], %y: f32[K]) -> (f32[N, K]) { %b = broadcast {dims = [N, K], at = [1]} (%y) %r = add(%x, %b) return %r }
       fn @main[A](%x: f32[A, 3], %y: f32[3]) -> (f32[A, 3]) { %r = invoke_subgraph @rows(%x, %y) return %r }) },

/* ---- fold ---- */
{ "constants are evaluated", "", "fold dce", "nodes=1 full=1",
  TEXT(fn @main(%x: f32[3]) -> (f32[3]) {
           %a = full {value = 2, dims = [3]} %b = full {value = 0.5, dims = [3]} %c = mul(%a, %b) %d = exp(%c) %e = log(%d) return %e }) },
{ "small constants are evaluated", "", "fold dce", "nodes=1 constant=1",
  TEXT(const @k: i32[2, 3] = [[1, 2, 3], [4, 5, 6]] fn @main(%x: f32[3]) -> (i32[3, 2]) {
           %a = constant {value = @k} %b = add(%a, %a) %c = permute {order = [1, 0]} (%b) return %c }) },
{ "identities of numbers", "", "fold dce", "nodes=1 add=1",
  TEXT(fn @main(%x: f32[4], %y: f32[4]) -> (f32[4]) {
           %one = full {value = 1, dims = [4]} %zero = full {value = 0, dims = [4]} %minus = full {value = -0.0, dims = [4]}
           %a = mul(%x, %one) %b = div(%a, %one) %c = add(%b, %minus) %d = sub(%c, %zero) %e = neg(%d) %f = neg(%e)
           %g = max(%f, %f) %h = min(%g, %g) %i = neg(%y) %j = sub(%h, %i) return %j }) },
{ "what is no identity stays", "", "fold dce", "add=1 mul=1 sub=1 sum=1",
  TEXT(fn @main(%x: f32[4]) -> (f32[4], f32[4], f32[4], f32[]) {
           %zero = full {value = 0, dims = [4]} %a = add(%x, %zero) %b = mul(%x, %zero) %c = sub(%x, %x) %d = sum(%x) return %a, %b, %c, %d }) },
{ "integers have more identities", "", "fold cse dce", "full=2 nodes=2",
  TEXT(fn @main(%x: i64[4]) -> (i64[4], i64[4], bool[4], i64[4]) {
           %zero = full {value = 0, dims = [4], dtype = i64} %a = add(%x, %zero) %b = mul(%a, %zero) %c = sub(%x, %x) %d = le(%x, %x) %e = eq(%b, %c)
           %f = and(%d, %e) return %a, %b, %f, %c }) },
{ "selects with known or equal choices", "", "fold dce", "select=1 not=0",
  TEXT(fn @main(%c: bool[3], %x: f32[3], %y: f32[3]) -> (f32[3]) {
           %t = full {value = 1, dims = [3], dtype = bool} %a = select(%t, %x, %y) %b = select(%c, %a, %x) %n = not(%c) %d = select(%n, %b, %y) return %d }) },
{ "arrangements compose", "", "fold dce", "nodes=0",
  TEXT(fn @main[T](%x: f32[T, 2, 3]) -> (f32[T, 2, 3]) {
           %a = permute {order = [2, 0, 1]} (%x) %b = permute {order = [1, 2, 0]} (%a) %c = reshape {dims = [T, 6]} (%b) %d = reshape {dims = [6, T]} (%c)
           %e = reshape {dims = [T, 2, 3]} (%d) %f = reverse {dims = [0, 2]} (%e) %g = reverse {dims = [2, 0]} (%f)
           %h = slice {start = [0, 0, 0], limit = [T, 2, 3]} (%g) return %h }) },
{ "broadcasts and slices compose", "", "fold dce", "broadcast=1 slice=1 nodes=2",
  TEXT(fn @main(%x: f32[3], %y: f32[9]) -> (f32[2, 4, 3], f32[2]) {
           %a = broadcast {dims = [4, 3], at = [1]} (%x) %b = broadcast {dims = [2, 4, 3], at = [1, 2]} (%a)
           %c = slice {start = [1], limit = [8]} (%y) %d = slice {start = [2], limit = [6], step = [2]} (%c) return %b, %d }) },
{ "arranged fulls are fulls", "", "fold dce", "full=1 nodes=2 add=1",
  TEXT(fn @main[T](%x: f32[T, 4]) -> (f32[T, 4]) {
           %a = full {value = 3, dims = []} %b = broadcast {dims = [4, T], at = []} (%a) %c = permute {order = [1, 0]} (%b) %d = reverse {dims = [0]} (%c)
           %e = exp(%d) %f = log(%e) %g = add(%x, %f) return %g }) },
{ "a slice of one part of a concat", "", "fold dce", "nodes=0",
  TEXT(fn @main[T](%x: f32[T], %y: f32[3]) -> (f32[3]) {
           %a = concat {dim = 0} (%x, %y) %b = slice {start = [T], limit = [T + 3]} (%a) return %b }) },
{ "slices one behind the other", "", "fold dce", "concat=1 slice=2 nodes=3",
  TEXT(fn @main[T](%x: f32[T, 6], %y: f32[T, 1]) -> (f32[T, 6], f32[T, 4]) {
           %a = slice {start = [0, 0], limit = [T, 2]} (%x) %b = slice {start = [0, 2], limit = [T, 3]} (%x) %c = slice {start = [0, 3], limit = [T, 6]} (%x)
           %d = concat {dim = 1} (%a, %b, %c) %e = concat {dim = 1} (%b, %c, %y) %f = slice {start = [0, 1], limit = [T, 5]} (%e) %g = concat {dim = 1} (%y, %b, %c)
           %h = slice {start = [0, 0], limit = [T, 4]} (%g) return %d, %h }) },
{ "casts that lose nothing", "", "fold dce", "nodes=0",
  TEXT(fn @main(%x: f32[3], %i: i32[2]) -> (f32[3], i32[2]) {
           %a = cast {dtype = f64} (%x) %b = cast {dtype = f32} (%a) %c = cast {dtype = i64} (%i) %d = cast {dtype = i32} (%c) return %b, %d }) },
{ "a cast that saturates stays", "", "fold dce", "cast=2 neg=1",
  TEXT(fn @main(%i: i32[4]) -> (u32[4]) { %n = neg(%i) %a = cast {dtype = f64} (%n) %b = cast {dtype = u32} (%a) return %b }) },
{ "reverses of different dims", "", "fold dce", "reverse=2",
  TEXT(fn @main(%x: f32[3, 4]) -> (f32[3, 4]) { %a = reverse {dims = [0]} (%x) %b = reverse {dims = [1]} (%a) return %b }) },
{ "sizes are numbers where they are known", "", "fold dce", "full=1 nodes=1",
  TEXT(fn @main(%x: f32[3, 4]) -> (i64[]) { %a = dim_value {dim = 12} %b = full {value = 2, dims = [], dtype = i64} %c = add(%a, %b) return %c }) },
{ "windows with known starts", "", "fold dce", "slice=1 nodes=1",
  TEXT(fn @main(%x: f32[5, 3], %i: i64[]) -> (f32[2, 3]) {
           %k = full {value = 9, dims = [], dtype = i64} %a = dynamic_slice {sizes = [2, 3]} (%x, %k, %i) return %a }) },
{ "a product reads a transposed factor in place", "", "fold dce", "permute=0 dot=1",
  TEXT(fn @main(%x: f32[5, 3], %y: f32[4, 3]) -> (f32[5, 4]) { %a = permute {order = [1, 0]} (%y) %b = matmul(%x, %a) return %b }) },
{ "a switch with a known index", "", "fold dce", "switch=0 exp=1 log=0 nodes=1",
  TEXT(fn @main(%x: f32[4]) -> (f32[4]) {
           %i = full {value = 7, dims = [], dtype = i32}
           %r = switch(%i) [(%a = %x) { %b = log(%a) yield(%b) }, (%a = %x) { %b = exp(%a) yield(%b) }] return %r }) },
{ "a switch with equal branches", "", "inline fold dce", "switch=0 exp=1 nodes=1",
  TEXT(fn @main(%i: i32[], %x: f32[4]) -> (f32[4]) {
           %r = switch(%i) [(%a = %x) { %b = exp(%a) yield(%b) }, (%a = %x) { %b = exp(%a) yield(%b) }] return %r }) },
{ "a loop that is never entered", "", "fold dce", "while_loop=0 full=1",
  TEXT(fn @main(%x: f32[4]) -> (f32[4], i64[]) {
           %r, %n = while_loop {count} carry(%a = %x) cond { %f = full {value = 0, dims = [], dtype = bool} test(%f) } body { %b = exp(%a) next(%b) }
           return %r, %n }) },
{ "a scan of one step", "", "fold dce", "scan=0 tanh=1",
  TEXT(fn @main(%h: f32[4], %xs: f32[1, 4], %w: f32[4]) -> (f32[4], f32[1, 4]) {
           %r, %ys = scan carry(%c = %h) over(%x in %xs) with(%v = %w) { %a = add(%c, %x) %b = mul(%a, %v) %d = tanh(%b) next(%d) stack(%a) } return %r, %ys }) },
{ "a scan of no step", "", "fold dce", "scan=0 tanh=0",
  TEXT(fn @main(%h: f32[4], %xs: f32[0, 4]) -> (f32[4], f32[0, 4]) {
           %r, %ys = scan carry(%c = %h) over(%x in %xs) { %a = add(%c, %x) %d = tanh(%a) next(%d) stack(%a) } return %r, %ys }) },

/* ---- cse ---- */
{ "equal nodes become one", "", "cse", "exp=1 add=1 mul=1",
  TEXT(fn @main(%x: f32[4], %y: f32[4]) -> (f32[4]) {
           %a = exp(%x) %b = exp(%x) %c = add(%a, %y) %d = add(%y, %b) %e = mul(%c, %d) return %e }) },
{ "equal loops become one", "", "cse", "scan=1 add=1",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[4]) {
           %a = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) }
           %b = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) }
           %r = add(%a, %b) return %r }) },
{ "barriers are not merged", "", "", "barrier=2 exp=2",
  TEXT(fn @main(%x: f32[4]) -> (f32[4]) {
           %p = barrier(%x) %q = barrier(%x) %a = exp(%p) %b = exp(%q) %c = add(%a, %b) return %c }) },
{ "equal data-dependent sizes become one", "", "cse dce", "mul=1 add=1",
  TEXT(fn @main(%n: i64[]) -> (i64[]) {
           %i: i64[?k] = bind_dim(%n) %a = mul(%i, %i) %b = mul(%i, %i) %c = add(%a, %b) %s = sum(%c) return %s }) },

/* ---- dce ---- */
{ "unused nodes go", "", "dce", "nodes=1",
  TEXT(fn @main(%x: f32[4]) -> (f32[4]) { %a = exp(%x) %b = log(%a) %c = neg(%x) return %c }) },
{ "a failing check stays", "", "", "check=1 exp=0",
  TEXT(fn @main(%x: f32[4]) -> (f32[4]) {
           %z = full {value = 9, dims = [4]} %p = gt(%x, %z) check {message = "x is small"} (%p, %x) %a = exp(%x) %c = neg(%x) return %c }) },
{ "printing stays, in order, in a loop nobody reads", "", "", "print=2 scan=1 >print=1 >exp=0",
  TEXT(fn @main(%x: f32[3], %w: f32[]) -> (f32[3]) {
           print {format = "first"} ()
           %s, %n = scan carry(%c = %w) over(%y in %x) { print {format = "y {}"} (%y) %d = exp(%c) next(%d) stack(%d) }
           print {format = "last"} () return %x }) },
{ "carries that feed only themselves go", "", "dce", ">exp=0 >add=1 >mul=0",
  TEXT(fn @main[T](%h: f32[4], %k: f32[], %xs: f32[T, 4], %zs: f32[T, 2], %w: f32[4]) -> (f32[4]) {
           %a, %b, %ys = scan carry(%c = %h, %d = %k) over(%x in %xs, %z in %zs) with(%v = %w) {
               %e = exp(%d) %s = add(%c, %x) %m = mul(%s, %v) next(%s, %e) stack(%m) }
           return %a }) },
{ "carries that others read stay", "", "dce", ">exp=1 >add=1",
  TEXT(fn @main[T](%h: f32[], %k: f32[], %xs: f32[T]) -> (f32[]) {
           %a, %b = scan carry(%c = %h, %d = %k) over(%x in %xs) { %e = exp(%d) %s = add(%c, %d) next(%s, %e) } return %a }) },
{ "carries that the predicate reads stay", "", "dce", ">exp=0 >add=1 >mul=1",
  TEXT(fn @main(%x: f32[4], %z: f32[]) -> (f32[4]) {
           %i = full {value = 0, dims = [], dtype = i32}
           %a, %b, %c = while_loop carry(%k = %i, %s = %x, %t = %z)
               cond { %l = full {value = 3, dims = [], dtype = i32} %p = lt(%k, %l) test(%p) }
               body { %one = full {value = 1, dims = [], dtype = i32} %k1 = add(%k, %one) %s1 = mul(%s, %s) %t1 = exp(%t) next(%k1, %s1, %t1) }
           return %b }) },
{ "results of branches nobody reads go", "", "dce", "switch=1 >exp=1 >log=0 >sin=0",
  TEXT(fn @main(%i: i32[], %x: f32[4], %y: f32[4]) -> (f32[4]) {
           %r, %s = switch(%i) [(%a = %x, %d = %y) { %b = exp(%a) %c = log(%d) yield(%b, %c) }, (%a = %x, %d = %y) { %c = sin(%d) yield(%a, %c) }]
           return %r }) },
{ "a scan over nothing that is read keeps its length", "", "dce", "scan=1 >mul=1",
  TEXT(fn @main[T](%h: f32[], %xs: f32[T]) -> (f32[]) { %a = scan carry(%c = %h) over(%x in %xs) { %d = mul(%c, %c) next(%d) } return %a }) },
{ "what a loop in a body computes for nobody goes", "", "dce", ">exp=0 >sin=0 >add=1 sqrt=0",
  TEXT(fn @main[T](%h: f32[4], %k: f32[4], %xs: f32[T, 4]) -> (f32[4]) {
           %q = sqrt(%k) %lo = full {value = 0, dims = [], dtype = i64} %hi = full {value = 3, dims = [], dtype = i64}
           %a, %b = scan carry(%c = %h, %d = %q) over(%x in %xs) with(%v = %q, %from = %lo, %to = %hi) {
               %i, %j = fori_loop carry(%e = %c, %f = %d) from(%n = %from) to(%to) with(%y = %x, %w = %v) {
                   %g = add(%e, %y) %l = exp(%f) %o = sin(%w) %r = mul(%l, %o) next(%g, %r) }
               next(%i, %j) }
           return %a }) },
{ "what loops one behind the other hand on to nobody goes in one run", "", "dce", "scan=3 exp=0 >exp=0 >add=3",
  TEXT(fn @main[T](%h: f32[], %k: f32[], %xs: f32[T]) -> (f32[]) {
           %z = exp(%k)
           %a, %b = scan carry(%c = %h, %d = %z) over(%x in %xs) { %s = add(%c, %x) %e = exp(%d) next(%s, %e) }
           %f, %g = scan carry(%c = %a, %d = %b) over(%x in %xs) { %s = add(%c, %x) %e = exp(%d) next(%s, %e) }
           %i, %j = scan carry(%c = %f, %d = %g) over(%x in %xs) { %s = add(%c, %x) %e = exp(%d) next(%s, %e) }
           return %i }) },
{ "operands given twice are one inside", "", "forward cse dce", ">sin=1 >exp=1 >max=3",
  TEXT(fn @main[T](%h: f32[4], %v: f32[4], %xs: f32[T, 4]) -> (f32[4]) {
           %a = scan carry(%c = %h) over(%x in %xs, %y in %xs) with(%w = %v, %u = %v) {
               %i = sin(%x) %j = sin(%y) %k = exp(%w) %l = exp(%u) %m = max(%i, %k) %n = max(%j, %l)
               %o = max(%m, %c) %r = max(%o, %n) next(%r) }
           return %a }) },
{ "the size of an unused stack stays known", "", "dce", "while_loop=1",
  TEXT(fn @main(%x: f32[]) -> (i64[]) {
           %a, %n, %s, %t = while_loop carry(%k = %x) cond { %l = full {value = 40, dims = []} %p = lt(%k, %l) test(%p) }
               body { %one = full {value = 7, dims = []} %k1 = add(%k, %one) next(%k1) stack(%k, %k1) }
           %i = dim_value {dim = 1} %u = neg(%t) %v = sum(%u) %z = cast {dtype = i64} (%v) %w = add(%z, %i) return %w }) },

/* ---- forward ---- */
{ "a carry that never changes", "", "forward dce", "scan=1 >nodes=1",
  TEXT(fn @main[T](%h: f32[4], %k: f32[4], %xs: f32[T, 4]) -> (f32[4], f32[4]) {
           %a, %b = scan carry(%c = %h, %d = %k) over(%x in %xs) { %s = add(%c, %d) next(%s, %d) } return %a, %b }) },
{ "a carry that never changes in a while_loop", "", "forward dce", ">lt=1",
  TEXT(fn @main(%x: f32[], %l: f32[]) -> (f32[], f32[]) {
           %a, %b = while_loop carry(%k = %x, %m = %l) cond { %p = lt(%k, %m) test(%p) }
               body { %one = full {value = 1, dims = []} %k1 = add(%k, %one) next(%k1, %m) } return %a, %b }) },
{ "carries that are always equal", "", "forward dce", ">tanh=1 >add=1",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[4], f32[4], f32[T, 4]) {
           %a, %b, %s = scan carry(%c = %h, %d = %h) over(%x in %xs) {
               %e = add(%c, %x) %f = tanh(%e) %g = add(%d, %x) %i = tanh(%g) next(%f, %i) stack(%d) }
           return %a, %b, %s }) },
{ "carries that start equal and part", "", "forward dce", ">tanh=1 >exp=1",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[4], f32[4]) {
           %a, %b = scan carry(%c = %h, %d = %h) over(%x in %xs) { %f = tanh(%c) %i = exp(%d) next(%f, %i) } return %a, %b }) },
{ "a slice stacked as it is", "", "forward dce", ">add=1 scan=1",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[4], f32[T, 4]) {
           %a, %ys = scan {reverse} carry(%c = %h) over(%x in %xs) { %f = add(%c, %x) next(%f) stack(%x) } return %a, %ys }) },
{ "values stacked twice", "", "forward dce", "scan=1 add=1",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[T, 4]) {
           %a, %ys, %zs = scan carry(%c = %h) over(%x in %xs) { %f = add(%c, %x) next(%f) stack(%f, %f) } %r = add(%ys, %zs) return %r }) },
{ "branches that pass an operand on", "", "forward dce", "switch=1 >nodes=2",
  TEXT(fn @main(%i: i32[], %x: f32[4], %y: f32[4]) -> (f32[4], f32[4]) {
           %r, %s = switch(%i) [(%a = %x, %d = %y) { %b = exp(%a) yield(%b, %d) }, (%a = %x, %d = %y) { %b = log(%a) yield(%b, %d) }]
           return %r, %s }) },
{ "branches that give the same constant", "", "forward dce", "switch=1 full=1 >full=0",
  TEXT(fn @main(%i: i32[], %x: f32[4]) -> (f32[4], f32[4]) {
           %r, %s = switch(%i) [(%a = %x) { %z = full {value = 0, dims = [4]} %b = exp(%a) yield(%b, %z) },
                                (%a = %x) { %z = full {value = 0, dims = [4]} %b = log(%a) yield(%b, %z) }]
           return %r, %s }) },
{ "constants are known inside", "", "fold forward dce", "scan=1 >mul=0 >add=1",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[4]) {
           %one = full {value = 1, dims = [4]} %z = full {value = -0.0, dims = [T, 4]}
           %a = scan carry(%c = %h) over(%x in %xs, %y in %z) with(%v = %one) { %f = mul(%c, %v) %g = add(%f, %y) %i = add(%g, %x) next(%i) } return %a }) },
{ "a slice of a repeated array", "", "forward dce", "scan=1 broadcast=0",
  TEXT(fn @main[T](%h: f32[4], %w: f32[4], %xs: f32[T, 4]) -> (f32[4]) {
           %b = broadcast {dims = [T, 4], at = [1]} (%w)
           %a = scan carry(%c = %h) over(%x in %xs, %y in %b) { %f = mul(%c, %y) %g = add(%f, %x) next(%g) } return %a }) },
{ "a call that passes its operand on", "", "forward dce", "exp=1",
  TEXT(fn @long(%x: f32[4], %y: f32[4]) -> (f32[4], f32[4]) {
           %a = exp(%x) %b = neg(%a) %c = tanh(%b) %d = exp(%c) %e = neg(%d) %f = tanh(%e) %g = exp(%f)
           %h = neg(%g) %i = tanh(%h) %j = exp(%i) %k = neg(%j) %l = tanh(%k) %n = exp(%l) return %n, %y }
       fn @main(%x: f32[4], %y: f32[4]) -> (f32[4], f32[4]) {
           %a, %p = invoke_subgraph @long(%x, %y) %b, %q = invoke_subgraph @long(%y, %x) %c = add(%a, %b) %d = exp(%p) %e = add(%q, %d) return %c, %e }) },

/* ---- beside ---- */
{ "gates of one state are one product", "", "beside dce", "dot=0 >dot=1 >matmul=0 >concat=1 >slice=3",
  TEXT(fn @main[T](%h: f32[2, 4], %a: f32[4, 4], %b: f32[4, 4], %d: f32[4, 4], %xs: f32[T, 2, 4]) -> (f32[2, 4]) {
           %r = scan carry(%c = %h) over(%x in %xs) with(%u = %a, %v = %b, %w = %d) {
               %p = matmul(%c, %u) %q = matmul(%c, %v) %s = matmul(%c, %w) %e = sigmoid(%p) %f = tanh(%q) %g = mul(%e, %f) %i = add(%g, %s) %n = mul(%i, %x) next(%n) } return %r }) },
{ "put together in front of the loop", "", "beside hoist dce", "concat=1 >concat=0 >dot=1",
  TEXT(fn @main[T](%h: f32[4], %a: f32[4, 4], %b: f32[4, 4], %xs: f32[T, 4]) -> (f32[4]) {
           %r = scan carry(%c = %h) over(%x in %xs) with(%u = %a, %v = %b) {
               %p = matmul(%c, %u) %q = matmul(%c, %v) %e = sigmoid(%p) %f = mul(%e, %q) %n = mul(%f, %x) next(%n) } return %r }) },
{ "matrices on the left, of different sizes", "", "beside dce", ">dot=1 >matmul=0 >slice=2",
  TEXT(fn @main(%h: f64[4, 3], %a: f64[4, 4], %b: f64[2, 4], %from: i64[], %to: i64[]) -> (f64[4, 3]) {
           %r = fori_loop carry(%c = %h) from(%i = %from) to(%to) with(%u = %a, %v = %b) {
               %p = matmul(%u, %c) %q = matmul(%v, %c) %s = sum(%q) %k = broadcast {dims = [4, 3], at = []} (%s) %f = add(%p, %k) %n = tanh(%f) next(%n) } return %r }) },
{ "different states, and matrices that change, stay apart", "", "beside dce", ">matmul=4 >concat=0",
  TEXT(fn @main[T](%h: f32[4], %a: f32[4, 4], %b: f32[4, 4], %ms: f32[T, 4, 4]) -> (f32[4]) {
           %r = scan carry(%c = %h) over(%m in %ms) with(%u = %a, %v = %b) {
               %y = tanh(%c) %p = matmul(%c, %u) %q = matmul(%y, %v) %s = matmul(%c, %m) %t = matmul(%y, %m) %d = add(%p, %q) %e = add(%d, %s) %f = add(%e, %t) %n = tanh(%f) next(%n) } return %r }) },
{ "dtypes that differ stay apart", "", "beside dce", ">dot=2 >concat=0",
  TEXT(fn @main[T](%h: f32[4], %a: f32[4, 4], %b: f32[4, 4], %xs: f32[T, 4]) -> (f32[4]) {
           %r = scan carry(%c = %h) over(%x in %xs) with(%u = %a, %v = %b) {
               %p = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [0], contract_rhs = [0]} (%c, %u) %q = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [0], contract_rhs = [0], dtype = f64} (%c, %v)
               %z = cast {dtype = f32} (%q) %e = add(%p, %z) %n = mul(%e, %x) next(%n) } return %r }) },

/* ---- hoist ---- */
{ "invariant work leaves the loop", "", "hoist dce", "exp=1 >exp=0 >add=1 matmul=1 >matmul=1",
  TEXT(fn @main[T](%h: f32[4], %w: f32[4], %m: f32[4, 4], %xs: f32[T, 4]) -> (f32[4]) {
           %a = scan carry(%c = %h) over(%x in %xs) with(%v = %w, %n = %m) {
               %e = exp(%v) %p = matmul(%n, %n) %q = matmul(%c, %p) %g = add(%q, %x) %f = mul(%g, %e) next(%f) } return %a }) },
{ "free work stays in the loop", "", "hoist dce", "nodes=1 >broadcast=2 >full=1",
  TEXT(fn @main[T](%h: f32[3, 4], %w: f32[4], %s: f32[], %xs: f32[T, 3, 4]) -> (f32[3, 4]) {
           %a = scan carry(%c = %h) over(%x in %xs) with(%v = %w, %t = %s) {
               %b = broadcast {dims = [3, 4], at = [1]} (%v) %k = full {value = 2, dims = []} %u = mul(%t, %k) %y = broadcast {dims = [3, 4], at = []} (%u)
               %g = add(%c, %x) %f = mul(%g, %b) %i = mul(%f, %y) next(%i) } return %a }) },
{ "what might not end stays in the loop, however deep", "", "hoist dce", "nodes=1 >scan=1 >while_loop=1",
  TEXT(fn @main(%x: f32[], %xs: f32[4]) -> (f32[]) {
           %y = scan carry(%c = %x) over(%t in %xs) with(%w = %x) {
               %r = scan {length = 2} carry(%a = %w) {
                   %q = while_loop carry(%k = %a) cond { %l = full {value = 2, dims = []} %p = lt(%k, %l) test(%p) } body { %z = full {value = 1, dims = []} %n = add(%k, %z) next(%n) }
                   next(%q) }
               %s = add(%c, %r) %u = add(%s, %t) next(%u) }
           return %y }) },
{ "predicates are hoisted from", "", "hoist dce", "sqrt=1 exp=1 >sqrt=0 >exp=0",
  TEXT(fn @main(%x: f32[], %l: f32[]) -> (f32[]) {
           %a = while_loop carry(%k = %x) cond with(%m = %l) { %e = abs(%m) %s = sqrt(%e) %p = lt(%k, %s) test(%p) }
               body with(%m = %l) { %e = exp(%m) %k1 = add(%k, %e) next(%k1) } return %a }) },
{ "checks stay where they fail", "", "", ">check=1 >exp=0 exp=1",
  TEXT(fn @main[T](%h: f32[4], %w: f32[4], %xs: f32[T, 4]) -> (f32[4]) {
           %a = scan carry(%c = %h) over(%x in %xs) with(%v = %w) {
               %z = full {value = 3, dims = [4]} %p = lt(%v, %z) check {message = "w"} (%p) %e = exp(%v) %f = mul(%c, %e) next(%f) } return %a }) },
{ "a transposed factor is laid out in front of the loop", "", "hoist dce", "permute=1 >permute=0 >dot=1",
  TEXT(fn @main[T](%h: f32[6], %w: f32[6, 6], %xs: f32[T, 6]) -> (f32[6]) {
           %a = scan carry(%c = %h) over(%x in %xs) with(%v = %w) {
               %d = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [0], contract_rhs = [1]} (%c, %v) %e = add(%d, %x) next(%e) } return %a }) },
{ "so is the matrix of a matrix times vector", "", "hoist dce", "permute=1 >dot=1 >matmul=0",
  TEXT(fn @main[T](%h: f32[6], %w: f32[6, 6], %xs: f32[T, 6]) -> (f32[6]) {
           %a = scan carry(%c = %h) over(%x in %xs) with(%v = %w) { %d = matmul(%v, %c) %e = add(%d, %x) next(%e) } return %a }) },
{ "several contracted dims keep their order", "", "hoist dce", "permute=1 >dot=1",
  TEXT(fn @main[T](%h: f32[2, 3], %w: f32[6, 2, 3], %xs: f32[T, 2, 3]) -> (f32[2, 3]) {
           %a = scan carry(%c = %h) over(%x in %xs) with(%v = %w) {
               %d = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [1, 0], contract_rhs = [2, 1]} (%c, %v) %e = reshape {dims = [2, 3]} (%d) %f = add(%e, %x) next(%f) }
           return %a }) },
{ "a stacked invariant is a broadcast", "", "hoist dce", "broadcast=1 exp=1 >exp=0",
  TEXT(fn @main[T](%h: f32[4], %w: f32[4], %xs: f32[T, 4]) -> (f32[4], f32[T, 4]) {
           %a, %s = scan carry(%c = %h) over(%x in %xs) with(%v = %w) { %e = exp(%v) %f = add(%c, %x) next(%f) stack(%e) } return %a, %s }) },
{ "nested loops let go of what is invariant in both", "", "", "exp=1 >exp=0",
  TEXT(fn @main[T](%h: f32[4], %w: f32[4], %xs: f32[T, 3, 4]) -> (f32[4]) {
           %a = scan carry(%c = %h) over(%x in %xs) with(%v = %w) {
               %i = scan carry(%d = %c) over(%y in %x) with(%u = %v) { %e = exp(%u) %f = mul(%d, %e) %g = add(%f, %y) next(%g) }
               next(%i) } return %a }) },

/* ---- split ---- */
{ "products over slices leave the loop", "", "split dce", "dot=1 >matmul=1 >nodes=3",
  TEXT(fn @main[T](%h: f32[4], %w: f32[4, 4], %u: f32[3, 4], %xs: f32[T, 3]) -> (f32[4]) {
           %a = scan carry(%c = %h) over(%x in %xs) with(%v = %w, %t = %u) {
               %p = matmul(%c, %v) %q = matmul(%x, %t) %s = add(%p, %q) %n = tanh(%s) next(%n) } return %a }) },
{ "what follows the product goes with it", "", "split dce", "dot=1 tanh=1 >tanh=0 >nodes=1",
  TEXT(fn @main(%h: f32[4], %u: f32[3, 4], %b: f32[4], %xs: f32[5, 3]) -> (f32[4]) {
           %a = scan carry(%c = %h) over(%x in %xs) with(%t = %u, %k = %b) {
               %e = sin(%x) %q = matmul(%e, %t) %r = add(%q, %k) %n = tanh(%r) %s = add(%c, %n) next(%s) } return %a }) },
{ "products for stacked results alone follow the loop", "", "split dce", "dot=1 >matmul=1 >tanh=1",
  TEXT(fn @main[T](%h: f32[4], %w: f32[4, 4], %u: f32[4, 3], %xs: f32[T, 4]) -> (f32[4], f32[T, 3]) {
           %a, %ys = scan {reverse} carry(%c = %h) over(%x in %xs) with(%v = %w, %t = %u) {
               %p = matmul(%c, %v) %s = add(%p, %x) %n = tanh(%s) %y = matmul(%n, %t) %z = mul(%y, %y) next(%n) stack(%z) } return %a, %ys }) },
{ "several products follow the loop", "", "split dce", "dot=2 >matmul=1 >tanh=1",
  TEXT(fn @main[T](%h: f32[4], %w: f32[4, 4], %u: f32[4, 3], %q: f32[4, 2], %xs: f32[T, 4]) -> (f32[T, 3], f32[T, 2], f32[T, 4]) {
           %a, %ys, %zs, %ns = scan carry(%c = %h) over(%x in %xs) with(%v = %w, %t = %u, %r = %q) {
               %p = matmul(%c, %v) %s = add(%p, %x) %n = tanh(%s) %y = matmul(%n, %t) %z = matmul(%s, %r) next(%n) stack(%y, %z, %n) }
           return %ys, %zs, %ns }) },
{ "a product of a narrow result stays", "", "split dce", "dot=0 >matmul=2",
  TEXT(fn @main(%h: f32[8], %w: f32[8, 8], %u: f32[8], %xs: f32[5, 8]) -> (f32[8], f32[5]) {
           %a, %ys = scan carry(%c = %h) over(%x in %xs) with(%v = %w, %t = %u) {
               %p = matmul(%c, %v) %s = add(%p, %x) %n = tanh(%s) %y = matmul(%n, %t) next(%n) stack(%y) } return %a, %ys }) },

/* ---- accumulate ---- */
{ "sums of outer products become one product", "", "forward dce accumulate fold", "dot=1 >dot=0 >add=0 scan=1",
  TEXT(fn @main[T in 1..64](%h: f32[8], %xs: f32[T, 6]) -> (f32[8], f32[8, 6]) {
           %z = full {value = 0, dims = [8, 6]}
           %a, %g = scan carry(%c = %h, %s = %z) over(%x in %xs) {
               %o = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [], contract_rhs = []} (%c, %x) %t = add(%s, %o) %n = tanh(%c) next(%n, %t) }
           return %a, %g }) },
{ "through transpositions, and from any start", "", "forward dce accumulate fold", "dot=1 >dot=0 >permute=0 sub=1",
  TEXT(fn @main[T](%h: f32[8], %z: f32[6, 8], %xs: f32[T, 6]) -> (f32[8], f32[6, 8]) {
           %a, %g = scan {reverse} carry(%c = %h, %s = %z) over(%x in %xs) {
               %o = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [], contract_rhs = []} (%c, %x) %p = permute {order = [1, 0]} (%o) %m = neg(%p)
               %t = add(%m, %s) %n = tanh(%c) next(%n, %t) }
           return %a, %g }) },
{ "a stacked carry is used one step behind", "", "dce accumulate", "dot=1 concat=1 >dot=0",
  TEXT(fn @main[T in 1..64](%h: f32[8], %z: f32[8, 6], %xs: f32[T, 6]) -> (f32[T, 8], f32[8, 6]) {
           %a, %g, %ys = scan carry(%c = %h, %s = %z) over(%x in %xs) {
               %o = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [], contract_rhs = []} (%c, %x) %t = add(%s, %o) %n = tanh(%c) next(%n, %t) stack(%n) }
           return %ys, %g }) },
{ "batched and contracted products, too", "", "dce accumulate", "dot=1 >dot=0",
  TEXT(fn @main[T](%h: f32[2, 3, 8], %z: f32[2, 8, 8], %xs: f32[T, 2, 3, 8]) -> (f32[2, 8, 8]) {
           %a, %g = scan carry(%c = %h, %s = %z) over(%x in %xs) {
               %o = dot {batch_lhs = [0], batch_rhs = [0], contract_lhs = [1], contract_rhs = [1]} (%c, %x) %t = add(%s, %o) %n = add(%c, %x) next(%n, %t) }
           return %g }) },
{ "some addends go, others stay", "", "dce accumulate", "dot=1 >dot=0 >exp=1 >add=1",
  TEXT(fn @main[T](%h: f32[8], %z: f32[8, 6], %xs: f32[T, 6], %es: f32[T]) -> (f32[8, 6]) {
           %a, %g = scan carry(%c = %h, %s = %z) over(%x in %xs, %e in %es) {
               %o = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [], contract_rhs = []} (%c, %x)
               %b = broadcast {dims = [8, 6], at = []} (%e) %q = exp(%b) %r = add(%o, %q) %t = add(%s, %r) %n = tanh(%c) next(%n, %t) }
           return %g }) },
{ "sums of what is stacked", "", "dce accumulate forward", "sum=1 >add=0",
  TEXT(fn @main[dim T](%h: f32[8], %z: f32[8]) -> (f32[8], f32[T, 8]) {
           %a, %g, %ys = scan {length = T} carry(%c = %h, %s = %z) { %n = tanh(%c) %t = add(%s, %n) next(%n, %t) stack(%n) } return %g, %ys }) },
{ "a sum that is read in the loop stays", "", "", ">dot=1",
  TEXT(fn @main[T](%h: f32[8], %z: f32[8, 6], %xs: f32[T, 6]) -> (f32[8, 6], f32[T, 8, 6]) {
           %a, %g, %ys = scan carry(%c = %h, %s = %z) over(%x in %xs) {
               %o = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [], contract_rhs = []} (%c, %x) %t = add(%s, %o) %n = tanh(%c) next(%n, %t) stack(%t) }
           return %g, %ys }) },

/* ---- predicates at entry ---- */
{ "a predicate that is false on the first carries", "", "fold dce", "while_loop=0",
  TEXT(fn @main(%x: f32[3], %y: f32[3]) -> (f32[3], f32[], i64[]) {
           %z = full {value = 2.5, dims = []} %l = full {value = 6, dims = []}
           %a, %b, %n = while_loop {count} carry(%s = %x, %t = %z) cond with(%m = %l) { %q = mul(%t, %t) %p = lt(%q, %m) test(%p) } body { %u = sin(%s) %v = add(%t, %t) next(%u, %v) }
           return %a, %b, %n }) },
{ "a predicate that is true on the first carries", "", "fold dce", "while_loop=1",
  TEXT(fn @main(%x: f32[3], %y: f32[3]) -> (f32[3], f32[], i64[]) {
           %z = full {value = 2.5, dims = []} %l = full {value = 7, dims = []}
           %a, %b, %n = while_loop {count} carry(%s = %x, %t = %z) cond with(%m = %l) { %q = mul(%t, %t) %p = lt(%q, %m) test(%p) } body { %u = sin(%s) %v = add(%t, %t) next(%u, %v) }
           return %a, %b, %n }) },

/* ---- trips ---- */
{ "a counter up to a bound counts the loop", "", "trips dce", "while_loop=0 fori_loop=1 nodes=2",
  TEXT(fn @main(%x: f32[3], %n: i64[]) -> (f32[3]) {
           %z = full {value = 0, dims = [], dtype = i64}
           %i, %y = while_loop carry(%k = %z, %s = %x) cond with(%m = %n) { %p = lt(%k, %m) test(%p) }
               body { %one = full {value = 1, dims = [], dtype = i64} %k1 = add(%k, %one) %t = sin(%s) next(%k1, %t) }
           return %y }) },
{ "a counted loop of known trips is a scan", "", "trips fold dce", "while_loop=0 fori_loop=0 scan=1",
  TEXT(fn @main(%x: f32[3]) -> (f32[3]) {
           %z = full {value = 9, dims = [], dtype = i32}
           %i, %y = while_loop carry(%k = %z, %s = %x) cond { %m = full {value = 2, dims = [], dtype = i32} %p = gt(%k, %m) test(%p) }
               body { %two = full {value = 2, dims = [], dtype = i32} %k1 = sub(%k, %two) %t = tanh(%s) %e = exp(%t) next(%k1, %e) }
           return %y }) },
{ "a size as the bound makes a scan of that length", "", "trips fold dce", "while_loop=0 fori_loop=0 scan=1",
  TEXT(fn @main[T in 1..64](%x: f32[T]) -> (f32[]) {
           %z = full {value = 0, dims = [], dtype = i64} %t = dim_value {dim = T} %o = full {value = 1, dims = []}
           %i, %y = while_loop carry(%k = %z, %s = %o) cond with(%m = %t) { %p = gt(%m, %k) test(%p) }
               body with(%xs = %x) { %two = full {value = 2, dims = [], dtype = i64} %k1 = add(%k, %two) %r = dynamic_slice {sizes = [1]} (%xs, %k) %q = reshape {dims = []} (%r) %a = add(%s, %q) next(%k1, %a) }
           return %y }) },
{ "both of two bounds", "", "trips dce", "while_loop=0 fori_loop=1",
  TEXT(fn @main(%x: f64[], %n: i32[], %m: i32[]) -> (f64[], i32[], i32[]) {
           %z = full {value = 0, dims = [], dtype = i32} %nine = full {value = 9, dims = [], dtype = i32}
           %i, %j, %y = while_loop carry(%k = %z, %d = %nine, %s = %x) cond with(%n, %m) { %p = lt(%k, %n) %q = lt(%d, %m) %r = not(%q) %t = and(%p, %r) test(%t) }
               body { %one = full {value = 1, dims = [], dtype = i32} %k1 = add(%k, %one) %d1 = sub(%d, %one) %t = sin(%s) next(%k1, %d1, %t) }
           return %y, %i, %j }) },
{ "sums, differences and negatives of counters", "", "trips dce", "while_loop=0 fori_loop=3",
  TEXT(fn @main(%x: f64[], %n: i32[]) -> (f64[], f64[], f64[], i32[]) {
           %z = full {value = 0, dims = [], dtype = i32} %nine = full {value = 9, dims = [], dtype = i32}
           %i, %y = while_loop carry(%k = %z, %s = %x) cond with(%n) { %zero = full {value = 0, dims = [], dtype = i32} %d = sub(%n, %k) %p = gt(%d, %zero) test(%p) }
               body { %one = full {value = 1, dims = [], dtype = i32} %k1 = add(%k, %one) %t = sin(%s) next(%k1, %t) }
           %j, %v = while_loop carry(%k = %z, %s = %x) cond with(%n) { %d = neg(%k) %e = neg(%n) %p = gt(%d, %e) test(%p) }
               body { %one = full {value = 1, dims = [], dtype = i32} %k1 = add(%k, %one) %t = cos(%s) next(%k1, %t) }
           %l, %h, %w = while_loop carry(%k = %z, %d = %nine, %s = %x) cond with(%n) { %e = add(%k, %d) %f = add(%e, %k) %p = lt(%f, %n) test(%p) }
               body { %one = full {value = 1, dims = [], dtype = i32} %k1 = add(%k, %one) %d1 = sub(%d, %one) %t = tanh(%s) next(%k1, %d1, %t) }
           return %y, %v, %w, %h }) },
{ "what watches more than counters stays", "", "trips dce", "while_loop=1 fori_loop=0",
  TEXT(fn @main(%x: f32[], %n: i64[]) -> (f32[]) {
           %z = full {value = 0, dims = [], dtype = i64}
           %i, %y = while_loop carry(%k = %z, %s = %x) cond with(%m = %n) { %p = lt(%k, %m) %l = full {value = 3, dims = []} %q = lt(%s, %l) %r = and(%p, %q) test(%r) }
               body { %one = full {value = 1, dims = [], dtype = i64} %k1 = add(%k, %one) %t = add(%s, %s) next(%k1, %t) }
           return %y }) },
{ "a counter whose way round its dtype is short stays", "", "trips dce", "while_loop=1 fori_loop=0",
  TEXT(fn @main(%n: u8[]) -> (u8[], i64[]) {
           %z = full {value = 0, dims = [], dtype = u8} %y, %c = while_loop {count} carry(%k = %z) cond with(%m = %n) { %p = lt(%k, %m) test(%p) }
               body { %five = full {value = 5, dims = [], dtype = u8} %k1 = add(%k, %five) next(%k1) }
           return %y, %c }) },
{ "trips within max_trips are not watched", "", "trips fold dce", "while_loop=0 scan=1",
  TEXT(fn @main(%x: f32[]) -> (f32[]) {
           %z = full {value = 0, dims = [], dtype = i64}
           %i, %y = while_loop {max_trips = 6} carry(%k = %z, %s = %x) cond { %m = full {value = 6, dims = [], dtype = i64} %p = lt(%k, %m) test(%p) }
               body { %one = full {value = 1, dims = [], dtype = i64} %k1 = add(%k, %one) %t = cos(%s) next(%k1, %t) }
           return %y }) },
{ "trips beyond max_trips fail", "", "trips fold dce", "while_loop=1",
  TEXT(fn @main(%x: f32[]) -> (f32[]) {
           %z = full {value = 0, dims = [], dtype = i64}
           %i, %y = while_loop {max_trips = 5} carry(%k = %z, %s = %x) cond { %m = full {value = 6, dims = [], dtype = i64} %p = lt(%k, %m) test(%p) }
               body { print {format = "trip {}"} (%k) %one = full {value = 1, dims = [], dtype = i64} %k1 = add(%k, %one) %t = cos(%s) next(%k1, %t) }
           return %y }) },
{ "effects of a counted loop keep their order", "", "trips dce", "while_loop=0 fori_loop=1",
  TEXT(fn @main(%n: i64[]) -> (i64[]) {
           %four = full {value = 4, dims = [], dtype = i64} %m = min(%n, %four)
           %i = while_loop carry(%k = %m) cond { %z = full {value = 0, dims = [], dtype = i64} %p = ge(%k, %z) test(%p) }
               body { print {format = "{}"} (%k) %one = full {value = 1, dims = [], dtype = i64} %k1 = sub(%k, %one) next(%k1) }
           print {format = "end {}"} (%i) return %i }) },
{ "a counted while_loop needs no tape that grows", "x w", "", "while_loop=0 fori_loop=0 scan=2",
  TEXT(fn @main(%x: f32[3], %w: f32[3]) -> (f32[]) {
           %z = full {value = 0, dims = [], dtype = i32}
           %i, %a = while_loop carry(%k = %z, %s = %x) cond { %l = full {value = 12, dims = [], dtype = i32} %p = lt(%k, %l) test(%p) }
               body with(%v = %w) { %one = full {value = 1, dims = [], dtype = i32} %k1 = add(%k, %one) %f = cast {dtype = f32} (%k1) %g = broadcast {dims = [3], at = []} (%f)
                                    %e = exp(%v) %m = mul(%s, %e) %h = div(%m, %g) %t = tanh(%h) next(%k1, %t) }
           %r = sum(%a) return %r }) },

/* ---- ranges ---- */
{ "clamps and comparisons of what a loop counts", "", "ranges fold dce", ">max=0 >min=0 >lt=0 >select=0",
  TEXT(fn @main(%x: f32[8]) -> (f32[]) {
           %z = full {value = 0, dims = []} %is = iota {dims = [8]}
           %y = scan carry(%s = %z) over(%i in %is) with(%xs = %x) {
               %lo = full {value = 0, dims = [], dtype = i64} %hi = full {value = 7, dims = [], dtype = i64} %a = max(%i, %lo) %b = min(%a, %hi)
               %n = full {value = 8, dims = [], dtype = i64} %p = lt(%b, %n) %c = select(%p, %b, %lo) %m = mod(%c, %n)
               %r = dynamic_slice {sizes = [1]} (%xs, %m) %q = reshape {dims = []} (%r) %t = add(%s, %q) %u = sin(%t) %e = exp(%u) %f = tanh(%e) next(%f) }
           return %y }) },
{ "a counter widened and narrowed again", "", "ranges dce", ">min=0 >rem=1",
  TEXT(fn @main(%x: f32[], %a: f32[10]) -> (f32[], i64[]) {
           %z = full {value = 0, dims = [], dtype = i64}
           %y, %i = while_loop carry(%s = %x, %k = %z) cond { %m = full {value = 10, dims = [], dtype = i64} %p = lt(%k, %m) %l = full {value = 5, dims = []} %q = lt(%s, %l) %r = and(%p, %q) test(%r) }
               body with(%v = %a) { %nine = full {value = 9, dims = [], dtype = i64} %j = min(%k, %nine) %seven = full {value = 7, dims = [], dtype = i64} %h = rem(%j, %seven)
                                    %e = dynamic_slice {sizes = [1]} (%v, %h) %f = reshape {dims = []} (%e) %t = add(%s, %f) %one = full {value = 1, dims = [], dtype = i64} %k1 = add(%k, %one) next(%t, %k1) }
           return %y, %i }) },
{ "a loop whose first look is false", "", "ranges dce", "while_loop=0 nodes=1",
  TEXT(fn @main(%x: f32[], %n: i64[]) -> (f32[], i64[]) {
           %three = full {value = 3, dims = [], dtype = i64} %i = max(%n, %three)
           %y, %k, %c = while_loop {count} carry(%s = %x, %k = %i) cond { %l = full {value = 2, dims = [], dtype = i64} %p = lt(%k, %l) test(%p) } body { %t = sin(%s) next(%t, %k) }
           return %y, %c }) },
{ "casts there and back", "", "ranges dce", "cast=0",
  TEXT(fn @main(%n: i64[5]) -> (i64[5]) {
           %k = full {value = 1000, dims = [5], dtype = i64} %m = rem(%n, %k) %c = cast {dtype = i16} (%m) %d = cast {dtype = i64} (%c) return %d }) },
{ "numbers that wrap around have no range", "", "ranges dce", "min=1 add=1",
  TEXT(fn @main(%n: i8[5]) -> (i8[5]) {
           %k = full {value = 100, dims = [5], dtype = i8} %m = abs(%n) %a = add(%m, %k) %l = full {value = 120, dims = [5], dtype = i8} %d = min(%a, %l) return %d }) },
{ "a check that always holds goes", "", "ranges dce", "check=0",
  TEXT(fn @main[T in 1..9](%x: f32[T]) -> (f32[T]) {
           %t = dim_value {dim = T} %k = full {value = 10, dims = [], dtype = i64} %p = lt(%t, %k) check {message = "small"} (%p) return %x }) },
{ "no more trips than max_trips", "", "ranges dce", "lt=0 gt=1 min=0",
  TEXT(fn @main(%x: f32[]) -> (i64[], bool[], bool[]) effects(check) {
           %y, %t = while_loop {max_trips = 9, count} carry(%c = %x) cond { %one = full {value = 1, dims = [], dtype = f32} %p = lt(%c, %one) test(%p) }
               body { %s = full {value = 0.5, dims = [], dtype = f32} %n = add(%c, %s) next(%n) }
           %k = full {value = 10, dims = [], dtype = i64} %p = lt(%t, %k) %m = min(%t, %k) %h = full {value = 8, dims = [], dtype = i64} %q = gt(%t, %h) return %m, %p, %q }) },
{ "a check that may fail stays and fails", "", "ranges dce", "check=1",
  TEXT(fn @main[T in 0..9](%x: f32[T]) -> (f32[T]) {
           %t = dim_value {dim = T} %k = full {value = 4, dims = [], dtype = i64} %p = lt(%t, %k) check {message = "small"} (%p) return %x }) },

/* ---- sums ---- */
{ "elements added up are a sum", "", "sums dce", "add=0 slice=1 sum=1 nodes=2",
  TEXT(fn @main(%x: f32[8]) -> (f32[]) {
           %sr0 = slice {start = [0], limit = [1]} (%x) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1], limit = [2]} (%x) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2], limit = [3]} (%x) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [3], limit = [4]} (%x) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [4], limit = [5]} (%x) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [5], limit = [6]} (%x) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [6], limit = [7]} (%x) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [7], limit = [8]} (%x) %r7 = reshape {dims = []} (%sr7) %a0 = add(%r0, %r1) %a1 = add(%a0, %r2) %a2 = add(%a1, %r3)
           %a3 = add(%a2, %r4) %a4 = add(%a3, %r5) %a5 = add(%a4, %r6) %a6 = add(%a5, %r7) return %a6 }) },
{ "and the whole array is summed", "", "", "sum=1 nodes=1",
  TEXT(fn @main(%x: f32[8]) -> (f32[]) {
           %z = full {value = 0, dims = []} %sr0 = slice {start = [0], limit = [1]} (%x) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1], limit = [2]} (%x) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2], limit = [3]} (%x) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [3], limit = [4]} (%x) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [4], limit = [5]} (%x) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [5], limit = [6]} (%x) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [6], limit = [7]} (%x) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [7], limit = [8]} (%x) %r7 = reshape {dims = []} (%sr7) %a0 = add(%z, %r0) %a1 = add(%a0, %r1) %a2 = add(%a1, %r2)
           %a3 = add(%a2, %r3) %a4 = add(%a3, %r4) %a5 = add(%a4, %r5) %a6 = add(%a5, %r6) %a7 = add(%a6, %r7) return %a7 }) },
{ "the gradient of a chain, as it is written", "x", "", "add=0 slice=0",
  TEXT(fn @main(%x: f32[8]) -> (f32[]) {
           %sr0 = slice {start = [0], limit = [1]} (%x) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1], limit = [2]} (%x) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2], limit = [3]} (%x) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [3], limit = [4]} (%x) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [4], limit = [5]} (%x) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [5], limit = [6]} (%x) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [6], limit = [7]} (%x) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [7], limit = [8]} (%x) %r7 = reshape {dims = []} (%sr7) %a0 = add(%r0, %r1) %a1 = add(%a0, %r2) %a2 = add(%a1, %r3)
           %a3 = add(%a2, %r4) %a4 = add(%a3, %r5) %a5 = add(%a4, %r6) %a6 = add(%a5, %r7) return %a6 }) },
{ "every other row, in any order, in a tree of adds", "", "sums dce", "add=0 slice=1 sum=1",
  TEXT(fn @main[T](%x: f32[17, T]) -> (f32[T]) {
           %sr0 = slice {start = [9, 0], limit = [10, T]} (%x) %r0 = reshape {dims = [T]} (%sr0)
           %sr1 = slice {start = [3, 0], limit = [4, T]} (%x) %r1 = reshape {dims = [T]} (%sr1)
           %sr2 = slice {start = [11, 0], limit = [12, T]} (%x) %r2 = reshape {dims = [T]} (%sr2)
           %sr3 = slice {start = [5, 0], limit = [6, T]} (%x) %r3 = reshape {dims = [T]} (%sr3)
           %sr4 = slice {start = [7, 0], limit = [8, T]} (%x) %r4 = reshape {dims = [T]} (%sr4)
           %sr5 = slice {start = [1, 0], limit = [2, T]} (%x) %r5 = reshape {dims = [T]} (%sr5)
           %sr6 = slice {start = [15, 0], limit = [16, T]} (%x) %r6 = reshape {dims = [T]} (%sr6)
           %sr7 = slice {start = [13, 0], limit = [14, T]} (%x) %r7 = reshape {dims = [T]} (%sr7) %a0 = add(%r0, %r1) %a1 = add(%r2, %r3)
           %a2 = add(%r4, %r5) %a3 = add(%r6, %r7) %a4 = add(%a0, %a1) %a5 = add(%a2, %a3) %a6 = add(%a4, %a5) return %a6 }) },
{ "columns added up", "", "sums dce", "add=0 sum=1 permute=0",
  TEXT(fn @main[T](%x: f32[T, 9]) -> (f32[T]) {
           %sr0 = slice {start = [0, 0], limit = [T, 1]} (%x) %r0 = reshape {dims = [T]} (%sr0)
           %sr1 = slice {start = [0, 1], limit = [T, 2]} (%x) %r1 = reshape {dims = [T]} (%sr1)
           %sr2 = slice {start = [0, 2], limit = [T, 3]} (%x) %r2 = reshape {dims = [T]} (%sr2)
           %sr3 = slice {start = [0, 3], limit = [T, 4]} (%x) %r3 = reshape {dims = [T]} (%sr3)
           %sr4 = slice {start = [0, 4], limit = [T, 5]} (%x) %r4 = reshape {dims = [T]} (%sr4)
           %sr5 = slice {start = [0, 5], limit = [T, 6]} (%x) %r5 = reshape {dims = [T]} (%sr5)
           %sr6 = slice {start = [0, 6], limit = [T, 7]} (%x) %r6 = reshape {dims = [T]} (%sr6)
           %sr7 = slice {start = [0, 7], limit = [T, 8]} (%x) %r7 = reshape {dims = [T]} (%sr7) %a0 = add(%r0, %r1) %a1 = add(%a0, %r2)
           %a2 = add(%a1, %r3) %a3 = add(%a2, %r4) %a4 = add(%a3, %r5) %a5 = add(%a4, %r6) %a6 = add(%a5, %r7) return %a6 }) },
{ "all elements of a matrix", "", "sums dce", "add=0 sum=1 slice=1",
  TEXT(fn @main(%x: f32[3, 4]) -> (f32[]) {
           %sr0 = slice {start = [0, 0], limit = [1, 1]} (%x) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1, 0], limit = [2, 1]} (%x) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2, 0], limit = [3, 1]} (%x) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [0, 1], limit = [1, 2]} (%x) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [1, 1], limit = [2, 2]} (%x) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [2, 1], limit = [3, 2]} (%x) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [0, 2], limit = [1, 3]} (%x) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [1, 2], limit = [2, 3]} (%x) %r7 = reshape {dims = []} (%sr7)
           %sr8 = slice {start = [2, 2], limit = [3, 3]} (%x) %r8 = reshape {dims = []} (%sr8) %a0 = add(%r0, %r1) %a1 = add(%a0, %r2)
           %a2 = add(%a1, %r3) %a3 = add(%a2, %r4) %a4 = add(%a3, %r5) %a5 = add(%a4, %r6) %a6 = add(%a5, %r7) %a7 = add(%a6, %r8) return %a7 }) },
{ "elements of a matrix of which the last are missing", "", "sums dce", "add=8 sum=0",
  TEXT(fn @main(%x: f32[3, 4]) -> (f32[]) {
           %sr0 = slice {start = [0, 0], limit = [1, 1]} (%x) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [0, 1], limit = [1, 2]} (%x) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [0, 2], limit = [1, 3]} (%x) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [0, 3], limit = [1, 4]} (%x) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [1, 0], limit = [2, 1]} (%x) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [1, 1], limit = [2, 2]} (%x) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [1, 2], limit = [2, 3]} (%x) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [1, 3], limit = [2, 4]} (%x) %r7 = reshape {dims = []} (%sr7)
           %sr8 = slice {start = [2, 0], limit = [3, 1]} (%x) %r8 = reshape {dims = []} (%sr8) %a0 = add(%r0, %r1) %a1 = add(%a0, %r2)
           %a2 = add(%a1, %r3) %a3 = add(%a2, %r4) %a4 = add(%a3, %r5) %a5 = add(%a4, %r6) %a6 = add(%a5, %r7) %a7 = add(%a6, %r8) return %a7 }) },
{ "rows of two arrays in different orders", "", "sums dce", "add=7 sum=0",
  TEXT(fn @main(%x: f32[8], %y: f32[8]) -> (f32[]) {
           %sx0 = slice {start = [0], limit = [1]} (%x) %x0 = reshape {dims = []} (%sx0)
           %sy0 = slice {start = [7], limit = [8]} (%y) %y0 = reshape {dims = []} (%sy0) %t0 = mul(%x0, %y0)
           %sx1 = slice {start = [1], limit = [2]} (%x) %x1 = reshape {dims = []} (%sx1)
           %sy1 = slice {start = [6], limit = [7]} (%y) %y1 = reshape {dims = []} (%sy1) %t1 = mul(%x1, %y1)
           %sx2 = slice {start = [2], limit = [3]} (%x) %x2 = reshape {dims = []} (%sx2)
           %sy2 = slice {start = [5], limit = [6]} (%y) %y2 = reshape {dims = []} (%sy2) %t2 = mul(%x2, %y2)
           %sx3 = slice {start = [3], limit = [4]} (%x) %x3 = reshape {dims = []} (%sx3)
           %sy3 = slice {start = [4], limit = [5]} (%y) %y3 = reshape {dims = []} (%sy3) %t3 = mul(%x3, %y3)
           %sx4 = slice {start = [4], limit = [5]} (%x) %x4 = reshape {dims = []} (%sx4)
           %sy4 = slice {start = [3], limit = [4]} (%y) %y4 = reshape {dims = []} (%sy4) %t4 = mul(%x4, %y4)
           %sx5 = slice {start = [5], limit = [6]} (%x) %x5 = reshape {dims = []} (%sx5)
           %sy5 = slice {start = [2], limit = [3]} (%y) %y5 = reshape {dims = []} (%sy5) %t5 = mul(%x5, %y5)
           %sx6 = slice {start = [6], limit = [7]} (%x) %x6 = reshape {dims = []} (%sx6)
           %sy6 = slice {start = [1], limit = [2]} (%y) %y6 = reshape {dims = []} (%sy6) %t6 = mul(%x6, %y6)
           %sx7 = slice {start = [7], limit = [8]} (%x) %x7 = reshape {dims = []} (%sx7)
           %sy7 = slice {start = [0], limit = [1]} (%y) %y7 = reshape {dims = []} (%sy7) %t7 = mul(%x7, %y7) %a0 = add(%t0, %t1) %a1 = add(%a0, %t2)
           %a2 = add(%a1, %t3) %a3 = add(%a2, %t4) %a4 = add(%a3, %t5) %a5 = add(%a4, %t6) %a6 = add(%a5, %t7) return %a6 }) },
{ "a diagonal is no box of rows", "", "sums dce", "add=7 sum=0",
  TEXT(fn @main(%x: f32[8, 8]) -> (f32[]) {
           %sr0 = slice {start = [0, 0], limit = [1, 1]} (%x) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1, 1], limit = [2, 2]} (%x) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2, 2], limit = [3, 3]} (%x) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [3, 3], limit = [4, 4]} (%x) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [4, 4], limit = [5, 5]} (%x) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [5, 5], limit = [6, 6]} (%x) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [6, 6], limit = [7, 7]} (%x) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [7, 7], limit = [8, 8]} (%x) %r7 = reshape {dims = []} (%sr7) %a0 = add(%r0, %r1) %a1 = add(%a0, %r2)
           %a2 = add(%a1, %r3) %a3 = add(%a2, %r4) %a4 = add(%a3, %r5) %a5 = add(%a4, %r6) %a6 = add(%a5, %r7) return %a6 }) },
{ "a function of each row, of values that all share", "", "sums dce", "add=0 sum=1 sub=1 mul=1",
  TEXT(fn @main(%x: f32[8, 3], %b: f32[3]) -> (f32[3]) {
           %sr0 = slice {start = [0, 0], limit = [1, 3]} (%x) %r0 = reshape {dims = [3]} (%sr0)
           %sr1 = slice {start = [1, 0], limit = [2, 3]} (%x) %r1 = reshape {dims = [3]} (%sr1)
           %sr2 = slice {start = [2, 0], limit = [3, 3]} (%x) %r2 = reshape {dims = [3]} (%sr2)
           %sr3 = slice {start = [3, 0], limit = [4, 3]} (%x) %r3 = reshape {dims = [3]} (%sr3)
           %sr4 = slice {start = [4, 0], limit = [5, 3]} (%x) %r4 = reshape {dims = [3]} (%sr4)
           %sr5 = slice {start = [5, 0], limit = [6, 3]} (%x) %r5 = reshape {dims = [3]} (%sr5)
           %sr6 = slice {start = [6, 0], limit = [7, 3]} (%x) %r6 = reshape {dims = [3]} (%sr6)
           %sr7 = slice {start = [7, 0], limit = [8, 3]} (%x) %r7 = reshape {dims = [3]} (%sr7) %d0 = sub(%r0, %b) %q0 = mul(%d0, %d0)
           %d1 = sub(%r1, %b) %q1 = mul(%d1, %d1) %d2 = sub(%r2, %b) %q2 = mul(%d2, %d2) %d3 = sub(%r3, %b) %q3 = mul(%d3, %d3)
           %d4 = sub(%r4, %b) %q4 = mul(%d4, %d4) %d5 = sub(%r5, %b) %q5 = mul(%d5, %d5) %d6 = sub(%r6, %b) %q6 = mul(%d6, %d6)
           %d7 = sub(%r7, %b) %q7 = mul(%d7, %d7) %a0 = add(%q0, %q1) %a1 = add(%a0, %q2) %a2 = add(%a1, %q3) %a3 = add(%a2, %q4) %a4 = add(%a3, %q5)
           %a5 = add(%a4, %q6) %a6 = add(%a5, %q7) return %a6 }) },
{ "what something else reads is not computed twice", "", "sums dce", "add=7 sum=0 sub=8",
  TEXT(fn @main(%x: f32[8, 3], %b: f32[3]) -> (f32[3], f32[3]) {
           %sr0 = slice {start = [0, 0], limit = [1, 3]} (%x) %r0 = reshape {dims = [3]} (%sr0)
           %sr1 = slice {start = [1, 0], limit = [2, 3]} (%x) %r1 = reshape {dims = [3]} (%sr1)
           %sr2 = slice {start = [2, 0], limit = [3, 3]} (%x) %r2 = reshape {dims = [3]} (%sr2)
           %sr3 = slice {start = [3, 0], limit = [4, 3]} (%x) %r3 = reshape {dims = [3]} (%sr3)
           %sr4 = slice {start = [4, 0], limit = [5, 3]} (%x) %r4 = reshape {dims = [3]} (%sr4)
           %sr5 = slice {start = [5, 0], limit = [6, 3]} (%x) %r5 = reshape {dims = [3]} (%sr5)
           %sr6 = slice {start = [6, 0], limit = [7, 3]} (%x) %r6 = reshape {dims = [3]} (%sr6)
           %sr7 = slice {start = [7, 0], limit = [8, 3]} (%x) %r7 = reshape {dims = [3]} (%sr7) %d0 = sub(%r0, %b) %q0 = mul(%d0, %d0)
           %d1 = sub(%r1, %b) %q1 = mul(%d1, %d1) %d2 = sub(%r2, %b) %q2 = mul(%d2, %d2) %d3 = sub(%r3, %b) %q3 = mul(%d3, %d3)
           %d4 = sub(%r4, %b) %q4 = mul(%d4, %d4) %d5 = sub(%r5, %b) %q5 = mul(%d5, %d5) %d6 = sub(%r6, %b) %q6 = mul(%d6, %d6)
           %d7 = sub(%r7, %b) %q7 = mul(%d7, %d7) %a0 = add(%q0, %q1) %a1 = add(%a0, %q2) %a2 = add(%a1, %q3) %a3 = add(%a2, %q4) %a4 = add(%a3, %q5)
           %a5 = add(%a4, %q6) %a6 = add(%a5, %q7) return %a6, %d3 }) },
{ "rows of two arrays in turns", "", "sums dce", "add=1 sum=2",
  TEXT(fn @main(%x: f32[8], %y: f32[9]) -> (f32[]) {
           %sr0 = slice {start = [0], limit = [1]} (%x) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1], limit = [2]} (%x) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2], limit = [3]} (%x) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [3], limit = [4]} (%x) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [4], limit = [5]} (%x) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [5], limit = [6]} (%x) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [6], limit = [7]} (%x) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [7], limit = [8]} (%x) %r7 = reshape {dims = []} (%sr7)
           %su0 = slice {start = [0], limit = [1]} (%y) %u0 = reshape {dims = []} (%su0)
           %su1 = slice {start = [1], limit = [2]} (%y) %u1 = reshape {dims = []} (%su1)
           %su2 = slice {start = [2], limit = [3]} (%y) %u2 = reshape {dims = []} (%su2)
           %su3 = slice {start = [3], limit = [4]} (%y) %u3 = reshape {dims = []} (%su3)
           %su4 = slice {start = [4], limit = [5]} (%y) %u4 = reshape {dims = []} (%su4)
           %su5 = slice {start = [5], limit = [6]} (%y) %u5 = reshape {dims = []} (%su5)
           %su6 = slice {start = [6], limit = [7]} (%y) %u6 = reshape {dims = []} (%su6)
           %su7 = slice {start = [7], limit = [8]} (%y) %u7 = reshape {dims = []} (%su7) %a0 = add(%r0, %u0) %a1 = add(%a0, %r1) %a2 = add(%a1, %u1)
           %a3 = add(%a2, %r2) %a4 = add(%a3, %u2) %a5 = add(%a4, %r3) %a6 = add(%a5, %u3) %a7 = add(%a6, %r4) %a8 = add(%a7, %u4) %a9 = add(%a8, %r5)
           %a10 = add(%a9, %u5) %a11 = add(%a10, %r6) %a12 = add(%a11, %u6) %a13 = add(%a12, %r7) %a14 = add(%a13, %u7) return %a14 }) },
{ "a row is missing", "", "sums dce", "add=1 sum=2 slice=2",
  TEXT(fn @main(%x: f32[17]) -> (f32[]) {
           %sr0 = slice {start = [0], limit = [1]} (%x) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1], limit = [2]} (%x) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2], limit = [3]} (%x) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [3], limit = [4]} (%x) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [4], limit = [5]} (%x) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [5], limit = [6]} (%x) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [6], limit = [7]} (%x) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [7], limit = [8]} (%x) %r7 = reshape {dims = []} (%sr7)
           %sr8 = slice {start = [9], limit = [10]} (%x) %r8 = reshape {dims = []} (%sr8)
           %sr9 = slice {start = [10], limit = [11]} (%x) %r9 = reshape {dims = []} (%sr9)
           %sr10 = slice {start = [11], limit = [12]} (%x) %r10 = reshape {dims = []} (%sr10)
           %sr11 = slice {start = [12], limit = [13]} (%x) %r11 = reshape {dims = []} (%sr11)
           %sr12 = slice {start = [13], limit = [14]} (%x) %r12 = reshape {dims = []} (%sr12)
           %sr13 = slice {start = [14], limit = [15]} (%x) %r13 = reshape {dims = []} (%sr13)
           %sr14 = slice {start = [15], limit = [16]} (%x) %r14 = reshape {dims = []} (%sr14)
           %sr15 = slice {start = [16], limit = [17]} (%x) %r15 = reshape {dims = []} (%sr15) %a0 = add(%r0, %r1) %a1 = add(%a0, %r2)
           %a2 = add(%a1, %r3) %a3 = add(%a2, %r4) %a4 = add(%a3, %r5) %a5 = add(%a4, %r6) %a6 = add(%a5, %r7) %a7 = add(%a6, %r8) %a8 = add(%a7, %r9)
           %a9 = add(%a8, %r10) %a10 = add(%a9, %r11) %a11 = add(%a10, %r12) %a12 = add(%a11, %r13) %a13 = add(%a12, %r14) %a14 = add(%a13, %r15)
           return %a14 }) },
{ "a row twice is added by itself", "", "sums dce", "add=1 sum=1 slice=2",
  TEXT(fn @main(%x: f32[8]) -> (f32[]) {
           %sr0 = slice {start = [0], limit = [1]} (%x) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1], limit = [2]} (%x) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2], limit = [3]} (%x) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [3], limit = [4]} (%x) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [4], limit = [5]} (%x) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [5], limit = [6]} (%x) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [6], limit = [7]} (%x) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [7], limit = [8]} (%x) %r7 = reshape {dims = []} (%sr7)
           %sr8 = slice {start = [3], limit = [4]} (%x) %r8 = reshape {dims = []} (%sr8) %a0 = add(%r0, %r1) %a1 = add(%a0, %r2) %a2 = add(%a1, %r3)
           %a3 = add(%a2, %r4) %a4 = add(%a3, %r5) %a5 = add(%a4, %r6) %a6 = add(%a5, %r7) %a7 = add(%a6, %r8) return %a7 }) },
{ "rows added and subtracted in turns", "", "sums dce", "add=0 sub=1 sum=2 slice=2",
  TEXT(fn @main(%x: f32[16]) -> (f32[]) {
           %sr0 = slice {start = [0], limit = [1]} (%x) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1], limit = [2]} (%x) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2], limit = [3]} (%x) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [3], limit = [4]} (%x) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [4], limit = [5]} (%x) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [5], limit = [6]} (%x) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [6], limit = [7]} (%x) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [7], limit = [8]} (%x) %r7 = reshape {dims = []} (%sr7)
           %sr8 = slice {start = [8], limit = [9]} (%x) %r8 = reshape {dims = []} (%sr8)
           %sr9 = slice {start = [9], limit = [10]} (%x) %r9 = reshape {dims = []} (%sr9)
           %sr10 = slice {start = [10], limit = [11]} (%x) %r10 = reshape {dims = []} (%sr10)
           %sr11 = slice {start = [11], limit = [12]} (%x) %r11 = reshape {dims = []} (%sr11)
           %sr12 = slice {start = [12], limit = [13]} (%x) %r12 = reshape {dims = []} (%sr12)
           %sr13 = slice {start = [13], limit = [14]} (%x) %r13 = reshape {dims = []} (%sr13)
           %sr14 = slice {start = [14], limit = [15]} (%x) %r14 = reshape {dims = []} (%sr14)
           %sr15 = slice {start = [15], limit = [16]} (%x) %r15 = reshape {dims = []} (%sr15) %a1 = sub(%r0, %r1) %a2 = add(%a1, %r2)
           %a3 = sub(%a2, %r3) %a4 = add(%a3, %r4) %a5 = sub(%a4, %r5) %a6 = add(%a5, %r6) %a7 = sub(%a6, %r7) %a8 = add(%a7, %r8) %a9 = sub(%a8, %r9)
           %a10 = add(%a9, %r10) %a11 = sub(%a10, %r11) %a12 = add(%a11, %r12) %a13 = sub(%a12, %r13) %a14 = add(%a13, %r14) %a15 = sub(%a14, %r15)
           return %a15 }) },
{ "seven rows stay as they are", "", "sums dce", "add=6 sum=0",
  TEXT(fn @main(%x: f32[7]) -> (f32[]) {
           %sr0 = slice {start = [0], limit = [1]} (%x) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1], limit = [2]} (%x) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2], limit = [3]} (%x) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [3], limit = [4]} (%x) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [4], limit = [5]} (%x) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [5], limit = [6]} (%x) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [6], limit = [7]} (%x) %r6 = reshape {dims = []} (%sr6) %a0 = add(%r0, %r1) %a1 = add(%a0, %r2) %a2 = add(%a1, %r3)
           %a3 = add(%a2, %r4) %a4 = add(%a3, %r5) %a5 = add(%a4, %r6) return %a5 }) },
{ "partial sums that are read stay", "", "sums dce", "add=8 sum=0",
  TEXT(fn @main(%x: f32[9]) -> (f32[], f32[]) {
           %sr0 = slice {start = [0], limit = [1]} (%x) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1], limit = [2]} (%x) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2], limit = [3]} (%x) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [3], limit = [4]} (%x) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [4], limit = [5]} (%x) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [5], limit = [6]} (%x) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [6], limit = [7]} (%x) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [7], limit = [8]} (%x) %r7 = reshape {dims = []} (%sr7)
           %sr8 = slice {start = [8], limit = [9]} (%x) %r8 = reshape {dims = []} (%sr8) %a0 = add(%r0, %r1) %a1 = add(%a0, %r2) %a2 = add(%a1, %r3)
           %a3 = add(%a2, %r4) %a4 = add(%a3, %r5) %a5 = add(%a4, %r6) %a6 = add(%a5, %r7) %a7 = add(%a6, %r8) return %a7, %a3 }) },
{ "bf16 is rounded at every add", "", "sums dce", "add=7 sum=0",
  TEXT(fn @main(%x: f32[8]) -> (f32[]) {
           %h = cast {dtype = bf16} (%x) %sr0 = slice {start = [0], limit = [1]} (%h) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1], limit = [2]} (%h) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2], limit = [3]} (%h) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [3], limit = [4]} (%h) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [4], limit = [5]} (%h) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [5], limit = [6]} (%h) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [6], limit = [7]} (%h) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [7], limit = [8]} (%h) %r7 = reshape {dims = []} (%sr7) %a0 = add(%r0, %r1) %a1 = add(%a0, %r2) %a2 = add(%a1, %r3)
           %a3 = add(%a2, %r4) %a4 = add(%a3, %r5) %a5 = add(%a4, %r6) %a6 = add(%a5, %r7) %z = cast {dtype = f32} (%a6) return %z }) },
{ "in the step of a loop", "h", "", ">add=0",
  TEXT(fn @main[T](%h: f32[8], %xs: f32[T, 8]) -> (f32[]) {
           %r = scan carry(%c = %h) over(%x in %xs) {
           %sr0 = slice {start = [0], limit = [1]} (%c) %r0 = reshape {dims = []} (%sr0)
           %sr1 = slice {start = [1], limit = [2]} (%c) %r1 = reshape {dims = []} (%sr1)
           %sr2 = slice {start = [2], limit = [3]} (%c) %r2 = reshape {dims = []} (%sr2)
           %sr3 = slice {start = [3], limit = [4]} (%c) %r3 = reshape {dims = []} (%sr3)
           %sr4 = slice {start = [4], limit = [5]} (%c) %r4 = reshape {dims = []} (%sr4)
           %sr5 = slice {start = [5], limit = [6]} (%c) %r5 = reshape {dims = []} (%sr5)
           %sr6 = slice {start = [6], limit = [7]} (%c) %r6 = reshape {dims = []} (%sr6)
           %sr7 = slice {start = [7], limit = [8]} (%c) %r7 = reshape {dims = []} (%sr7) %a0 = add(%r0, %r1) %a1 = add(%a0, %r2) %a2 = add(%a1, %r3)
           %a3 = add(%a2, %r4) %a4 = add(%a3, %r5) %a5 = add(%a4, %r6) %a6 = add(%a5, %r7) %v = broadcast {dims = [8], at = []} (%a6) %n = tanh(%v)
           %k = mul(%n, %x) next(%k) } %s = sum(%r) return %s }) },

/* ---- unroll ---- */
{ "a scan of a few light steps is its steps", "", "unroll dce", "scan=0 add=4",
  TEXT(fn @main(%h: f32[6], %xs: f32[4, 6]) -> (f32[6]) {
           %y = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) %t = tanh(%s) next(%t) } return %y }) },
{ "a scan with products stays", "", "unroll dce", "scan=1",
  TEXT(fn @main(%h: f32[6], %w: f32[6, 6]) -> (f32[6]) {
           %y = scan {length = 4} carry(%c = %h) with(%v = %w) { %s = matmul(%c, %v) next(%s) } return %y }) },
{ "rows that others read stay a loop", "", "unroll dce", "scan=1",
  TEXT(fn @main(%h: f32[6], %xs: f32[4, 6]) -> (f32[6], f32[4, 6]) {
           %y, %ys = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) stack(%s) } return %y, %ys }) },
{ "a gradient's two scans are unrolled together", "h", "", "scan=0",
  TEXT(fn @main(%h: f32[6], %xs: f32[3, 6]) -> (f32[]) {
           %y = scan {reverse} carry(%c = %h) over(%x in %xs) { %s = mul(%c, %x) %t = sin(%s) next(%t) } %r = sum(%y) return %r }) },

/* ---- join ---- */
{ "a scan over another's rows is one loop with it", "", "join dce", "scan=1 >add=2",
  TEXT(fn @main[T, N](%h: f32[N], %xs: f32[T, N], %g: f32[N]) -> (f32[N], f32[N]) {
           %a, %ys = scan carry(%c = %h) over(%x in %xs) { %m = mul(%c, %x) %s = add(%m, %x) next(%s) stack(%m) } %e = exp(%a)
           %b = scan carry(%d = %g) over(%y in %ys, %x in %xs) { %m = mul(%d, %x) %s = add(%m, %y) next(%s) } return %e, %b }) },
{ "rows that more than one read are no reason", "", "join dce", "scan=2",
  TEXT(fn @main[T, N](%h: f32[N], %xs: f32[T, N]) -> (f32[N], f32[T, N]) {
           %a, %ys = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) stack(%s) }
           %b = scan carry(%d = %h) over(%y in %ys) { %m = mul(%d, %y) next(%m) } return %b, %ys }) },
{ "unless they are short", "", "join dce", "scan=1 >add=1 >mul=1",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[4], f32[T, 4]) {
           %a, %ys = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) stack(%s) }
           %b = scan carry(%d = %h) over(%y in %ys) { %m = mul(%d, %y) next(%m) } return %b, %ys }) },
{ "a scan that needs the end of the other waits for it", "", "join dce", "scan=2",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[4]) {
           %a, %ys = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) stack(%s) } %e = neg(%a)
           %b = scan carry(%d = %e) over(%y in %ys) { %m = mul(%d, %y) next(%m) } return %b }) },
{ "two small scans over one array are one loop, which reads it once", "", "join dce", "scan=1 >add=1 >max=1 >mul=1",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4], %v: f32[4]) -> (f32[4], f32[T, 4], f32[4]) {
           %a, %as = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) stack(%s) } %e = exp(%a)
           %b, %bs = scan carry(%d = %h) over(%x in %xs) with(%w = %v) { %t = mul(%w, %x) %s = max(%d, %t) next(%s) stack(%s) }
           %r = sub(%as, %bs) return %b, %r, %e }) },
{ "three of them, over arrays of their own", "", "join dce", "scan=1 >add=1 >max=1 >min=1",
  TEXT(fn @main[T](%h: f32[], %xs: f32[T], %ys: f32[T], %zs: f32[T]) -> (f32[], f32[], f32[]) {
           %a = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) } %b = scan carry(%c = %h) over(%x in %ys) { %s = max(%c, %x) next(%s) }
           %d = scan carry(%c = %h) over(%x in %zs) { %s = min(%c, %x) next(%s) } return %a, %b, %d }) },
{ "large rows of two arrays are two loops", "", "join dce", "scan=2",
  TEXT(fn @main[T](%h: f32[16], %xs: f32[T, 16], %ys: f32[T, 16]) -> (f32[16], f32[16]) {
           %a = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) } %b = scan carry(%c = %h) over(%x in %ys) { %s = max(%c, %x) next(%s) } return %a, %b }) },
{ "products are better off alone", "", "join dce", "scan=2",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4], %w: f32[4, 4]) -> (f32[4], f32[4]) {
           %a = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) }
           %b = scan carry(%c = %h) over(%x in %xs) with(%v = %w) { %m = matmul(%c, %v) %s = add(%m, %x) next(%s) } return %a, %b }) },
{ "what is done with before the second starts is not kept for it", "", "join dce", "scan=2",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[], f32[T, 4]) {
           %a, %as = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) stack(%s) } %e = exp(%as) %r = sum(%e)
           %b, %bs = scan carry(%d = %h) over(%x in %xs) { %s = max(%d, %x) next(%s) stack(%s) } return %r, %bs }) },
{ "a start that needs the other's end", "", "join dce", "scan=2",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[4], f32[4]) {
           %a = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) } %e = neg(%a)
           %b = scan carry(%d = %e) over(%x in %xs) { %s = max(%d, %x) next(%s) } return %b, %e }) },
{ "of two lengths", "", "join dce", "scan=2",
  TEXT(fn @main[T, S](%h: f32[], %xs: f32[T], %ys: f32[S]) -> (f32[], f32[]) {
           %a = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) } %b = scan carry(%c = %h) over(%x in %ys) { %s = max(%c, %x) next(%s) } return %a, %b }) },
{ "opposite directions are two loops", "", "join dce", "scan=2",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[4]) {
           %a, %ys = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) stack(%s) }
           %b = scan {reverse} carry(%d = %h) over(%y in %ys) { %m = mul(%d, %y) next(%m) } return %b }) },

/* ---- pack ---- */
{ "carries with the same step are one", "", "pack fold dce", "nodes=1 scan=1 >mul=1 >add=1 >sin=1 >concat=2",
  TEXT(fn @main(%h: f32[9]) -> (f32[9]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %s8 = slice {start = [8], limit =
           [9]} (%h) %i8 = reshape {dims = []} (%s8) %f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8 = scan {length = 5} carry(%c0 = %i0, %c1 =
           %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5 = %i5, %c6 = %i6, %c7 = %i7, %c8 = %i8) { %p0 = mul(%c0, %c8) %a0 = add(%p0, %c1) %n0 =
           sin(%a0) %p1 = mul(%c1, %c0) %a1 = add(%p1, %c2) %n1 = sin(%a1) %p2 = mul(%c2, %c1) %a2 = add(%p2, %c3) %n2 = sin(%a2) %p3 =
           mul(%c3, %c2) %a3 = add(%p3, %c4) %n3 = sin(%a3) %p4 = mul(%c4, %c3) %a4 = add(%p4, %c5) %n4 = sin(%a4) %p5 = mul(%c5, %c4) %a5 =
           add(%p5, %c6) %n5 = sin(%a5) %p6 = mul(%c6, %c5) %a6 = add(%p6, %c7) %n6 = sin(%a6) %p7 = mul(%c7, %c6) %a7 = add(%p7, %c8) %n7 =
           sin(%a7) %p8 = mul(%c8, %c7) %a8 = add(%p8, %c0) %n8 = sin(%a8) next(%n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7, %n8) } %r0 = reshape
           {dims = [1]} (%f0) %r1 = reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 =
           reshape {dims = [1]} (%f4) %r5 = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7) %r8
           = reshape {dims = [1]} (%f8) %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8) return %r }) },
{ "and so is their gradient", "h", "", "scan=2 >mul=5 >sin=1 >cos=1",
  TEXT(fn @main(%h: f32[9]) -> (f32[]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %s8 = slice {start = [8], limit =
           [9]} (%h) %i8 = reshape {dims = []} (%s8) %f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8 = scan {length = 5} carry(%c0 = %i0, %c1 =
           %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5 = %i5, %c6 = %i6, %c7 = %i7, %c8 = %i8) { %p0 = mul(%c0, %c8) %a0 = add(%p0, %c1) %n0 =
           sin(%a0) %p1 = mul(%c1, %c0) %a1 = add(%p1, %c2) %n1 = sin(%a1) %p2 = mul(%c2, %c1) %a2 = add(%p2, %c3) %n2 = sin(%a2) %p3 =
           mul(%c3, %c2) %a3 = add(%p3, %c4) %n3 = sin(%a3) %p4 = mul(%c4, %c3) %a4 = add(%p4, %c5) %n4 = sin(%a4) %p5 = mul(%c5, %c4) %a5 =
           add(%p5, %c6) %n5 = sin(%a5) %p6 = mul(%c6, %c5) %a6 = add(%p6, %c7) %n6 = sin(%a6) %p7 = mul(%c7, %c6) %a7 = add(%p7, %c8) %n7 =
           sin(%a7) %p8 = mul(%c8, %c7) %a8 = add(%p8, %c0) %n8 = sin(%a8) next(%n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7, %n8) } %r0 = reshape
           {dims = [1]} (%f0) %r1 = reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 =
           reshape {dims = [1]} (%f4) %r5 = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7) %r8
           = reshape {dims = [1]} (%f8) %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8) %q = mul(%r, %r) %t = sum(%q)
           return %t }) },
{ "few are left as they are", "", "pack dce", ">mul=7 >add=7 >sin=7",
  TEXT(fn @main(%h: f32[7]) -> (f32[7]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %f0, %f1, %f2, %f3, %f4, %f5, %f6 = scan {length = 5} carry(%c0 = %i0, %c1 = %i1, %c2 = %i2, %c3 = %i3, %c4 =
           %i4, %c5 = %i5, %c6 = %i6) { %p0 = mul(%c0, %c6) %a0 = add(%p0, %c1) %n0 = sin(%a0) %p1 = mul(%c1, %c0) %a1 = add(%p1, %c2) %n1 =
           sin(%a1) %p2 = mul(%c2, %c1) %a2 = add(%p2, %c3) %n2 = sin(%a2) %p3 = mul(%c3, %c2) %a3 = add(%p3, %c4) %n3 = sin(%a3) %p4 =
           mul(%c4, %c3) %a4 = add(%p4, %c5) %n4 = sin(%a4) %p5 = mul(%c5, %c4) %a5 = add(%p5, %c6) %n5 = sin(%a5) %p6 = mul(%c6, %c5) %a6 =
           add(%p6, %c0) %n6 = sin(%a6) next(%n0, %n1, %n2, %n3, %n4, %n5, %n6) } %r0 = reshape {dims = [1]} (%f0) %r1 = reshape {dims =
           [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 = reshape {dims = [1]} (%f4) %r5 = reshape {dims
           = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6) return %r }) },
{ "what must be gathered for little work, too", "", "pack dce", ">add=8 >gather=0",
  TEXT(fn @main(%h: f32[8]) -> (f32[8]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %f0, %f1, %f2, %f3, %f4, %f5, %f6,
           %f7 = scan {length = 5} carry(%c0 = %i0, %c1 = %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5 = %i5, %c6 = %i6, %c7 = %i7) { %a0 =
           add(%c0, %c2) %a1 = add(%c3, %c7) %a2 = add(%c6, %c4) %a3 = add(%c1, %c1) %a4 = add(%c4, %c6) %a5 = add(%c7, %c3) %a6 = add(%c2,
           %c0) %a7 = add(%c5, %c5) next(%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7) } %r0 = reshape {dims = [1]} (%f0) %r1 = reshape {dims =
           [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 = reshape {dims = [1]} (%f4) %r5 = reshape {dims
           = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7) %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4,
           %r5, %r6, %r7) return %r }) },
{ "for much work it is gathered", "", "pack fold dce", ">mul=1 >tanh=1 >gather=1",
  TEXT(fn @main(%h: f32[12], %w: f32[]) -> (f32[12]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %s8 = slice {start = [8], limit =
           [9]} (%h) %i8 = reshape {dims = []} (%s8) %s9 = slice {start = [9], limit = [10]} (%h) %i9 = reshape {dims = []} (%s9) %s10 =
           slice {start = [10], limit = [11]} (%h) %i10 = reshape {dims = []} (%s10) %s11 = slice {start = [11], limit = [12]} (%h) %i11 =
           reshape {dims = []} (%s11) %f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8, %f9, %f10, %f11 = scan {length = 5} carry(%c0 = %i0, %c1
           = %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5 = %i5, %c6 = %i6, %c7 = %i7, %c8 = %i8, %c9 = %i9, %c10 = %i10, %c11 = %i11) with(%v
           = %w) { %a0 = mul(%c3, %v) %n0 = tanh(%a0) %a1 = mul(%c8, %v) %n1 = tanh(%a1) %a2 = mul(%c1, %v) %n2 = tanh(%a2) %a3 = mul(%c6,
           %v) %n3 = tanh(%a3) %a4 = mul(%c11, %v) %n4 = tanh(%a4) %a5 = mul(%c4, %v) %n5 = tanh(%a5) %a6 = mul(%c9, %v) %n6 = tanh(%a6) %a7
           = mul(%c2, %v) %n7 = tanh(%a7) %a8 = mul(%c7, %v) %n8 = tanh(%a8) %a9 = mul(%c0, %v) %n9 = tanh(%a9) %a10 = mul(%c5, %v) %n10 =
           tanh(%a10) %a11 = mul(%c10, %v) %n11 = tanh(%a11) next(%n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7, %n8, %n9, %n10, %n11) } %r0 =
           reshape {dims = [1]} (%f0) %r1 = reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4
           = reshape {dims = [1]} (%f4) %r5 = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7)
           %r8 = reshape {dims = [1]} (%f8) %r9 = reshape {dims = [1]} (%f9) %r10 = reshape {dims = [1]} (%f10) %r11 = reshape {dims = [1]}
           (%f11) %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11) return %r }) },
{ "numbers that differ are a constant, another value at the end is put in front", "", "pack fold dce", ">mul=1 >tanh=1 >constant=1 >concat=1",
  TEXT(fn @main(%h: f32[10], %w: f32[]) -> (f32[10]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %s8 = slice {start = [8], limit =
           [9]} (%h) %i8 = reshape {dims = []} (%s8) %s9 = slice {start = [9], limit = [10]} (%h) %i9 = reshape {dims = []} (%s9) %f0, %f1,
           %f2, %f3, %f4, %f5, %f6, %f7, %f8, %f9 = scan {length = 5} carry(%c0 = %i0, %c1 = %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5 =
           %i5, %c6 = %i6, %c7 = %i7, %c8 = %i8, %c9 = %i9) with(%v = %w) { %k0 = full {value = 2, dims = []} %m0 = mul(%k0, %v) %n0 =
           tanh(%m0) %k1 = full {value = 3, dims = []} %m1 = mul(%k1, %c0) %n1 = tanh(%m1) %k2 = full {value = 4, dims = []} %m2 = mul(%k2,
           %c1) %n2 = tanh(%m2) %k3 = full {value = 5, dims = []} %m3 = mul(%k3, %c2) %n3 = tanh(%m3) %k4 = full {value = 6, dims = []} %m4
           = mul(%k4, %c3) %n4 = tanh(%m4) %k5 = full {value = 7, dims = []} %m5 = mul(%k5, %c4) %n5 = tanh(%m5) %k6 = full {value = 8, dims
           = []} %m6 = mul(%k6, %c5) %n6 = tanh(%m6) %k7 = full {value = 9, dims = []} %m7 = mul(%k7, %c6) %n7 = tanh(%m7) %k8 = full {value
           = 10, dims = []} %m8 = mul(%k8, %c7) %n8 = tanh(%m8) %k9 = full {value = 11, dims = []} %m9 = mul(%k9, %c8) %n9 = tanh(%m9)
           next(%n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7, %n8, %n9) } %r0 = reshape {dims = [1]} (%f0) %r1 = reshape {dims = [1]} (%f1) %r2 =
           reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 = reshape {dims = [1]} (%f4) %r5 = reshape {dims = [1]} (%f5) %r6
           = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7) %r8 = reshape {dims = [1]} (%f8) %r9 = reshape {dims = [1]} (%f9)
           %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9) return %r }) },
{ "the other way round", "", "pack fold dce", ">mul=1 >tanh=1 >reverse=1",
  TEXT(fn @main(%h: f32[10]) -> (f32[10]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %s8 = slice {start = [8], limit =
           [9]} (%h) %i8 = reshape {dims = []} (%s8) %s9 = slice {start = [9], limit = [10]} (%h) %i9 = reshape {dims = []} (%s9) %f0, %f1,
           %f2, %f3, %f4, %f5, %f6, %f7, %f8, %f9 = scan {length = 5} carry(%c0 = %i0, %c1 = %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5 =
           %i5, %c6 = %i6, %c7 = %i7, %c8 = %i8, %c9 = %i9) { %m0 = mul(%c0, %c0) %a0 = add(%m0, %c9) %n0 = tanh(%a0) %m1 = mul(%c1, %c1)
           %a1 = add(%m1, %c8) %n1 = tanh(%a1) %m2 = mul(%c2, %c2) %a2 = add(%m2, %c7) %n2 = tanh(%a2) %m3 = mul(%c3, %c3) %a3 = add(%m3,
           %c6) %n3 = tanh(%a3) %m4 = mul(%c4, %c4) %a4 = add(%m4, %c5) %n4 = tanh(%a4) %m5 = mul(%c5, %c5) %a5 = add(%m5, %c4) %n5 =
           tanh(%a5) %m6 = mul(%c6, %c6) %a6 = add(%m6, %c3) %n6 = tanh(%a6) %m7 = mul(%c7, %c7) %a7 = add(%m7, %c2) %n7 = tanh(%a7) %m8 =
           mul(%c8, %c8) %a8 = add(%m8, %c1) %n8 = tanh(%a8) %m9 = mul(%c9, %c9) %a9 = add(%m9, %c0) %n9 = tanh(%a9) next(%n0, %n1, %n2,
           %n3, %n4, %n5, %n6, %n7, %n8, %n9) } %r0 = reshape {dims = [1]} (%f0) %r1 = reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]}
           (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 = reshape {dims = [1]} (%f4) %r5 = reshape {dims = [1]} (%f5) %r6 = reshape {dims =
           [1]} (%f6) %r7 = reshape {dims = [1]} (%f7) %r8 = reshape {dims = [1]} (%f8) %r9 = reshape {dims = [1]} (%f9) %r = concat {dim =
           0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9) return %r }) },
{ "values that move on by one every step", "", "pack fold dce", "scan=1 >concat=1",
  TEXT(fn @main[T in 4..64](%h: f32[40], %xs: f32[T]) -> (f32[40]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %s8 = slice {start = [8], limit =
           [9]} (%h) %i8 = reshape {dims = []} (%s8) %s9 = slice {start = [9], limit = [10]} (%h) %i9 = reshape {dims = []} (%s9) %s10 =
           slice {start = [10], limit = [11]} (%h) %i10 = reshape {dims = []} (%s10) %s11 = slice {start = [11], limit = [12]} (%h) %i11 =
           reshape {dims = []} (%s11) %s12 = slice {start = [12], limit = [13]} (%h) %i12 = reshape {dims = []} (%s12) %s13 = slice {start =
           [13], limit = [14]} (%h) %i13 = reshape {dims = []} (%s13) %s14 = slice {start = [14], limit = [15]} (%h) %i14 = reshape {dims =
           []} (%s14) %s15 = slice {start = [15], limit = [16]} (%h) %i15 = reshape {dims = []} (%s15) %s16 = slice {start = [16], limit =
           [17]} (%h) %i16 = reshape {dims = []} (%s16) %s17 = slice {start = [17], limit = [18]} (%h) %i17 = reshape {dims = []} (%s17)
           %s18 = slice {start = [18], limit = [19]} (%h) %i18 = reshape {dims = []} (%s18) %s19 = slice {start = [19], limit = [20]} (%h)
           %i19 = reshape {dims = []} (%s19) %s20 = slice {start = [20], limit = [21]} (%h) %i20 = reshape {dims = []} (%s20) %s21 = slice
           {start = [21], limit = [22]} (%h) %i21 = reshape {dims = []} (%s21) %s22 = slice {start = [22], limit = [23]} (%h) %i22 = reshape
           {dims = []} (%s22) %s23 = slice {start = [23], limit = [24]} (%h) %i23 = reshape {dims = []} (%s23) %s24 = slice {start = [24],
           limit = [25]} (%h) %i24 = reshape {dims = []} (%s24) %s25 = slice {start = [25], limit = [26]} (%h) %i25 = reshape {dims = []}
           (%s25) %s26 = slice {start = [26], limit = [27]} (%h) %i26 = reshape {dims = []} (%s26) %s27 = slice {start = [27], limit = [28]}
           (%h) %i27 = reshape {dims = []} (%s27) %s28 = slice {start = [28], limit = [29]} (%h) %i28 = reshape {dims = []} (%s28) %s29 =
           slice {start = [29], limit = [30]} (%h) %i29 = reshape {dims = []} (%s29) %s30 = slice {start = [30], limit = [31]} (%h) %i30 =
           reshape {dims = []} (%s30) %s31 = slice {start = [31], limit = [32]} (%h) %i31 = reshape {dims = []} (%s31) %s32 = slice {start =
           [32], limit = [33]} (%h) %i32 = reshape {dims = []} (%s32) %s33 = slice {start = [33], limit = [34]} (%h) %i33 = reshape {dims =
           []} (%s33) %s34 = slice {start = [34], limit = [35]} (%h) %i34 = reshape {dims = []} (%s34) %s35 = slice {start = [35], limit =
           [36]} (%h) %i35 = reshape {dims = []} (%s35) %s36 = slice {start = [36], limit = [37]} (%h) %i36 = reshape {dims = []} (%s36)
           %s37 = slice {start = [37], limit = [38]} (%h) %i37 = reshape {dims = []} (%s37) %s38 = slice {start = [38], limit = [39]} (%h)
           %i38 = reshape {dims = []} (%s38) %s39 = slice {start = [39], limit = [40]} (%h) %i39 = reshape {dims = []} (%s39) %f0, %f1, %f2,
           %f3, %f4, %f5, %f6, %f7, %f8, %f9, %f10, %f11, %f12, %f13, %f14, %f15, %f16, %f17, %f18, %f19, %f20, %f21, %f22, %f23, %f24,
           %f25, %f26, %f27, %f28, %f29, %f30, %f31, %f32, %f33, %f34, %f35, %f36, %f37, %f38, %f39 = scan carry(%c0 = %i0, %c1 = %i1, %c2 =
           %i2, %c3 = %i3, %c4 = %i4, %c5 = %i5, %c6 = %i6, %c7 = %i7, %c8 = %i8, %c9 = %i9, %c10 = %i10, %c11 = %i11, %c12 = %i12, %c13 =
           %i13, %c14 = %i14, %c15 = %i15, %c16 = %i16, %c17 = %i17, %c18 = %i18, %c19 = %i19, %c20 = %i20, %c21 = %i21, %c22 = %i22, %c23 =
           %i23, %c24 = %i24, %c25 = %i25, %c26 = %i26, %c27 = %i27, %c28 = %i28, %c29 = %i29, %c30 = %i30, %c31 = %i31, %c32 = %i32, %c33 =
           %i33, %c34 = %i34, %c35 = %i35, %c36 = %i36, %c37 = %i37, %c38 = %i38, %c39 = %i39) over(%x in %xs) { next(%x, %c0, %c1, %c2,
           %c3, %c4, %c5, %c6, %c7, %c8, %c9, %c10, %c11, %c12, %c13, %c14, %c15, %c16, %c17, %c18, %c19, %c20, %c21, %c22, %c23, %c24,
           %c25, %c26, %c27, %c28, %c29, %c30, %c31, %c32, %c33, %c34, %c35, %c36, %c37, %c38) } %r0 = reshape {dims = [1]} (%f0) %r1 =
           reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 = reshape {dims = [1]} (%f4) %r5
           = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7) %r8 = reshape {dims = [1]} (%f8)
           %r9 = reshape {dims = [1]} (%f9) %r10 = reshape {dims = [1]} (%f10) %r11 = reshape {dims = [1]} (%f11) %r12 = reshape {dims =
           [1]} (%f12) %r13 = reshape {dims = [1]} (%f13) %r14 = reshape {dims = [1]} (%f14) %r15 = reshape {dims = [1]} (%f15) %r16 =
           reshape {dims = [1]} (%f16) %r17 = reshape {dims = [1]} (%f17) %r18 = reshape {dims = [1]} (%f18) %r19 = reshape {dims = [1]}
           (%f19) %r20 = reshape {dims = [1]} (%f20) %r21 = reshape {dims = [1]} (%f21) %r22 = reshape {dims = [1]} (%f22) %r23 = reshape
           {dims = [1]} (%f23) %r24 = reshape {dims = [1]} (%f24) %r25 = reshape {dims = [1]} (%f25) %r26 = reshape {dims = [1]} (%f26) %r27
           = reshape {dims = [1]} (%f27) %r28 = reshape {dims = [1]} (%f28) %r29 = reshape {dims = [1]} (%f29) %r30 = reshape {dims = [1]}
           (%f30) %r31 = reshape {dims = [1]} (%f31) %r32 = reshape {dims = [1]} (%f32) %r33 = reshape {dims = [1]} (%f33) %r34 = reshape
           {dims = [1]} (%f34) %r35 = reshape {dims = [1]} (%f35) %r36 = reshape {dims = [1]} (%f36) %r37 = reshape {dims = [1]} (%f37) %r38
           = reshape {dims = [1]} (%f38) %r39 = reshape {dims = [1]} (%f39) %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7,
           %r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18, %r19, %r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27, %r28, %r29,
           %r30, %r31, %r32, %r33, %r34, %r35, %r36, %r37, %r38, %r39) return %r }) },
{ "one that is different stays", "", "pack dce", ">mul=2 >add=2 >sin=1 >exp=1",
  TEXT(fn @main(%h: f32[9]) -> (f32[9]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %s8 = slice {start = [8], limit =
           [9]} (%h) %i8 = reshape {dims = []} (%s8) %f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8 = scan {length = 5} carry(%c0 = %i0, %c1 =
           %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5 = %i5, %c6 = %i6, %c7 = %i7, %c8 = %i8) { %p0 = mul(%c0, %c8) %a0 = add(%p0, %c1) %n0 =
           sin(%a0) %p1 = mul(%c1, %c0) %a1 = add(%p1, %c2) %n1 = sin(%a1) %p2 = mul(%c2, %c1) %a2 = add(%p2, %c3) %n2 = sin(%a2) %p3 =
           mul(%c3, %c2) %a3 = add(%p3, %c4) %n3 = sin(%a3) %p4 = mul(%c4, %c3) %a4 = add(%p4, %c5) %n4 = exp(%a4) %p5 = mul(%c5, %c4) %a5 =
           add(%p5, %c6) %n5 = sin(%a5) %p6 = mul(%c6, %c5) %a6 = add(%p6, %c7) %n6 = sin(%a6) %p7 = mul(%c7, %c6) %a7 = add(%p7, %c8) %n7 =
           sin(%a7) %p8 = mul(%c8, %c7) %a8 = add(%p8, %c0) %n8 = sin(%a8) next(%n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7, %n8) } %r0 = reshape
           {dims = [1]} (%f0) %r1 = reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 =
           reshape {dims = [1]} (%f4) %r5 = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7) %r8
           = reshape {dims = [1]} (%f8) %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8) return %r }) },
{ "a predicate takes out what it reads", "", "pack dce", "while_loop=1 >sin=1 >slice=1",
  TEXT(fn @main(%h: f32[8], %w: f32[]) -> (f32[8]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %z = full {value = 0, dims = [],
           dtype = i32} %j, %f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7 = while_loop carry(%k = %z, %c0 = %i0, %c1 = %i1, %c2 = %i2, %c3 = %i3,
           %c4 = %i4, %c5 = %i5, %c6 = %i6, %c7 = %i7) cond { %l = full {value = 6, dims = [], dtype = i32} %p = lt(%k, %l) %e = full {value
           = 2, dims = []} %q = lt(%c3, %e) %b = and(%p, %q) test(%b) } body with(%v = %w) { %o = full {value = 1, dims = [], dtype = i32}
           %k1 = add(%k, %o) %m0 = mul(%c0, %v) %n0 = sin(%m0) %m1 = mul(%c1, %v) %n1 = sin(%m1) %m2 = mul(%c2, %v) %n2 = sin(%m2) %m3 =
           mul(%c3, %v) %n3 = sin(%m3) %m4 = mul(%c4, %v) %n4 = sin(%m4) %m5 = mul(%c5, %v) %n5 = sin(%m5) %m6 = mul(%c6, %v) %n6 = sin(%m6)
           %m7 = mul(%c7, %v) %n7 = sin(%m7) next(%k1, %n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7) } %r0 = reshape {dims = [1]} (%f0) %r1 =
           reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 = reshape {dims = [1]} (%f4) %r5
           = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7) %r = concat {dim = 0} (%r0, %r1,
           %r2, %r3, %r4, %r5, %r6, %r7) return %r }) },
{ "what depends on the index is the same for all", "", "pack dce", "fori_loop=1 >sin=1 >cast=1",
  TEXT(fn @main(%h: f32[8], %to: i64[]) -> (f32[8]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %z = full {value = 0, dims = [],
           dtype = i64} %f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7 = fori_loop carry(%c0 = %i0, %c1 = %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5
           = %i5, %c6 = %i6, %c7 = %i7) from(%k = %z) to(%to) { %t = cast {dtype = f32} (%k) %m0 = mul(%c0, %t) %n0 = sin(%m0) %m1 =
           mul(%c1, %t) %n1 = sin(%m1) %m2 = mul(%c2, %t) %n2 = sin(%m2) %m3 = mul(%c3, %t) %n3 = sin(%m3) %m4 = mul(%c4, %t) %n4 = sin(%m4)
           %m5 = mul(%c5, %t) %n5 = sin(%m5) %m6 = mul(%c6, %t) %n6 = sin(%m6) %m7 = mul(%c7, %t) %n7 = sin(%m7) next(%n0, %n1, %n2, %n3,
           %n4, %n5, %n6, %n7) } %r0 = reshape {dims = [1]} (%f0) %r1 = reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 =
           reshape {dims = [1]} (%f3) %r4 = reshape {dims = [1]} (%f4) %r5 = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7
           = reshape {dims = [1]} (%f7) %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7) return %r }) },
{ "columns of an array and stacked values are arrays", "", "pack fold dce", "scan=1 >mul=1 >sin=1",
  TEXT(fn @main[T in 4..64](%h: f32[8], %xs: f32[T, 8]) -> (f32[8], f32[T]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %u0 = slice {start = [0, 0], limit
           = [T, 1]} (%xs) %x0 = reshape {dims = [T]} (%u0) %u1 = slice {start = [0, 1], limit = [T, 2]} (%xs) %x1 = reshape {dims = [T]}
           (%u1) %u2 = slice {start = [0, 2], limit = [T, 3]} (%xs) %x2 = reshape {dims = [T]} (%u2) %u3 = slice {start = [0, 3], limit =
           [T, 4]} (%xs) %x3 = reshape {dims = [T]} (%u3) %u4 = slice {start = [0, 4], limit = [T, 5]} (%xs) %x4 = reshape {dims = [T]}
           (%u4) %u5 = slice {start = [0, 5], limit = [T, 6]} (%xs) %x5 = reshape {dims = [T]} (%u5) %u6 = slice {start = [0, 6], limit =
           [T, 7]} (%xs) %x6 = reshape {dims = [T]} (%u6) %u7 = slice {start = [0, 7], limit = [T, 8]} (%xs) %x7 = reshape {dims = [T]}
           (%u7) %f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7, %g0, %g1, %g2, %g3, %g4, %g5, %g6, %g7 = scan carry(%c0 = %i0, %c1 = %i1, %c2 =
           %i2, %c3 = %i3, %c4 = %i4, %c5 = %i5, %c6 = %i6, %c7 = %i7) over(%y0 in %x0, %y1 in %x1, %y2 in %x2, %y3 in %x3, %y4 in %x4, %y5
           in %x5, %y6 in %x6, %y7 in %x7) { %m0 = mul(%c0, %y0) %n0 = sin(%m0) %m1 = mul(%c1, %y1) %n1 = sin(%m1) %m2 = mul(%c2, %y2) %n2 =
           sin(%m2) %m3 = mul(%c3, %y3) %n3 = sin(%m3) %m4 = mul(%c4, %y4) %n4 = sin(%m4) %m5 = mul(%c5, %y5) %n5 = sin(%m5) %m6 = mul(%c6,
           %y6) %n6 = sin(%m6) %m7 = mul(%c7, %y7) %n7 = sin(%m7) next(%n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7) stack(%m0, %m1, %m2, %m3,
           %m4, %m5, %m6, %m7) } %r0 = reshape {dims = [1]} (%f0) %r1 = reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 =
           reshape {dims = [1]} (%f3) %r4 = reshape {dims = [1]} (%f4) %r5 = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7
           = reshape {dims = [1]} (%f7) %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7) %e0 = add(%g0, %g1) %e1 = add(%e0,
           %g2) %e2 = add(%e1, %g3) %e3 = add(%e2, %g4) %e4 = add(%e3, %g5) %e5 = add(%e4, %g6) %e6 = add(%e5, %g7) return %r, %e6 }) },
{ "groups of two dtypes that need each other", "", "pack fold dce", "scan=1 >gt=1 >cast=2 >add=1 >mul=1 >tanh=1",
  TEXT(fn @main(%h: f32[8], %g: i32[8], %w: f32[]) -> (f32[8], i32[]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %u0 = slice {start = [0], limit =
           [1]} (%g) %j0 = reshape {dims = []} (%u0) %u1 = slice {start = [1], limit = [2]} (%g) %j1 = reshape {dims = []} (%u1) %u2 = slice
           {start = [2], limit = [3]} (%g) %j2 = reshape {dims = []} (%u2) %u3 = slice {start = [3], limit = [4]} (%g) %j3 = reshape {dims =
           []} (%u3) %u4 = slice {start = [4], limit = [5]} (%g) %j4 = reshape {dims = []} (%u4) %u5 = slice {start = [5], limit = [6]} (%g)
           %j5 = reshape {dims = []} (%u5) %u6 = slice {start = [6], limit = [7]} (%g) %j6 = reshape {dims = []} (%u6) %u7 = slice {start =
           [7], limit = [8]} (%g) %j7 = reshape {dims = []} (%u7) %f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7, %e0, %e1, %e2, %e3, %e4, %e5, %e6,
           %e7 = scan {length = 5} carry(%c0 = %i0, %c1 = %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5 = %i5, %c6 = %i6, %c7 = %i7, %b0 = %j0,
           %b1 = %j1, %b2 = %j2, %b3 = %j3, %b4 = %j4, %b5 = %j5, %b6 = %j6, %b7 = %j7) with(%v = %w) { %q0 = gt(%c0, %v) %k0 = cast {dtype
           = i32} (%q0) %d0 = add(%b0, %k0) %t0 = cast {dtype = f32} (%d0) %m0 = mul(%c0, %t0) %n0 = tanh(%m0) %q1 = gt(%c1, %v) %k1 = cast
           {dtype = i32} (%q1) %d1 = add(%b1, %k1) %t1 = cast {dtype = f32} (%d1) %m1 = mul(%c1, %t1) %n1 = tanh(%m1) %q2 = gt(%c2, %v) %k2
           = cast {dtype = i32} (%q2) %d2 = add(%b2, %k2) %t2 = cast {dtype = f32} (%d2) %m2 = mul(%c2, %t2) %n2 = tanh(%m2) %q3 = gt(%c3,
           %v) %k3 = cast {dtype = i32} (%q3) %d3 = add(%b3, %k3) %t3 = cast {dtype = f32} (%d3) %m3 = mul(%c3, %t3) %n3 = tanh(%m3) %q4 =
           gt(%c4, %v) %k4 = cast {dtype = i32} (%q4) %d4 = add(%b4, %k4) %t4 = cast {dtype = f32} (%d4) %m4 = mul(%c4, %t4) %n4 = tanh(%m4)
           %q5 = gt(%c5, %v) %k5 = cast {dtype = i32} (%q5) %d5 = add(%b5, %k5) %t5 = cast {dtype = f32} (%d5) %m5 = mul(%c5, %t5) %n5 =
           tanh(%m5) %q6 = gt(%c6, %v) %k6 = cast {dtype = i32} (%q6) %d6 = add(%b6, %k6) %t6 = cast {dtype = f32} (%d6) %m6 = mul(%c6, %t6)
           %n6 = tanh(%m6) %q7 = gt(%c7, %v) %k7 = cast {dtype = i32} (%q7) %d7 = add(%b7, %k7) %t7 = cast {dtype = f32} (%d7) %m7 =
           mul(%c7, %t7) %n7 = tanh(%m7) next(%n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7, %d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7) } %r0 =
           reshape {dims = [1]} (%f0) %r1 = reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4
           = reshape {dims = [1]} (%f4) %r5 = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7)
           %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7) %t = sub(%e0, %e7) return %r, %t }) },
{ "small arrays stand side by side", "", "pack fold dce", "scan=1 >mul=1 >tanh=1 >concat=1 permute=1",
  TEXT(fn @main(%h: f32[8, 2]) -> (f32[8, 2]) {
           %s0 = slice {start = [0, 0], limit = [1, 2]} (%h) %i0 = reshape {dims = [2]} (%s0) %s1 = slice {start = [1, 0], limit = [2, 2]}
           (%h) %i1 = reshape {dims = [2]} (%s1) %s2 = slice {start = [2, 0], limit = [3, 2]} (%h) %i2 = reshape {dims = [2]} (%s2) %s3 =
           slice {start = [3, 0], limit = [4, 2]} (%h) %i3 = reshape {dims = [2]} (%s3) %s4 = slice {start = [4, 0], limit = [5, 2]} (%h)
           %i4 = reshape {dims = [2]} (%s4) %s5 = slice {start = [5, 0], limit = [6, 2]} (%h) %i5 = reshape {dims = [2]} (%s5) %s6 = slice
           {start = [6, 0], limit = [7, 2]} (%h) %i6 = reshape {dims = [2]} (%s6) %s7 = slice {start = [7, 0], limit = [8, 2]} (%h) %i7 =
           reshape {dims = [2]} (%s7) %f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7 = scan {length = 5} carry(%c0 = %i0, %c1 = %i1, %c2 = %i2, %c3
           = %i3, %c4 = %i4, %c5 = %i5, %c6 = %i6, %c7 = %i7) { %m0 = mul(%c0, %c1) %n0 = tanh(%m0) %m1 = mul(%c1, %c2) %n1 = tanh(%m1) %m2
           = mul(%c2, %c3) %n2 = tanh(%m2) %m3 = mul(%c3, %c4) %n3 = tanh(%m3) %m4 = mul(%c4, %c5) %n4 = tanh(%m4) %m5 = mul(%c5, %c6) %n5 =
           tanh(%m5) %m6 = mul(%c6, %c7) %n6 = tanh(%m6) %m7 = mul(%c7, %c0) %n7 = tanh(%m7) next(%n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7) }
           %r0 = reshape {dims = [1, 2]} (%f0) %r1 = reshape {dims = [1, 2]} (%f1) %r2 = reshape {dims = [1, 2]} (%f2) %r3 = reshape {dims =
           [1, 2]} (%f3) %r4 = reshape {dims = [1, 2]} (%f4) %r5 = reshape {dims = [1, 2]} (%f5) %r6 = reshape {dims = [1, 2]} (%f6) %r7 =
           reshape {dims = [1, 2]} (%f7) %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7) return %r }) },
{ "values that are put together are computed together", "", "pack fold dce", "nodes=3 broadcast=1 mul=1 exp=1",
  TEXT(fn @main(%h: f32[8], %w: f32[]) -> (f32[8]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %m0 = mul(%i0, %w) %f0 = exp(%m0)
           %m1 = mul(%i1, %w) %f1 = exp(%m1) %m2 = mul(%i2, %w) %f2 = exp(%m2) %m3 = mul(%i3, %w) %f3 = exp(%m3) %m4 = mul(%i4, %w) %f4 =
           exp(%m4) %m5 = mul(%i5, %w) %f5 = exp(%m5) %m6 = mul(%i6, %w) %f6 = exp(%m6) %m7 = mul(%i7, %w) %f7 = exp(%m7) %r0 = reshape
           {dims = [1]} (%f0) %r1 = reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 =
           reshape {dims = [1]} (%f4) %r5 = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7) %r
           = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7) return %r }) },
{ "a loop in a loop", "", "", ">scan=1 >tanh=2 >reshape=0",
  TEXT(fn @main(%h: f32[8]) -> (f32[8]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %f0, %f1, %f2, %f3, %f4, %f5, %f6,
           %f7 = scan {length = 5} carry(%c0 = %i0, %c1 = %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5 = %i5, %c6 = %i6, %c7 = %i7) { %m0 =
           add(%c0, %c1) %n0 = tanh(%m0) %m1 = add(%c1, %c2) %n1 = tanh(%m1) %m2 = add(%c2, %c3) %n2 = tanh(%m2) %m3 = add(%c3, %c4) %n3 =
           tanh(%m3) %m4 = add(%c4, %c5) %n4 = tanh(%m4) %m5 = add(%c5, %c6) %n5 = tanh(%m5) %m6 = add(%c6, %c7) %n6 = tanh(%m6) %m7 =
           add(%c7, %c0) %n7 = tanh(%m7) %g0, %g1, %g2, %g3, %g4, %g5, %g6, %g7 = scan {length = 9} carry(%q0 = %n0, %q1 = %n1, %q2 = %n2,
           %q3 = %n3, %q4 = %n4, %q5 = %n5, %q6 = %n6, %q7 = %n7) { %d0 = tanh(%q0) %d1 = tanh(%q1) %d2 = tanh(%q2) %d3 = tanh(%q3) %d4 =
           tanh(%q4) %d5 = tanh(%q5) %d6 = tanh(%q6) %d7 = tanh(%q7) next(%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7) } next(%g0, %g1, %g2, %g3,
           %g4, %g5, %g6, %g7) } %r0 = reshape {dims = [1]} (%f0) %r1 = reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 =
           reshape {dims = [1]} (%f3) %r4 = reshape {dims = [1]} (%f4) %r5 = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7
           = reshape {dims = [1]} (%f7) %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7) return %r }) },
{ "a branch in between, printing in order", "", "pack dce", ">switch=1 >sin=1 >print=2",
  TEXT(fn @main[T in 4..64](%h: f32[8], %is: i32[T]) -> (f32[8]) {
           %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []} (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 =
           reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2 = reshape {dims = []} (%s2) %s3 = slice {start = [3],
           limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4], limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5
           = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6 = slice {start = [6], limit = [7]} (%h) %i6 = reshape
           {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape {dims = []} (%s7) %f0, %f1, %f2, %f3, %f4, %f5, %f6,
           %f7 = scan carry(%c0 = %i0, %c1 = %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5 = %i5, %c6 = %i6, %c7 = %i7) over(%i in %is) { %s =
           switch(%i) [(%a = %c2, %b = %c5) { %y = add(%a, %b) yield(%y) }, (%a = %c1) { %y = neg(%a) yield(%y) }] %m0 = mul(%c0, %s) %n0 =
           sin(%m0) %m1 = mul(%c1, %s) %n1 = sin(%m1) %m2 = mul(%c2, %s) %n2 = sin(%m2) %m3 = mul(%c3, %s) %n3 = sin(%m3) %m4 = mul(%c4, %s)
           %n4 = sin(%m4) %m5 = mul(%c5, %s) %n5 = sin(%m5) %m6 = mul(%c6, %s) %n6 = sin(%m6) %m7 = mul(%c7, %s) %n7 = sin(%m7) print
           {format = "a {}"} (%n3) print {format = "b {}"} (%c0) next(%n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7) } %r0 = reshape {dims = [1]}
           (%f0) %r1 = reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 = reshape {dims =
           [1]} (%f4) %r5 = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7) %r = concat {dim =
           0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7) return %r }) },
{ "lanes go through branches", "", "pack fold dce", "nodes=1 scan=1 >switch=1 >mul=1 >sin=1 >constant=1 >reshape=0",
  TEXT(fn @main[T in 4..64](%h: f32[8], %is: i32[T]) -> (f32[8]) { %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []}
           (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 = reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2
           = reshape {dims = []} (%s2) %s3 = slice {start = [3], limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4],
           limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5 = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6
           = slice {start = [6], limit = [7]} (%h) %i6 = reshape {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape
           {dims = []} (%s7) %f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7 = scan carry(%c0 = %i0, %c1 = %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5 =
           %i5, %c6 = %i6, %c7 = %i7) over(%i in %is) { %n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7 = switch(%i) [(%a0 = %c0, %a1 = %c1, %a2 =
           %c2, %a3 = %c3, %a4 = %c4, %a5 = %c5, %a6 = %c6, %a7 = %c7) { %m0 = mul(%a0, %a1) %y0 = sin(%m0) %m1 = mul(%a1, %a2) %y1 =
           sin(%m1) %m2 = mul(%a2, %a3) %y2 = sin(%m2) %m3 = mul(%a3, %a4) %y3 = sin(%m3) %m4 = mul(%a4, %a5) %y4 = sin(%m4) %m5 = mul(%a5,
           %a6) %y5 = sin(%m5) %m6 = mul(%a6, %a7) %y6 = sin(%m6) %m7 = mul(%a7, %a0) %y7 = sin(%m7) yield(%y0, %y1, %y2, %y3, %y4, %y5, %y6,
           %y7) }, (%a0 = %c0, %a1 = %c1, %a2 = %c2, %a3 = %c3, %a4 = %c4, %a5 = %c5, %a6 = %c6, %a7 = %c7) { yield(%a0, %a1, %a2, %a3, %a4,
           %a5, %a6, %a7) }, (%a0 = %c0, %a1 = %c1, %a2 = %c2, %a3 = %c3, %a4 = %c4, %a5 = %c5, %a6 = %c6, %a7 = %c7) { %y0 = full {value =
           0, dims = []} %y1 = full {value = 1, dims = []} %y2 = full {value = 2, dims = []} %y3 = full {value = 3, dims = []} %y4 = full
           {value = 4, dims = []} %y5 = full {value = 5, dims = []} %y6 = full {value = 6, dims = []} %y7 = full {value = 7, dims = []}
           yield(%y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7) }] next(%n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7) } %r0 = reshape {dims = [1]} (%f0)
           %r1 = reshape {dims = [1]} (%f1) %r2 = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 = reshape {dims = [1]}
           (%f4) %r5 = reshape {dims = [1]} (%f5) %r6 = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7) %r = concat {dim = 0}
           (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7) return %r }) },
{ "lanes that a branch does not update alike stay", "", "pack fold dce", "scan=1 >switch=1 >sin=9 >mul=8 >reshape=0 >concat=0",
  TEXT(fn @main[T in 4..64](%h: f32[8], %is: i32[T]) -> (f32[8]) { %s0 = slice {start = [0], limit = [1]} (%h) %i0 = reshape {dims = []}
           (%s0) %s1 = slice {start = [1], limit = [2]} (%h) %i1 = reshape {dims = []} (%s1) %s2 = slice {start = [2], limit = [3]} (%h) %i2
           = reshape {dims = []} (%s2) %s3 = slice {start = [3], limit = [4]} (%h) %i3 = reshape {dims = []} (%s3) %s4 = slice {start = [4],
           limit = [5]} (%h) %i4 = reshape {dims = []} (%s4) %s5 = slice {start = [5], limit = [6]} (%h) %i5 = reshape {dims = []} (%s5) %s6
           = slice {start = [6], limit = [7]} (%h) %i6 = reshape {dims = []} (%s6) %s7 = slice {start = [7], limit = [8]} (%h) %i7 = reshape
           {dims = []} (%s7) %f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7 = scan carry(%c0 = %i0, %c1 = %i1, %c2 = %i2, %c3 = %i3, %c4 = %i4, %c5 =
           %i5, %c6 = %i6, %c7 = %i7) over(%i in %is) { %n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7 = switch(%i) [(%a0 = %c0, %a1 = %c1, %a2 =
           %c2, %a3 = %c3, %a4 = %c4, %a5 = %c5, %a6 = %c6, %a7 = %c7) { %m0 = mul(%a0, %a1) %y0 = sin(%m0) %m1 = mul(%a1, %a2) %y1 =
           sin(%m1) %m2 = mul(%a2, %a3) %y2 = sin(%m2) %m3 = mul(%a3, %a4) %y3 = sin(%m3) %m4 = mul(%a4, %a5) %y4 = sin(%m4) %m5 = mul(%a5,
           %a6) %y5 = sin(%m5) %m6 = mul(%a6, %a7) %y6 = sin(%m6) %m7 = mul(%a7, %a0) %y7 = sin(%m7) yield(%y0, %y1, %y2, %y3, %y4, %y5, %y6,
           %y7) }, (%a0 = %c0, %a1 = %c1, %a2 = %c2, %a3 = %c3, %a4 = %c4, %a5 = %c5, %a6 = %c6, %a7 = %c7) { %y0 = sin(%a0) %y1 = cos(%a1)
           %y2 = tanh(%a2) %y3 = exp(%a3) %y4 = neg(%a4) %y5 = abs(%a5) %y6 = sqrt(%a6) %y7 = floor(%a7) yield(%y0, %y1, %y2, %y3, %y4, %y5,
           %y6, %y7) }] next(%n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7) } %r0 = reshape {dims = [1]} (%f0) %r1 = reshape {dims = [1]} (%f1) %r2
           = reshape {dims = [1]} (%f2) %r3 = reshape {dims = [1]} (%f3) %r4 = reshape {dims = [1]} (%f4) %r5 = reshape {dims = [1]} (%f5)
           %r6 = reshape {dims = [1]} (%f6) %r7 = reshape {dims = [1]} (%f7) %r = concat {dim = 0} (%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7)
           return %r }) },

/* ---- together ---- */
{ "the step of a recurrent network", "w u b xs h0", "", "scan=2 dot=4 >dot=1 >matmul=1 permute=1 >permute=0 >full=1",
  TEXT(fn @main[T in 1..64](%h0: f32[6], %xs: f32[T, 5], %w: f32[6, 6], %u: f32[5, 6], %b: f32[6]) -> (f32[]) {
           %h, %ys = scan carry(%c = %h0) over(%x in %xs) with(%v = %w, %uu = %u, %bb = %b) {
               %a = matmul(%c, %v) %a2 = matmul(%x, %uu) %s = add(%a, %a2) %s2 = add(%s, %bb) %n = tanh(%s2) next(%n) stack(%n) }
           %sq = mul(%ys, %ys) %r = sum(%sq) return %r }) },
{ "a batch of recurrent networks", "w u b", "", "scan=2 >dot=1 >matmul=1",
  TEXT(fn @main[T in 1..64](%h0: f32[2, 6], %xs: f32[T, 2, 5], %w: f32[6, 6], %u: f32[5, 6], %b: f32[6]) -> (f32[]) {
           %h, %ys = scan carry(%c = %h0) over(%x in %xs) with(%v = %w, %uu = %u, %bb = %b) {
               %a = matmul(%c, %v) %a2 = matmul(%x, %uu) %s = add(%a, %a2) %k = broadcast {dims = [2, 6], at = [1]} (%bb) %s2 = add(%s, %k) %n = tanh(%s2)
               next(%n) stack(%n) }
           %sq = mul(%ys, %ys) %r = sum(%sq) return %r }) },
{ "gradients through branches in a scan", "w xs", "", "scan=2",
  TEXT(fn @main[T in 1..64](%h0: f32[4], %xs: f32[T, 4], %is: i32[T], %w: f32[4]) -> (f32[]) {
           %h = scan carry(%c = %h0) over(%x in %xs, %i in %is) with(%v = %w) {
               %r = switch(%i) [(%a = %c, %b = %x, %k = %v) { %m = mul(%a, %k) %n = add(%m, %b) %o = tanh(%n) yield(%o) },
                                (%a = %c, %b = %x) { %s = sin(%b) %o = mul(%a, %s) yield(%o) }, (%a = %c) { yield(%a) }]
               next(%r) }
           %r = sum(%h) return %r }) },
{ "gradients through nested scans", "w m", "", "",
  TEXT(fn @main(%h0: f32[4], %xs: f32[3, 2, 4], %w: f32[4], %m: f32[4, 4]) -> (f32[]) {
           %h = scan carry(%c = %h0) over(%x in %xs) with(%v = %w, %mm = %m) {
               %i = scan carry(%d = %c) over(%y in %x) with(%u = %v, %k = %mm) { %e = exp(%u) %f = matmul(%d, %k) %g = mul(%f, %e) %p = add(%g, %y) %q = tanh(%p) next(%q) }
               next(%i) }
           %r = sum(%h) return %r }) },
{ "gradients through a while_loop", "x w", "", "",
  TEXT(fn @main(%x: f32[3], %w: f32[3]) -> (f32[]) {
           %z = full {value = 0, dims = [], dtype = i32}
           %i, %a = while_loop carry(%k = %z, %s = %x) cond { %l = full {value = 4, dims = [], dtype = i32} %p = lt(%k, %l) test(%p) }
               body with(%v = %w) { %one = full {value = 1, dims = [], dtype = i32} %k1 = add(%k, %one) %e = exp(%v) %m = mul(%s, %e) %t = tanh(%m) next(%k1, %t) }
           %r = sum(%a) return %r }) },

/* ---- slices ---- */
{ "attention runs slice by slice", "", "slices", "map=1 dot=0 matmul=0 reshape=4 >dot=1 >matmul=1 >exp=1",
  TEXT(fn @main(%q: f32[2, 3, 5, 4], %k: f32[2, 3, 5, 4], %v: f32[2, 3, 5, 4]) -> (f32[2, 3, 5, 4]) {
           %s = dot {batch_lhs = [0, 1], batch_rhs = [0, 1], contract_lhs = [3], contract_rhs = [3]} (%q, %k)
           %p = softmax {dims = [3]} (%s) %o = matmul(%p, %v) return %o }) },
{ "and its gradient in one map", "q, k, v", "", "map=1 dot=0 matmul=0",
  TEXT(fn @main(%q: f32[2, 3, 5, 4], %k: f32[2, 3, 5, 4], %v: f32[2, 3, 5, 4]) -> (f32[]) {
           %s = dot {batch_lhs = [0, 1], batch_rhs = [0, 1], contract_lhs = [3], contract_rhs = [3]} (%q, %k)
           %p = softmax {dims = [3]} (%s) %o = matmul(%p, %v) %t = tanh(%o) %r = sum(%t) return %r }) },
{ "heads that stand behind the rows", "q, k, v", "", "map=1 dot=0",
  TEXT(fn @main(%q: f32[2, 5, 3, 4], %k: f32[2, 5, 3, 4], %v: f32[2, 5, 3, 4]) -> (f32[]) {
           %s = dot {batch_lhs = [0, 2], batch_rhs = [0, 2], contract_lhs = [3], contract_rhs = [3]} (%q, %k)
           %p = softmax {dims = [3]} (%s)
           %o = dot {batch_lhs = [0, 1], batch_rhs = [0, 2], contract_lhs = [3], contract_rhs = [1]} (%p, %v)
           %u = permute {order = [0, 2, 1, 3]} (%o) %t = tanh(%u) %r = sum(%t) return %r }) },
{ "a mask and a bias that slices share", "", "", "map=1 dot=0 matmul=0",
  TEXT(fn @main(%q: f32[2, 3, 5, 4], %k: f32[2, 3, 5, 4], %v: f32[2, 3, 5, 4], %b: f32[3, 5, 5], %long: i64[2]) -> (f32[2, 3, 5, 4]) {
           %s = dot {batch_lhs = [0, 1], batch_rhs = [0, 1], contract_lhs = [3], contract_rhs = [3]} (%q, %k)
           %w = broadcast {dims = [2, 3, 5, 5], at = [1, 2, 3]} (%b) %x = add(%s, %w)
           %i = iota {dims = [2, 5], dim = 1, dtype = i64} %n = broadcast {dims = [2, 5], at = [0]} (%long)
           %there = lt(%i, %n) %all = broadcast {dims = [2, 3, 5, 5], at = [0, 3]} (%there)
           %low = full {value = -1000000000.0, dims = [2, 3, 5, 5], dtype = f32} %y = select(%all, %x, %low)
           %p = softmax {dims = [3]} (%y) %o = matmul(%p, %v) return %o }) },
{ "products with weights stay outside", "", "slices", "map=1 matmul=1 >matmul=1",
  TEXT(fn @main(%x: f32[3, 5, 4], %w: f32[4, 4]) -> (f32[3, 5, 4]) {
           %q = matmul(%x, %w)
           %s = dot {batch_lhs = [0], batch_rhs = [0], contract_lhs = [2], contract_rhs = [2]} (%q, %x)
           %p = softmax {dims = [2]} (%s) %o = matmul(%p, %x) return %o }) },
{ "what needs the whole batch in between is not cut", "", "slices", "map=1 >dot=1 matmul=1",
  TEXT(fn @main(%q: f32[3, 5, 4], %k: f32[3, 5, 4], %v: f32[3, 5, 4]) -> (f32[3, 5, 4]) {
           %s = dot {batch_lhs = [0], batch_rhs = [0], contract_lhs = [2], contract_rhs = [2]} (%q, %k)
           %e = exp(%s) %t = sum {dims = [0]} (%e) %b = broadcast {dims = [3, 5, 5], at = [1, 2]} (%t)
           %p = div(%e, %b) %o = matmul(%p, %v) return %o }) },
{ "an effect keeps its place", "", "slices", "map=1 print=2",
  TEXT(fn @main(%q: f32[3, 5, 4], %k: f32[3, 5, 4], %v: f32[3, 5, 4]) -> (f32[3, 5, 4]) {
           %s = dot {batch_lhs = [0], batch_rhs = [0], contract_lhs = [2], contract_rhs = [2]} (%q, %k)
           %e = exp(%s) %t = sum(%e) print {format = "first {}"} (%t) %u = sum(%v) print {format = "then {}"} (%u)
           %w = neg(%v) %o = matmul(%e, %w) return %o }) },
