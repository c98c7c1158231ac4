/* The programs of simplify_test.c: { name, gradient parameters, passes, structure afterwards, text }. */
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
{ "a check that may fail stays and fails", "", "ranges dce", "check=1",
  TEXT(fn @main[T in 0..9](%x: f32[T]) -> (f32[T]) {
           %t = dim_value {dim = T} %k = full {value = 4, dims = [], dtype = i64} %p = lt(%t, %k) check {message = "small"} (%p) return %x }) },

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
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[4], f32[T, 4]) {
           %a, %ys = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) stack(%s) }
           %b = scan carry(%d = %h) over(%y in %ys) { %m = mul(%d, %y) next(%m) } return %b, %ys }) },
{ "a scan that needs the end of the other waits for it", "", "join dce", "scan=2",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[4]) {
           %a, %ys = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) stack(%s) } %e = neg(%a)
           %b = scan carry(%d = %e) over(%y in %ys) { %m = mul(%d, %y) next(%m) } return %b }) },
{ "opposite directions are two loops", "", "join dce", "scan=2",
  TEXT(fn @main[T](%h: f32[4], %xs: f32[T, 4]) -> (f32[4]) {
           %a, %ys = scan carry(%c = %h) over(%x in %xs) { %s = add(%c, %x) next(%s) stack(%s) }
           %b = scan {reverse} carry(%d = %h) over(%y in %ys) { %m = mul(%d, %y) next(%m) } return %b }) },

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
