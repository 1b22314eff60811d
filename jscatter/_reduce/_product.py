"""Products, whose derivatives of every order are exact, zeros or not.

d(t prod x) = (prod x) dt + sum_n t L_n dx_n, where L_n is the product of the cell's
other updates: never a division by an element. L_n is the product of those before times
the product of those after, in an order that puts a cell's updates together. It is made
of gathers, `where` and `*` only, so its own derivative is exact too. A quotient by a
product divides by its elements anyway.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from jscatter import _primitive, _scatter
from jscatter._reduce._cells import Cells, by_lax, cells_of, wide
from jscatter._scatter import Options

# Steps of the sequential loop; the rest runs side by side.
_STEPS = 64


def product(cells: Cells, operand, updates):
    """Each cell times its updates; bools multiply as AND."""
    return _product(cells.static, operand, cells.place.indices, updates)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _product(static, operand, indices, updates):
    return by_lax("multiply", static, operand, indices, updates)


@functools.partial(_product.defjvp, symbolic_zeros=True)
def _(static, primals, tangents):
    operand, indices, updates = primals
    d_operand, _, d_updates = tangents
    cells = cells_of(static, *primals)
    out, t, x = _product(static, *primals), wide(operand), wide(updates)
    d_out = jnp.zeros_like(t)
    if type(d_operand) is not SymbolicZero:  # a segment product has a constant operand
        d_out = _product(static, jnp.ones_like(t), indices, x) * wide(d_operand)
    if type(d_updates) is not SymbolicZero:
        others = cells.take(t) * _leave_one_out(cells, x)
        d_out = cells.add(d_out, others * cells.kept(wide(d_updates)))
    return out, d_out.astype(out.dtype)


def quotient(cells: Cells, operand, updates):
    """Each cell over the product of its updates."""
    return _quotient(cells.static, operand, cells.place.indices, updates)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _quotient(static, operand, indices, updates):
    ones = jnp.ones_like(operand)
    return operand / by_lax("multiply", static, ones, indices, updates)


@functools.partial(_quotient.defjvp, symbolic_zeros=True)
def _(static, primals, tangents):
    """The tangent is dt / by - sum of q / x dx: no power of the product."""
    operand, indices, x = primals
    d_operand, _, d_updates = tangents
    cells, q = cells_of(static, *primals), _quotient(static, *primals)
    d_out = jnp.zeros_like(q)
    if type(d_operand) is not SymbolicZero:
        ones = jnp.ones_like(operand)
        d_out = _quotient(static, ones, indices, x) * d_operand
    if type(d_updates) is not SymbolicZero:
        each = cells.take(q) / cells.kept(x, 1)
        d_out = cells.add(d_out, -each * cells.kept(d_updates))
    return q, d_out


def _leave_one_out(cells: Cells, x):
    """For each update the product of the others of its cell."""
    if cells.options.unique_indices or _scatter.is_empty(x):
        return jnp.ones_like(x)
    dnums = cells.place.dnums
    # To [n, batch..., window...], where n counts the updates that can meet in a cell.
    rows = [d for d in range(x.ndim) if d not in dnums.update_window_dims]
    batch = dnums.scatter_indices_batching_dims
    meet = [i for i in range(len(rows)) if i not in batch]
    order = [rows[i] for i in (*meet, *batch)] + list(dnums.update_window_dims)
    n = math.prod(x.shape[rows[i]] for i in meet)
    if type(n) is int and n < 2:
        return jnp.ones_like(x)
    x = cells.kept(x, 1)
    flat = x.transpose(order).reshape(n, *(x.shape[d] for d in order[len(meet) :]))
    # The components of an index stay apart: as one number they might overflow. Dropped
    # rows are 1, and their keys are nobody's: they need no mark.
    indices = cells.place.indices
    keys = indices.transpose(*meet, *batch, indices.ndim - 1)
    keys = keys.reshape(n, *(x.shape[rows[i]] for i in batch), keys.shape[-1])
    keys = [keys[..., k] for k in range(keys.shape[-1])]
    out = _others_axis_0(keys, flat, cells.options.function)
    return out.reshape([x.shape[d] for d in order]).transpose(np.argsort(order))


def _others_axis_0(keys, x, function):
    """As `_leave_one_out`, where updates meet that have equal keys on axis 0."""
    count = jnp.zeros_like(keys[0], dtype=np.int32)  # sharded as the keys are
    count += lax.broadcasted_iota(np.int32, count.shape, 0)
    *keys, order = lax.sort((*keys, count), dimension=0, num_keys=len(keys))
    _, inverse = lax.sort((order, count), dimension=0, num_keys=1)
    differ = functools.reduce(jnp.logical_or, [k[1:] != k[:-1] for k in keys])
    edge = jnp.ones_like(keys[0][:1], dtype=bool)
    each = lambda flags: lax.expand_dims(flags, range(flags.ndim, x.ndim))
    first = each(lax.concatenate([edge, differ], 0))
    last = each(lax.concatenate([differ, edge], 0))
    xs = _lanes(_permuted(x, order, function), 1)
    before = _exclusive(xs, _lanes(first, True))
    out = _exclusive(xs, _lanes(last, True), reverse=True, times=before)
    out = out.swapaxes(0, 1).reshape(-1, *x.shape[1:])[: x.shape[0]]
    return _permuted(out, inverse, function)


def _permuted(x, order, function):
    """x[order[n, b...], b..., ...], by our own gather: so is its derivative."""
    batch = tuple(range(1, order.ndim))
    window = tuple(range(order.ndim, x.ndim))
    dnums = lax.ScatterDimensionNumbers(window, (0,), (0,), batch, batch)
    sizes = [x.shape[d] for d in window]
    options = Options(_scatter.PROMISE, unique_indices=True, function=function)
    return _primitive.gather(
        x, order[..., None], dnums=dnums, window=sizes, options=options
    )


def _lanes(x, fill, front=False):
    """[n, ...] -> [steps, lanes, ...]: each lane holds consecutive rows of x."""
    n = x.shape[0]
    steps = min(_STEPS, n) if type(n) is int else _STEPS
    lanes = (n + steps - 1) // steps
    pad = (lanes * steps - n, 0) if front else (0, lanes * steps - n)
    widths = [(*pad, 0)] + [(0, 0, 0)] * (x.ndim - 1)
    x = lax.pad(x, jnp.asarray(fill, x.dtype), widths)
    return x.reshape(lanes, steps, *x.shape[1:]).swapaxes(0, 1)


def _exclusive(x, edge, reverse=False, times=None):
    """[steps, lanes, ...]: the product of the rows before, back to the last edge.

    First each lane's total, then what enters each lane (the same problem, 64 times
    smaller), then the scan. times: a factor of the result, so that it is not stored.
    """
    one = jnp.ones_like(x[0])
    # Select before the product: one cell's inf must not reach the next.
    step = lambda v, x, edge: jnp.where(edge, 1, v) * x
    if type(x.shape[1]) is int and x.shape[1] == 1:
        enter = one
    else:
        body = lambda v, s: (step(v, *s), None)
        total, _ = lax.scan(body, one, (x, edge), reverse=reverse)
        enter = _enter(total, edge.any(0), reverse)

    def body(v, s):
        x, edge, *factor = s
        v = jnp.where(edge, 1, v)
        return v * x, v * factor[0] if factor else v

    xs = (x, edge) if times is None else (x, edge, times)
    return lax.scan(body, enter, xs, reverse=reverse)[1]


def _enter(total, edge, reverse):
    """What enters each lane: the product of the lanes before it, back to an edge."""
    n = total.shape[0]
    if type(n) is int:
        fold = lambda x, fill: _lanes(x, fill, front=reverse)
    else:  # of unknown length: one lane, which ends the recursion
        fold = lambda x, fill: lax.expand_dims(x, (1,))
    e = _exclusive(fold(total, 1), fold(edge, False), reverse)
    e = e.swapaxes(0, 1).reshape(-1, *total.shape[1:])
    value = (e[e.shape[0] - n :] if reverse else e[:n]) * total
    one = jnp.ones_like(value[:1])
    parts = [value[1:], one] if reverse else [one, value[:-1]]
    return lax.concatenate(parts, 0)
