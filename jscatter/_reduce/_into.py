"""Reductions of what a cell holds, o, together with the updates S that it receives.

The formulas are those that Apple's text gives for BNNS ("combines scattered values with
existing output values"), and PyTorch's mean. A cell without updates keeps o.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from jscatter._reduce import _exponential, _moments
from jscatter._reduce._cells import Cells, by_lax, divisor
from jscatter._reduce._extremum import position


def mean(cells: Cells, o, x, include_self: bool = True):
    """(o + sum of S) / (1 + |S|), or the mean of S alone. Integers floor."""
    total, count = cells.add(o, x), cells.counts()
    by = divisor(count + 1 if include_self else count, total)
    whole = jnp.issubdtype(total.dtype, jnp.integer)
    return total // by if whole else total / by


def mean_non_zero(cells: Cells, o, x):
    """The mean of the entries that are not 0; such an entry has no derivative."""
    only = lambda y: jnp.where(y != 0, y, 0)
    some = lambda y: (y != 0).astype(np.int32)

    def reduce(o):
        count = cells.unforced().add(some(o), some(x))
        total = cells.add(only(o), only(x))
        return total / divisor(count, total)

    return _of_received(cells, o, reduce)


def sum_square(cells: Cells, o, x):
    x = cells.kept(x)
    return _of_received(cells, o, lambda o: cells.add(o * o, x * x))


def l1_norm(cells: Cells, o, x):
    return _of_received(cells, o, lambda o: cells.add(abs(o), abs(cells.kept(x))))


def l2_norm(cells: Cells, o, x):
    return _of_received(cells, o, lambda o: _moments.norm(cells, o, x))


def sum_log(cells: Cells, o, x, epsilon: float = 0.0):
    """log(o + epsilon) + sum of log(x + epsilon)."""
    log = lambda y: _log(y + jnp.asarray(epsilon, y.dtype))
    reduce = lambda o: cells.add(log(o), log(cells.kept(x, 1)))
    return _of_received(cells, o, reduce, instead=1)


def log_sum(cells: Cells, o, x):
    """log(o + sum of S)."""
    return _of_received(cells, o, lambda o: _log(cells.add(o, x)), instead=1)


def log_sum_exp(cells: Cells, o, x):
    reduce = lambda o: _exponential.logsumexp(cells, x, o)
    return _of_received(cells, o, reduce)


def any_(cells: Cells, o, x):
    return _logical("max", cells, o, x)


def all_(cells: Cells, o, x):
    return _logical("min", cells, o, x)


def arg_max(cells: Cells, o, x):
    return _position("max", cells, o, x)


def arg_min(cells: Cells, o, x):
    return _position("min", cells, o, x)


def _of_received(cells: Cells, o, reduce, instead=0):
    """`reduce(o)` where something is received; elsewhere o stands, and is not reduced.

    Selected before and after: an inf or NaN that is kept has derivative 1.
    """
    received = cells.counts() > 0
    instead = jnp.asarray(instead, o.dtype)  # bools take no int under strict promotion
    return jnp.where(received, reduce(jnp.where(received, o, instead)), o)


def _log(y):
    """log, with derivative 0 where it has no finite one; the value stays log's."""
    good = y > 0
    outside = jnp.log(lax.stop_gradient(y))
    return jnp.where(good, jnp.log(jnp.where(good, y, 1)), outside)


def _logical(op, cells: Cells, o, x):
    o_true, x_true = (y.astype(bool).astype(np.int32) for y in (o, x))
    truth = by_lax(op, cells.static, o_true, cells.place.indices, x_true)
    return _of_received(cells, o, lambda _: truth.astype(o.dtype))


def _position(op, cells: Cells, o, x):
    """The row-major place of the winning update; o takes no part in that."""
    place = position(op, cells, x, np.iinfo(np.int32).max)
    return _of_received(cells, o, lambda _: place.astype(o.dtype))
