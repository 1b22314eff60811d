"""Maxima and minima, and where they stand.

The gradient of a cell is shared evenly by all that equal its extremum: [x == m] over
the number of ties, constant, so that one scatter-add is the derivative and the second
one is 0. `==` settles the rest: -inf ties with -inf, 0.0 with -0.0, NaN with nothing.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from jscatter._reduce._cells import Cells, by_lax, cells_of, divisor, identity, wide


def extremum(op: str, cells: Cells, operand, updates, include_self: bool = True):
    """Each cell's largest (op "max") or smallest ("min") entry.

    operand: None for nothing: an empty cell then holds the dtype's other end.
    include_self False: of a cell that receives something, the operand takes no part. It
      holds the identity there, and is not counted where that ties.
    """
    takes_part = include_self and operand is not None
    if operand is None:
        operand = cells.full(identity(op, updates.dtype), updates)
    static = (op, takes_part, cells.static)
    return _extremum(static, operand, cells.place.indices, updates)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _extremum(static, operand, indices, updates):
    op, _, rest = static
    return by_lax(op, rest, operand, indices, updates)


@functools.partial(_extremum.defjvp, symbolic_zeros=True)
def _(static, primals, tangents):
    _, takes_part, rest = static
    operand, _, updates = primals
    d_operand, _, d_updates = tangents
    cells = cells_of(rest, *primals)
    out = _extremum(static, *primals)
    wins = updates == cells.take(out)
    keeps = operand == out
    if not takes_part:
        keeps &= cells.counts() == 0
    ties = cells.add(keeps.astype(np.int32), wins.astype(np.int32))
    # Select, never multiply: 0 * inf. Divide once for each cell.
    d_out = jnp.zeros_like(wide(operand))
    if type(d_operand) is not SymbolicZero:
        d_out = jnp.where(keeps, wide(d_operand), 0)
    if type(d_updates) is not SymbolicZero:
        d_out = cells.add(d_out, jnp.where(wins, wide(d_updates), 0))
    return out, (d_out / divisor(ties, d_out)).astype(out.dtype)


def position(op: str, cells: Cells, updates, nothing):
    """The row-major place among the index vectors of each cell's first max or min.

    The first NaN wins, as in NumPy. A cell that receives nothing holds `nothing`.
    op: "max" or "min". int32.
    """
    updates = jax.lax.stop_gradient(updates)
    best = cells.take(extremum(op, cells, None, updates))
    first = updates == best
    if jnp.issubdtype(updates.dtype, jnp.floating):
        first |= jnp.isnan(updates)
    nothing = jnp.asarray(nothing, np.int32)
    where = jnp.where(first, row_numbers(cells, updates), nothing)
    empty = cells.full(nothing, where)
    return by_lax("min", cells.static, empty, cells.place.indices, where)


def row_numbers(cells: Cells, updates):
    """For each element the row-major position of its index vector: int32.

    Positions count the dimensions that can meet in a cell, not those that are batches.
    """
    dnums = cells.place.dnums
    rows = [d for d in range(updates.ndim) if d not in dnums.update_window_dims]
    numbers, stride = jnp.zeros_like(updates, dtype=np.int32), 1
    for i in reversed(range(len(rows))):
        if i in dnums.scatter_indices_batching_dims:
            continue
        count = jax.lax.broadcasted_iota(np.int32, updates.shape, rows[i])
        numbers += jnp.asarray(stride, np.int32) * count
        stride *= updates.shape[rows[i]]
    return numbers
