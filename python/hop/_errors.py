"""The errors of hop. What goes wrong inside of the user's own functions is raised as it is."""


class Error(Exception):
    """Whatever hop itself reports. Catch it to tell hop's own reports from others.

    >>> try:
    ...     hop.ones(2) + hop.ones(3)
    ... except hop.Error as error:
    ...     print(type(error).__name__)
    InvalidError
    """


class InvalidError(Error, ValueError, TypeError):
    """The program or the request is wrong: types, shapes, structure, arguments.

    >>> try:
    ...     hop.ones(2) + hop.ones(3)
    ... except ValueError as error:
    ...     print(isinstance(error, hop.InvalidError))
    True
    """


class WriteError(InvalidError):
    """A function that a transform captures writes to an array from outside of it, x[i] = y. The array is
    `array`.

    >>> total = hop.zeros(3)
    >>> try:
    ...     hop.grad(lambda x: total.__setitem__(0, x) or x)(1.0)
    ... except hop.WriteError as error:
    ...     print(error.array is total)
    True
    """

    def __init__(self, message, array=None):
        super().__init__(message)
        self.array = array


class CheckError(Error, AssertionError):
    """A hop.check failed while the program ran. The message is the check's, with the place in the user's
    program and the values shown. An AssertionError.

    >>> try:
    ...     hop.jit(lambda x: hop.check(x > 0, "not positive") or x)(-1.0)
    ... except hop.CheckError as error:
    ...     print("not positive" in str(error))
    True
    """


class NotFiniteError(CheckError, FloatingPointError):
    """A function made by hop.debug_nans made a NaN or an infinity. The message names the operator, the line,
    the element, the trips of loops, the lane of vmap, and the derivative that it belongs to. A
    FloatingPointError.

    >>> try:
    ...     hop.debug_nans(hop.log)(0.0)
    ... except FloatingPointError as error:
    ...     print("log made an infinity: -inf of 0" in str(error))
    True
    """


class GradientError(Error, AssertionError):
    """hop.check_grads found a derivative that differs from differences: in which mode and order, where,
    what was found and what was expected.

    >>> try:
    ...     hop.check_grads(lambda x: x + hop.stop_gradient(x), (1.0,))
    ... except hop.GradientError as error:
    ...     print(error.order)
    1
    """

    def __init__(self, message, mode=None, order=None, path=None, found=None, expected=None):
        super().__init__(message)
        self.mode, self.order, self.path, self.found, self.expected = mode, order, path, found, expected


class OperatorError(Error, AssertionError):
    """hop.check_operator found that an operator is not what it says. report: what was tried, and what was
    found.

    >>> import numpy as np
    >>> wrong = hop.operator("(x: f32[N]) -> f32[N]", lambda x: x + np.float32(np.random.random()))
    >>> try:
    ...     hop.check_operator(wrong, (hop.ones(3),))
    ... except hop.OperatorError as error:
    ...     print("purity" in error.report.failed)
    True
    """

    def __init__(self, message, report=None):
        super().__init__(message)
        self.report = report


class TracerError(Error, TypeError):
    """A traced value was used where only a number known now will do, or after its function had ended.

    >>> try:
    ...     hop.jit(lambda x: x.tolist())(1.0)
    ... except hop.TracerError as error:
    ...     print("hop.print" in str(error))
    True
    """

    wanted = False  # by a function whose control flow is to stay Python's


class UnavailableError(Error, NotImplementedError):
    """This build or machine cannot do it. The message says what is missing. A NotImplementedError.

    >>> issubclass(hop.UnavailableError, NotImplementedError)
    True
    """


class FileError(Error, OSError):
    """A file could not be read or written. The message names the file and why. An OSError.

    >>> try:
    ...     hop.load("no-such-file.npy")
    ... except OSError as error:
    ...     print(isinstance(error, hop.FileError))
    True
    """


class InternalError(Error, RuntimeError):
    """A bug in hop.

    Please report it, with the program.

    >>> issubclass(hop.InternalError, RuntimeError)
    True
    """


# They are known by the names that users write.
for _class in (
    Error, InvalidError, CheckError, NotFiniteError, GradientError, OperatorError, TracerError,
    UnavailableError, FileError, InternalError, WriteError,
):
    _class.__module__ = "hop"
del _class

ALL = (
    Error, InvalidError, CheckError, TracerError, UnavailableError, FileError, InternalError, NotFiniteError,
)
