/* Programs of simplify_test.c with control flow in control flow, to be transformed before they are
 * simplified: { name, "", "", "", text }. */
/* Their text is not C. clang-format lays none of it out: */
/* clang-format off */
{ "a recurrent step in f64", "", "", "",
  TEXT(fn @main[T](%h: f64[3], %xs: f64[T, 2], %w: f64[3, 3], %u: f64[2, 3]) -> (f64[3], f64[T, 3]) {
           %c, %ys = scan carry(%s = %h) over(%x in %xs) with(%v = %w, %q = %u) {
               %a = matmul(%s, %v) %b = matmul(%x, %q) %d = add(%a, %b) %n = tanh(%d) next(%n) stack(%n) }
           return %c, %ys }) },
{ "mixed carries, backwards", "", "", "",
  TEXT(fn @main[T](%h: f64[], %g: f64[2], %k: i64[], %xs: f64[T, 2], %w: f64[2], %z: f64[]) -> (f64[], f64[2], i64[], f64[T], f64[T, 2], i64[T]) {
           %is = iota {dims = [T]}
           %a, %b, %c, %d, %e, %f = scan {reverse} carry(%s = %h, %q = %g, %n = %k) over(%x in %xs, %i in %is) with(%v = %w, %y = %z) {
               %j = add(%n, %i) %r = cast {dtype = f64} (%j) %m = mul(%x, %v) %o = sum(%m) %p = mul(%s, %o) %t = sin(%p) %u = add(%t, %r)
               next(%t, %q, %j) stack(%u, %m, %n) }
           return %a, %b, %c, %d, %e, %f }) },
{ "a while_loop with a data-dependent number of trips", "", "", "",
  TEXT(fn @main(%x: f64[], %w: f64[2]) -> (f64[], i64[], f64[2]) {
           %a = abs(%x)
           %y, %z, %n = while_loop {count} carry(%c = %a, %d = %w)
               cond { %l = full {value = 5, dims = [], dtype = f64} %p = lt(%c, %l) test(%p) }
               body with(%v = %w) { %one = full {value = 1, dims = [], dtype = f64} %e = add(%c, %one) %s = sin(%v) %f = mul(%d, %s) %g = tanh(%f) next(%e, %g) }
           return %y, %n, %z }) },
{ "a while_loop that stacks", "", "", "",
  TEXT(fn @main(%x: f64[], %w: f64[2]) -> (f64[], f64[]) {
           %a = abs(%x)
           %y, %n, %s: f64[?n], %t: f64[?n, 2] = while_loop carry(%c = %a)
               cond { %l = full {value = 3, dims = [], dtype = f64} %p = lt(%c, %l) test(%p) }
               body with(%v = %w) { %one = full {value = 1, dims = [], dtype = f64} %e = add(%c, %one) %b = broadcast {dims = [2], at = []} (%c) %m = mul(%b, %v)
                                    %g = sin(%c) next(%e) stack(%g, %m) }
           %u = sum(%s) %q = sum(%t) %r = add(%u, %q) return %y, %r }) },
{ "a switch whose branches read different operands", "", "", "",
  TEXT(fn @main(%i: i32[], %x: f64[3], %y: f64[3]) -> (f64[3], f64[3]) {
           %a, %b = switch(%i) [(%p = %x, %q = %y) { %r = mul(%p, %q) %s = exp(%r) yield(%s, %q) }, (%p = %x) { %z = full {value = 2, dims = [3], dtype = f64} yield(%p, %z) },
                                (%q = %y) { %s = sin(%q) yield(%s, %q) }]
           return %a, %b }) },
{ "a while_loop in a scan", "", "", "",
  TEXT(fn @main[T](%h: f64[2], %xs: f64[T, 2], %ns: i64[T], %w: f64[2]) -> (f64[2], f64[T, 2]) {
           %c, %ys = scan carry(%s = %h) over(%x in %xs, %n in %ns) with(%v = %w) {
               %a = add(%s, %x)
               %i, %d = while_loop carry(%k = %n, %b = %a) cond { %zero = full {value = 0, dims = [], dtype = i64} %t = gt(%k, %zero) test(%t) }
                   body with(%u = %v) { %one = full {value = 1, dims = [], dtype = i64} %j = sub(%k, %one) %e = exp(%u) %m = mul(%b, %e) %o = sin(%m) next(%j, %o) }
               next(%d) stack(%a) }
           return %c, %ys }) },
{ "a scan in a while_loop", "", "", "",
  TEXT(fn @main[T](%n: i64[], %h: f64[2], %xs: f64[T, 2], %w: f64[2, 2]) -> (f64[2]) {
           %i, %d = while_loop carry(%k = %n, %b = %h) cond { %zero = full {value = 0, dims = [], dtype = i64} %t = gt(%k, %zero) test(%t) }
               body with(%ys = %xs, %u = %w) {
                   %one = full {value = 1, dims = [], dtype = i64} %j = sub(%k, %one)
                   %c = scan carry(%s = %b) over(%x in %ys) with(%v = %u) { %a = matmul(%x, %v) %m = mul(%s, %a) %o = sin(%m) next(%o) }
                   next(%j, %c) }
           return %d }) },
{ "a switch in a scan in a scan", "", "", "",
  TEXT(fn @main[T](%h: f64[2], %xs: f64[T, 3, 2], %is: i32[T], %w: f64[2, 2]) -> (f64[2], f64[T, 3, 2]) {
           %c, %ys = scan carry(%s = %h) over(%x in %xs, %i in %is) with(%v = %w) {
               %d, %zs = scan carry(%r = %s) over(%y in %x) with(%k = %i, %u = %v) {
                   %e = switch(%k) [(%p = %r, %q = %u) { %m = matmul(%p, %q) %o = tanh(%m) yield(%o) }, (%p = %r, %q = %y) { %m = mul(%p, %q) yield(%m) }, (%p = %r) { yield(%p) }]
                   %f = add(%e, %y) next(%f) stack(%e) }
               next(%d) stack(%zs) }
           return %c, %ys }) },
{ "a scan in a switch", "", "", "",
  TEXT(fn @main[T](%p: bool[], %h: f64[2], %xs: f64[T, 2], %w: f64[2]) -> (f64[2], f64[T, 2]) {
           %a, %b = switch(%p) [(%s = %h, %ys = %xs) { yield(%s, %ys) },
                                (%s = %h, %ys = %xs, %v = %w) {
                                    %c, %zs = scan {reverse} carry(%r = %s) over(%y in %ys) with(%u = %v) { %e = exp(%u) %m = mul(%r, %e) %o = add(%m, %y) next(%o) stack(%o) }
                                    yield(%c, %zs) }]
           return %a, %b }) },
{ "calls in a loop", "", "", "",
  TEXT(fn @step[N](%x: f64[N], %y: f64[N], %k: f64[]) -> (f64[N], f64[N]) {
           %a = mul(%x, %y) %b = sin(%a) %c = broadcast {dims = [N], at = []} (%k) %d = mul(%b, %c) %e = add(%d, %x) %f = tanh(%e) %g = exp(%f) %h = neg(%g)
           %i = tanh(%h) %j = mul(%i, %x) %l = add(%j, %y) %m = sin(%l) %n = mul(%m, %m) return %n, %y }
       fn @main[T](%h: f64[2], %xs: f64[T, 2], %k: f64[]) -> (f64[2], f64[T, 2]) {
           %c, %ys = scan carry(%s = %h) over(%x in %xs) with(%v = %k) {
               %a, %b = invoke_subgraph @step(%s, %x, %v) %d, %e = invoke_subgraph @step(%a, %b, %v) next(%d) stack(%a) }
           return %c, %ys }) },
{ "a carry one step behind", "", "", "",
  TEXT(fn @main[T](%h: f64[2], %g: f64[2], %xs: f64[T, 2]) -> (f64[2], f64[T, 2]) {
           %a, %b, %ys = scan carry(%s = %h, %r = %g) over(%x in %xs) { %m = mul(%s, %r) %n = add(%m, %x) %o = sin(%n) next(%o, %s) stack(%r) } return %b, %ys }) },
{ "sizes known at run time", "", "", "",
  TEXT(fn @main(%n: i64[], %x: f64[]) -> (f64[]) {
           %i: i64[?k] = bind_dim(%n) %a = cast {dtype = f64} (%i)
           %s = scan carry(%c = %x) over(%y in %a) { %m = mul(%c, %c) %d = add(%m, %y) %e = sin(%d) next(%e) } return %s }) },
