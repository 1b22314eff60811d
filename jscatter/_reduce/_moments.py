"""Means, variances and norms. In float32 for narrow floats, rounded once at the end."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscatter._reduce._cells import Cells, cells_of, divisor
from jscatter._reduce._extremum import extremum


def mean(cells: Cells, updates, total=None):
    """0 where there are none. total: the sums, if they are known."""
    if total is None:
        total = cells.add(cells.full(0, updates), updates)
    return total / divisor(cells.counts(), total)


def sum_over_root(cells: Cells, updates):
    """The sum over the square root of the count."""
    total = cells.add(cells.full(0, updates), updates)
    return total / jnp.sqrt(divisor(cells.counts(), total))


def variance(cells: Cells, updates, ddof: int = 0):
    """In two passes; 0 where the count is at most ddof."""
    d, count = _deviations(cells, updates, ddof), cells.counts() - ddof
    total = cells.add(cells.full(0, d), d * d)
    return jnp.where(count > 0, total / divisor(count, total), 0)


def std(cells: Cells, updates, ddof: int = 0):
    """A scaled norm: the root of `variance` has no third derivative near 0."""
    return _std(cells, _deviations(cells, updates, ddof), ddof)


def _std(cells: Cells, d, ddof=0):
    count = cells.counts() - ddof
    length = norm(cells, cells.full(0, d), d)
    return jnp.where(count > 0, length / jnp.sqrt(divisor(count, length)), 0)


def normalize(cells: Cells, updates, eps: float = 1e-5):
    """(x - mean) / sqrt(max(variance, eps)) of each update; 0 where it is dropped."""
    d = _deviations(cells, updates)
    least = max(eps**0.5, float(jnp.finfo(d.dtype).tiny))
    root = jnp.maximum(_std(cells, d), jnp.asarray(least, d.dtype))
    # d / root with no power of root alone: in units that are held constant.
    unit = lax.stop_gradient(root)
    at = lambda x: cells.kept(cells.take(x), 1)
    return (d / at(unit)) / at(root / unit)


def _deviations(cells: Cells, updates, ddof: int = 0):
    # The shift cancels and makes equal rows exactly 0; the last mean, of what is 0 but
    # for rounding, mends the sum of a long segment. So both are held constant. Masked
    # after, too: a dropped row reads the mean 0, and is no deviation.
    x = cells.kept(updates)
    if ddof > 0:  # where too few are left nothing is differentiated: inf - inf is NaN
        x = jnp.where(cells.counts_by_update() > ddof, x, 0)
    shift = extremum("max", cells.unforced(), None, lax.stop_gradient(x))
    x -= cells.take(jnp.where(jnp.isfinite(shift), shift, 0))
    x = cells.kept(x - cells.take(mean(cells, cells.kept(x))))
    return cells.kept(x - cells.take(lax.stop_gradient(mean(cells, x))))


def norm(cells: Cells, operand, updates):
    """sqrt(operand**2 + sum of updates**2), with all derivatives 0 where it is 0.

    Scaled by the largest entry, else 1e30 would overflow and 1e-20 vanish.
    """
    return _norm(cells.static, operand, cells.place.indices, cells.kept(updates))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _norm(static, operand, indices, updates):
    cells = cells_of(static, operand, indices, updates)
    scale = extremum("max", cells.unforced(), abs(operand), abs(updates))
    usable = (scale >= jnp.finfo(scale.dtype).tiny) & jnp.isfinite(scale)
    scale = jnp.where(usable, scale, 1)
    at = cells.kept(cells.take(scale), 1)
    return scale * jnp.sqrt(cells.add((operand / scale) ** 2, (updates / at) ** 2))


@_norm.defjvp
def _(static, primals, tangents):
    """The sum of (x / N) dx, x / N as (x / s) / (N / s) with s = N held constant.

    No power of N stands alone: the derivatives of sqrt hold N**-3, which overflows.
    """
    operand, _, updates = primals
    d_operand, _, d_updates = tangents
    cells, n = cells_of(static, *primals), _norm(static, *primals)
    zero = (n < jnp.finfo(n.dtype).tiny) | jnp.isinf(n)
    s = lax.stop_gradient(jnp.where(zero, 1, n))
    ratio = jnp.where(zero, 1, n / s)
    live = cells.inside() & (cells.take((~zero).astype(np.int32)) > 0)
    at = lambda x: jnp.where(live, cells.take(x), 1)
    row = jnp.where(live, (updates / at(s)) / at(ratio), 0)
    cell = jnp.where(zero, 0, (operand / s) / ratio)
    return n, cells.add(cell * d_operand, row * d_updates)
