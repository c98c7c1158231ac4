"""The errors of hop. What goes wrong inside of the user's own functions is raised as it is."""


class Error(Exception):
    """Whatever hop itself reports."""


class InvalidError(Error, ValueError, TypeError):
    """The program or the request is wrong: types, shapes, structure, arguments."""


class CheckError(Error, AssertionError):
    """A hop.check failed while the program ran."""


class GradientError(Error, AssertionError):
    """hop.check_grads found a derivative that differs from differences: in which mode and order, where, what was found and what was expected."""

    def __init__(self, message, mode=None, order=None, path=None, found=None, expected=None):
        super().__init__(message)
        self.mode, self.order, self.path, self.found, self.expected = mode, order, path, found, expected


class TracerError(Error, TypeError):
    """A traced value was used where only a number known now will do, or after its function had ended."""


class UnavailableError(Error, NotImplementedError):
    """This build or machine cannot do it."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class InternalError(Error, RuntimeError):
    """A bug in hop."""


# They are known by the names that users write.
for _class in (Error, InvalidError, CheckError, GradientError, TracerError, UnavailableError, FileError, InternalError):
    _class.__module__ = "hop"
del _class

ALL = (Error, InvalidError, CheckError, TracerError, UnavailableError, FileError, InternalError)
