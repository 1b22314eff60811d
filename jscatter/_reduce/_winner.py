"""Set: of the updates that a cell receives one is taken, in value and derivatives.

Under differentiation the winner is the last update in row-major order, by one
computation that value, tangent and cotangent share. Losing rows get index -1; after
that everything is linear: what is set is added to what was cleared.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from jscatter import _xla
from jscatter._reduce._cells import Cells, by_lax, cells_of
from jscatter._reduce._extremum import row_numbers
from jscatter._scatter import DROP


def set_(cells: Cells, operand, updates):
    """Operand with updates moved into it, bit by bit."""
    return _set(cells.static, operand, cells.place.indices, updates)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _set(static, operand, indices, updates):
    return by_lax("set", static, operand, indices, updates)


@functools.partial(_set.defjvp, symbolic_zeros=True)
def _(static, primals, tangents):
    operand, _, updates = primals
    d_operand, _, d_updates = tangents
    cells = cells_of(static, *primals)
    if cells.options.unique_indices:
        received = cells.counts() > 0
    else:
        cells, received = _winners(cells)
    out = _set(cells.static, operand, cells.place.indices, updates)
    d_out = jnp.zeros_like(operand)
    if type(d_operand) is not SymbolicZero:
        d_out = jnp.where(received, 0, d_operand)
    if type(d_updates) is not SymbolicZero:
        d_out = cells.add(d_out, d_updates)
    # Their types agree where shard_map has a varying update and a replicated tangent.
    return _xla.common_varying(cells.options.function, out, d_out)


def fill(cells: Cells, operand, value):
    """Set with one value for all updates: nobody has to win."""
    like = jax.eval_shape(cells.take, operand)  # sharded where the operand is
    static = (like.shape, getattr(like, "sharding", None), cells.static)
    return _fill(static, operand, cells.place.indices, value)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fill(static, operand, indices, value):
    shape, sharding, rest = static
    updates = lax.broadcast(value, shape, out_sharding=sharding)
    return by_lax("set", rest, operand, indices, updates)


@_fill.defjvp
def _(static, primals, tangents):
    operand, indices, _ = primals
    d_operand, _, d_value = tangents
    shape, _, rest = static
    like = jax.ShapeDtypeStruct(shape, operand.dtype)
    cells = cells_of(rest, operand, indices, like)
    out, d_out = _fill(static, *primals), cells.cleared(d_operand, d_value)
    return _xla.common_varying(cells.options.function, out, d_out)


def _winners(cells: Cells):
    """The cells with one update each, and whether they receive any."""
    points = cells.points()
    indices = cells.place.indices
    number = row_numbers(points, indices[..., 0])
    # From 1: a row that is dropped reads 0, and loses.
    none = points.full(0, number)
    last = by_lax("max", points.static, none, indices, number + 1)
    wins = points.take(last) == number + 1
    place = cells.place._replace(indices=jnp.where(wins[..., None], indices, -1))
    promises = dict(mode=DROP, unique_indices=True, indices_are_sorted=False)
    options = dataclasses.replace(cells.options, **promises)
    return Cells(place, options), cells.over_windows(last > 0)
