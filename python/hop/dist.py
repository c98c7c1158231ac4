"""Processes of a job: where this one stands. By default ranks are threads of one process; under mpirun each
process is a rank.

>>> hop.dist.init()
>>> hop.dist.rank(), hop.dist.size()
(0, 1)
"""

__all__ = ["init", "rank", "size"]

from . import _core


def init():
    """Makes this process a rank of the MPI job in which mpirun (or srun) has started it, before the first
    distributed array. Where it was started by itself nothing happens: ranks are threads.

    >>> hop.dist.init()
    """
    _core.dist_init()


def rank():
    """The number of this process in its job; 0 where ranks are threads.

    >>> hop.dist.rank()
    0
    """
    return _core.dist_place()[0]


def size():
    """How many processes the job has; 1 where ranks are threads.

    >>> hop.dist.size()
    1
    """
    return _core.dist_place()[1]
