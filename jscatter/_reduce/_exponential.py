"""Sums of exponentials, shifted by each cell's largest entry.

The shift cancels: F(x, m) does not depend on m, so its derivatives by m are 0 and m may
stand under `stop_gradient`, in every order. A cell whose largest entry is +inf is taken
at its limit: all weight on its +inf entries, derivatives 0; no NaN anywhere.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from jscatter._reduce._cells import Cells
from jscatter._reduce._extremum import extremum


def logsumexp(cells: Cells, updates, operand=None):
    """The log of the sum of exp, of the operand's too; -inf where there is nothing."""
    z, z_operand, largest = _shifted(cells, updates, operand)
    total, safe = _total(cells, z, z_operand)
    finite = jnp.log(safe) + jnp.where(jnp.isinf(largest), 0, largest)
    out = jnp.where(largest == np.inf, np.inf, finite)
    return jnp.where(total == 0, -np.inf, out)


def softmax(cells: Cells, updates):
    """Each update's share of its cell; 0 where it is dropped."""
    z, _, _ = _shifted(cells, updates)
    _, safe = _total(cells, z)
    return cells.kept(jnp.exp(z) / cells.kept(cells.take(safe), 1))


def log_softmax(cells: Cells, updates):
    """The log of softmax: -inf in a cell of -inf; 0 where a row is dropped."""
    z, _, _ = _shifted(cells, updates)
    _, safe = _total(cells, z)
    return cells.kept(z - cells.take(jnp.log(safe)))


def _shifted(cells: Cells, updates, operand=None):
    """(updates, operand) less their cell's largest entry, and that entry."""
    x = cells.kept(updates)
    largest = extremum("max", cells.unforced(), *lax.stop_gradient((operand, x)))

    def shift(y, m):
        limit = jnp.where(y == np.inf, 0.0, -np.inf).astype(y.dtype)
        infinite = jnp.isinf(m)
        return jnp.where(infinite, limit, jnp.where(infinite, 0, y - m))

    z = shift(x, cells.take(largest))
    return z, None if operand is None else shift(operand, largest), largest


def _total(cells: Cells, z, z_operand=None):
    """The sum of exp, and the same with 1 for 0: there is nothing but -inf."""
    start = cells.full(0, z) if z_operand is None else jnp.exp(z_operand)
    total = cells.add(start, jnp.exp(z))
    return total, jnp.where(total == 0, 1, total)  # `== 0` lets NaN through
