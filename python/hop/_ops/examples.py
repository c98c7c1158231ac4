"""Functions that are made from tables have no docstrings of their own to hold an example: here they are,
with remarks. Each example is run by a test."""

EXAMPLES = {
    "abs": """ The smallest signed integer stays negative, as in NumPy.

>>> hop.abs(hop.asarray([-1.5, 2.0]))
Array([1.5, 2. ], dtype=float32)
""",
    "acos": """ NaN outside of -1..1.

>>> hop.acos(hop.asarray([1.0, 0.0]))
Array([0.       , 1.5707964], dtype=float32)
""",
    "acosh": """ NaN below 1; the derivative is infinite at 1.

>>> hop.acosh(hop.asarray([1.0, 2.0]))
Array([0.      , 1.316958], dtype=float32)
""",
    "add": """ The operands broadcast; dtypes are promoted, and integers wrap around.

>>> hop.add(hop.asarray([1, 2]), 0.5)
Array([1.5, 2.5], dtype=float32)
""",
    "argmax": """ int64. Of all elements, without axes, when no axis is given.

>>> hop.argmax(hop.asarray([[1, 9, 9], [4, 3, 2]]), axis=1)
Array([1, 0], dtype=int64)
""",
    "argmin": """ int64. Of all elements, without axes, when no axis is given.

>>> hop.argmin(hop.asarray([[1, 9], [4, 3]]))
Array(0, dtype=int64)
""",
    "asin": """ NaN outside of -1..1.

>>> hop.asin(hop.asarray([0.0, 0.5, 2.0]))
Array([0.       , 0.5235988,       nan], dtype=float32)
""",
    "asinh": """ Of any real number, odd like sinh.

>>> hop.asinh(hop.asarray([0.0, 1.0]))
Array([0.       , 0.8813736], dtype=float32)
""",
    "atan": """ hop.atan2 knows the quadrant as well.

>>> hop.atan(hop.asarray([0.0, 1.0, hop.inf]))
Array([0.       , 0.7853982, 1.5707964], dtype=float32)
""",
    "atan2": """ From -pi to pi, with both signs of 0.

>>> hop.atan2(hop.asarray([1.0, 1.0]), hop.asarray([1.0, -1.0]))
Array([0.7853982, 2.3561945], dtype=float32)
""",
    "atanh": """ Infinite at -1 and 1, NaN beyond.

>>> hop.atanh(hop.asarray([0.0, 0.5, 1.0]))
Array([0.        , 0.54930615,        inf], dtype=float32)
""",
    "bitwise_and": """ Operands are integers or bools.

>>> hop.bitwise_and(hop.asarray([6, 5]), 3)
Array([2, 1], dtype=int64)
""",
    "bitwise_invert": """ Of bools it is the opposite.

>>> hop.bitwise_invert(hop.asarray([0, 5]))
Array([-1, -6], dtype=int64)
>>> hop.bitwise_invert(hop.asarray([True, False]))
Array([False,  True], dtype=bool)
""",
    "bitwise_left_shift": """ A shift by as many bits as the dtype has, or more, gives 0.

>>> hop.bitwise_left_shift(hop.asarray([1, 3]), 2)
Array([ 4, 12], dtype=int64)
""",
    "bitwise_or": """ Operands are integers or bools.

>>> hop.bitwise_or(hop.asarray([6, 5]), 3)
Array([7, 7], dtype=int64)
""",
    "bitwise_right_shift": """ New bits are the sign of x1.

>>> hop.bitwise_right_shift(hop.asarray([8, -8]), 2)
Array([ 2, -2], dtype=int64)
""",
    "bitwise_xor": """ Operands are integers or bools.

>>> hop.bitwise_xor(hop.asarray([6, 5]), 3)
Array([5, 6], dtype=int64)
""",
    "cbrt": """ x ** (1/3) would be NaN of negative numbers. The derivative at 0 is infinite.

>>> hop.cbrt(hop.asarray([8.0, -27.0]))
Array([ 2., -3.], dtype=float32)
""",
    "ceil": """ Integers stay integers, as the standard says. The derivative is 0.

>>> hop.ceil(hop.asarray([-1.5, 0.2]))
Array([-1.,  1.], dtype=float32)
""",
    "copysign": """ The sign of -0 and of NaN counts. The derivative with respect to x2 is 0.

>>> hop.copysign(hop.asarray([1.0, 2.0]), hop.asarray([-0.0, 5.0]))
Array([-1.,  2.], dtype=float32)
""",
    "cos": """ Right for arguments of any size.

>>> hop.cos(hop.asarray([0.0, hop.pi]))
Array([ 1., -1.], dtype=float32)
""",
    "cosh": """ Overflows to infinity above 89 in float32. The derivative is sinh(x).

>>> hop.cosh(hop.asarray([0.0, 1.0]))
Array([1.       , 1.5430806], dtype=float32)
""",
    "count_leading_zeros": """ The result has the dtype of x.

>>> hop.count_leading_zeros(hop.asarray([1, 255], dtype=hop.int32))
Array([31, 24], dtype=int32)
""",
    "cumulative_logsumexp": """\
 Without overflow; of more than one axis the axis must be named. reverse goes from the end.

>>> hop.cumulative_logsumexp(hop.asarray([0.0, 0.0]))
Array([0.       , 0.6931472], dtype=float32)
""",
    "cumulative_max": """\
 NaN from the first NaN on. Of more than one axis the axis must be named; reverse goes from the end.

>>> hop.cumulative_max(hop.asarray([1, 3, 2, 5]))
Array([1, 3, 3, 5], dtype=int64)
""",
    "cumulative_min": """\
 NaN from the first NaN on. Of more than one axis the axis must be named; reverse goes from the end.

>>> hop.cumulative_min(hop.asarray([4, 3, 5, 1]))
Array([4, 3, 3, 1], dtype=int64)
""",
    "cumulative_prod": """ Of more than one axis the axis must be named.

>>> hop.cumulative_prod(hop.asarray([1.0, 2.0, 3.0]), reverse=True)
Array([6., 6., 3.], dtype=float32)
""",
    "cumulative_sum": """\
 Of more than one axis the axis must be named. include_initial puts a 0 in front, reverse goes from
the end.

>>> hop.cumulative_sum(hop.asarray([1, 2, 3]))
Array([1, 3, 6], dtype=int64)
>>> hop.cumulative_sum(hop.asarray([1, 2, 3]), include_initial=True)
Array([0, 1, 3, 6], dtype=int64)
""",
    "divide": """ Division by 0 gives infinities and NaN.

>>> hop.divide(hop.asarray([1, 2]), 4)
Array([0.25, 0.5 ], dtype=float32)
""",
    "equal": """ The result is bool; NaN equals nothing, not even itself.

>>> hop.equal(hop.asarray([1, 2]), hop.asarray([1, 3]))
Array([ True, False], dtype=bool)
""",
    "erf": """

>>> hop.erf(hop.asarray([0.0, 0.5]))
Array([0.       , 0.5204999], dtype=float32)
""",
    "erfc": """ 1 - hop.erf(x) would be 0 from about 4 on in float32.

>>> hop.erfc(hop.asarray([0.0, 5.0]))
Array([1.0000000e+00, 1.5374598e-12], dtype=float32)
""",
    "exp": """ Overflows to infinity: for float32 above 88.7.

>>> hop.exp(hop.asarray([0.0, 1.0, -hop.inf]))
Array([1.       , 2.7182817, 0.       ], dtype=float32)
""",
    "exp2": """ Whole numbers give powers of 2 exactly.

>>> hop.exp2(hop.asarray([0.0, 3.0, -1.0]))
Array([1. , 8. , 0.5], dtype=float32)
""",
    "expm1": """ hop.exp(x) - 1 would lose the digits of a small x.

>>> hop.expm1(hop.asarray([0.0, 1e-10]))
Array([0.e+00, 1.e-10], dtype=float32)
""",
    "floor": """ Integers stay integers. The derivative is 0.

>>> hop.floor(hop.asarray([-1.5, 0.2]))
Array([-2.,  0.], dtype=float32)
""",
    "floor_divide": """ Integers divided by 0 give 0, as in NumPy.

>>> hop.floor_divide(hop.asarray([-7, 7]), 2)
Array([-4,  3], dtype=int64)
""",
    "fmod": """ As C's fmod; hop.remainder has the sign of the divisor.

>>> hop.fmod(hop.asarray([-7, 7]), 3)
Array([-1,  1], dtype=int64)
""",
    "greater": """ The result is bool, False where one is NaN.

>>> hop.greater(hop.asarray([1, 2, 3]), 2)
Array([False, False,  True], dtype=bool)
""",
    "greater_equal": """ The result is bool, False where one is NaN.

>>> hop.greater_equal(hop.asarray([1, 2, 3]), 2)
Array([False,  True,  True], dtype=bool)
""",
    "hypot": """ The derivatives are the cosine and the sine of the angle.

>>> hop.hypot(hop.asarray([3.0, 3e20]), hop.asarray([4.0, 4e20]))
Array([5.e+00, 5.e+20], dtype=float32)
""",
    "isfinite": """ True of integers.

>>> hop.isfinite(hop.asarray([1.0, hop.inf, hop.nan]))
Array([ True, False, False], dtype=bool)
""",
    "isinf": """ False of integers.

>>> hop.isinf(hop.asarray([1.0, -hop.inf]))
Array([False,  True], dtype=bool)
""",
    "isnan": """ False of integers.

>>> hop.isnan(hop.asarray([1.0, hop.nan]))
Array([False,  True], dtype=bool)
""",
    "keep": """ Inside of hop.checkpoint it says which values a gradient stores in spite of it.

>>> hop.grad(lambda x: hop.sum(hop.keep(hop.sin(x)) ** 2))(hop.asarray([0.0, 1.0]))
Array([0.       , 0.9092974], dtype=float32)
""",
    "less": """ The result is bool, False where one is NaN.

>>> hop.less(hop.asarray([1, 2]), 2)
Array([ True, False], dtype=bool)
""",
    "less_equal": """ The result is bool, False where one is NaN.

>>> hop.less_equal(hop.asarray([1, 2, 3]), 2)
Array([ True,  True, False], dtype=bool)
""",
    "log": """\
 -inf of 0, NaN of negative numbers; gradients there are no help: use hop.where to give it something
harmless.

>>> hop.log(hop.asarray([1.0, 0.0, -1.0]))
Array([  0., -inf,  nan], dtype=float32)
""",
    "log1p": """ hop.log(1 + x) would lose the digits of a small x. NaN below -1.

>>> hop.log1p(hop.asarray([0.0, 1e-10]))
Array([0.e+00, 1.e-10], dtype=float32)
""",
    "log2": """ NaN of negative numbers, -inf of 0.

>>> hop.log2(hop.asarray([1.0, 8.0, 0.5]))
Array([ 0.,  3., -1.], dtype=float32)
""",
    "logsumexp": """ Its gradient is softmax.

>>> hop.logsumexp(hop.asarray([1000.0, 1000.0]))
Array(1000.6932, dtype=float32)
""",
    "max": """ NaN if one element is. The gradient is shared among equal elements.

>>> x = hop.asarray([[1.0, 5.0], [7.0, 2.0]])
>>> hop.max(x)
Array(7., dtype=float32)
>>> hop.max(x, axis=0)
Array([7., 5.], dtype=float32)
""",
    "maximum": """ The gradient goes to the larger one, and is shared where they are equal.

>>> hop.maximum(hop.asarray([1.0, 5.0]), 3.0)
Array([3., 5.], dtype=float32)
""",
    "min": """ NaN if one element is. The gradient is shared among equal elements.

>>> hop.min(hop.asarray([[1.0, 5.0], [7.0, 2.0]]), axis=1, keepdims=True)
Array([[1.],
       [2.]], dtype=float32)
""",
    "minimum": """ The gradient goes to the smaller one, and is shared where they are equal.

>>> hop.minimum(hop.asarray([1.0, 5.0]), 3.0)
Array([1., 3.], dtype=float32)
""",
    "multiply": """ The operands broadcast.

>>> hop.multiply(hop.asarray([1.5, 2.0]), 2)
Array([3., 4.], dtype=float32)
""",
    "negative": """ Unsigned integers wrap around.

>>> hop.negative(hop.asarray([1, -2]))
Array([-1,  2], dtype=int64)
""",
    "not_equal": """ The result is bool; NaN differs from everything, also from itself.

>>> hop.not_equal(hop.asarray([1, 2]), hop.asarray([1, 3]))
Array([False,  True], dtype=bool)
""",
    "popcount": """

>>> hop.popcount(hop.asarray([0, 7, 255]))
Array([0, 3, 8], dtype=int64)
""",
    "recompute": """ For values that are cheap to compute and large to store.

>>> hop.grad(lambda x: hop.sum(hop.recompute(hop.exp(x)) ** 2))(hop.asarray([0.0]))
Array([2.], dtype=float32)
""",
    "remainder": """ As Python's %.

>>> hop.remainder(hop.asarray([-7, 7]), 3)
Array([2, 1], dtype=int64)
""",
    "rsqrt": """ Infinite at 0. One operator, whose derivative is -rsqrt(x)**3 / 2.

>>> hop.rsqrt(hop.asarray([4.0, 0.25]))
Array([0.5, 2. ], dtype=float32)
""",
    "sigmoid": """ Without overflow. Other names: expit, logistic.

>>> hop.sigmoid(hop.asarray([0.0, -100.0, 2.0]))
Array([5.00000e-01, 3.78351e-44, 8.80797e-01], dtype=float32)
""",
    "sin": """ Right for arguments of any size.

>>> hop.sin(hop.asarray([0.0, hop.pi / 6]))
Array([0. , 0.5], dtype=float32)
""",
    "sinh": """ Overflows to infinity above 89 in float32. The derivative is cosh(x).

>>> hop.sinh(hop.asarray([0.0, 1.0]))
Array([0.       , 1.1752012], dtype=float32)
""",
    "sqrt": """ NaN of negative numbers. The derivative at 0 is infinite.

>>> hop.sqrt(hop.asarray([4.0, 2.25]))
Array([2. , 1.5], dtype=float32)
""",
    "std": """\
 The root of hop.var, with the same correction. The derivative is NaN where all elements are equal.

>>> hop.std(hop.asarray([1.0, 3.0]), correction=1)
Array(1.4142135, dtype=float32)
""",
    "subtract": """ The operands broadcast.

>>> hop.subtract(hop.asarray([[1.0], [2.0]]), hop.asarray([1.0, 10.0]))
Array([[ 0., -9.],
       [ 1., -8.]], dtype=float32)
""",
    "tan": """ Right for arguments of any size. The derivative is 1 + tan(x)**2.

>>> hop.tan(hop.asarray([0.0, 0.5]))
Array([0.       , 0.5463025], dtype=float32)
""",
    "tanh": """ Between -1 and 1; the derivative, 1 - tanh(x)**2, is computed from the result.

>>> hop.tanh(hop.asarray([0.0, 0.5, 100.0]))
Array([0.        , 0.46211714, 1.        ], dtype=float32)
""",
    "trunc": """ Integers stay integers. The derivative is 0.

>>> hop.trunc(hop.asarray([-1.5, 0.2]))
Array([-1.,  0.], dtype=float32)
""",
    "var": """\
 correction is taken from the number of elements that the squares are divided by: 0 as in NumPy, 1
for a sample (ddof of NumPy).

>>> hop.var(hop.asarray([1.0, 3.0]))
Array(1., dtype=float32)
>>> hop.var(hop.asarray([1.0, 3.0]), correction=1)
Array(2., dtype=float32)
""",
}
