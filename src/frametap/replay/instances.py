"""Generator instances: which resumes belong together.

In: all resumes of one process. Out: an instance number for each. A generator can be resumed by any
thread and its address is used again after its death, so this needs all threads at once, by time.
"""

from __future__ import annotations

import numpy as np

from .threads import Array


def number_instances(time_ns: Array, address: Array, is_first: Array, function: Array) -> Array:
    """Number the generator instances of a process.

    A new instance begins at a resume that is its first, at an address not seen before, and where
    another function runs at the same address (its generator was created while nothing was recorded).

    Parameters
    ----------
    time_ns, address, is_first, function : arrays of one length
        The resumes: each thread's in order, thread by thread. At equal times that order counts.

    Returns
    -------
    array of uint32
        From 1, in order of each instance's first resume.
    """
    n = len(time_ns)
    if n == 0:
        return np.zeros(0, dtype=np.uint32)
    by_time = np.argsort(time_ns, kind="stable")
    order = by_time[np.argsort(address[by_time], kind="stable")]  # by address, then time
    begins = is_first[order].astype(bool)
    begins[0] = True
    begins[1:] |= (address[order][1:] != address[order][:-1]) | (function[order][1:] != function[order][:-1])
    group = np.cumsum(begins) - 1
    position = np.empty(n, dtype=np.int64)  # of each resume, in time order
    position[by_time] = np.arange(n)
    number = np.empty(group[-1] + 1, dtype=np.uint32)
    number[np.argsort(position[order[begins]])] = np.arange(1, len(number) + 1, dtype=np.uint32)
    out = np.empty(n, dtype=np.uint32)
    out[order] = number[group]
    return out
