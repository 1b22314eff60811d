"""Reductions on the two primitives: what each op does with a canonical scatter.

add, subtract and mean are linear and made of the primitives, so their derivatives of
every order are JAX's own algebra. multiply, divide, max and min, set and the norm have
one rule each, linear in the tangents, so that JAX transposes it; what else there is is
composed of these. No rule is written twice, and none knows a spelling or an index form.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from jscatter._reduce import _exponential, _into, _moments
from jscatter._reduce._cells import Cells, identity, wide
from jscatter._reduce._extremum import extremum, position, row_numbers
from jscatter._reduce._product import product, quotient
from jscatter._reduce._winner import fill, set_

__all__ = ["Cells", "gather", "scatter", "segments"]

# XLA on CPU does not select among these, nor take their absolute values.
_TINY = ("int2", "uint2", "int4", "uint4")
# These do not hold the count that a mean divides by.
_SMALL = ("int8", "uint8", "int16", "uint16")
# Reductions that start from what a cell holds. Narrow floats come here as float32.
_INTO = {
    "mean": _into.mean,
    "mean_non_zero": _into.mean_non_zero,
    "sum_square": _into.sum_square,
    "sum_log": _into.sum_log,
    "l1_norm": _into.l1_norm,
    "l2_norm": _into.l2_norm,
    "log_sum": _into.log_sum,
    "log_sum_exp": _into.log_sum_exp,
    "any": _into.any_,
    "all": _into.all_,
    "arg_max": _into.arg_max,
    "arg_min": _into.arg_min,
}
# Reductions of segments, which start from nothing. Likewise.
_SEGMENTS = {
    "mean": _moments.mean,
    "sum_over_root": _moments.sum_over_root,
    "variance": _moments.variance,
    "std": _moments.std,
    "normalize": _moments.normalize,
    "logsumexp": _exponential.logsumexp,
    "softmax": _exponential.softmax,
    "log_softmax": _exponential.log_softmax,
}


def gather(cells: Cells, operand):
    """The slices of `operand` that the place names; 0 where out of bounds."""
    return cells.take(_in_place(cells, operand))


def scatter(op: str, cells: Cells, operand, updates, **params):
    """`operand` with `updates` combined into it, in the place's operand shape.

    params: those of the op. add: `alpha`, a factor of the updates. add, multiply, min,
      max, mean: `include_self`. sum_log: `epsilon`.
    """
    operand, dtype = _in_place(cells, operand), operand.dtype
    if dtype.name in _TINY or (op in _INTO and dtype.name in _SMALL):
        operand, updates = (x.astype(np.int32) for x in (operand, updates))
        return scatter(op, cells, operand, updates, **params).astype(dtype)
    if not params.get("include_self", True):
        operand = cells.cleared(operand, identity(op, dtype))
    if op in _INTO:
        arrays = wide(operand), wide(updates)
        return _INTO[op](cells, *arrays, **params).astype(dtype)
    if op in ("min", "max"):
        return extremum(op, cells, operand, updates, **params)
    if op in ("add", "subtract"):
        updates = -updates if op == "subtract" else updates
        return _add(cells, operand, updates, params.get("alpha"))
    if op == "multiply":
        return product(cells, operand, updates)
    if op == "divide":  # by the product, so that the quotient rounds once
        return quotient(cells, wide(operand), wide(updates)).astype(dtype)
    if op == "fill":
        return fill(cells, operand, updates)
    assert op == "set"
    return set_(cells, operand, updates)


def segments(op: str, cells: Cells, updates, bucket_size=None, **params):
    """The updates of each cell reduced to one number, or each by its cell's others.

    bucket_size: sums of so many rows are formed first. A product rounds alike however
      it is grouped, and what else there is ignores it.
    params: those of the op. min, max: `constant`, of what receives nothing. mean:
      `whole`, whether integers floor. variance, std: `ddof`. normalize: `eps`.
    """
    if bucket_size is not None and op == "add":
        return _by_buckets(cells, updates, bucket_size)
    if params.pop("whole", False) and jnp.issubdtype(updates.dtype, jnp.integer):
        nothing = cells.full(0, updates)
        return scatter(op, cells, nothing, updates, include_self=False)
    if op in _SEGMENTS:
        dtype = updates.dtype
        if not jnp.issubdtype(dtype, jnp.inexact):
            dtype = jnp.result_type(float)
        updates = wide(updates.astype(dtype))
        if bucket_size is not None and op == "mean":
            params["total"] = _by_buckets(cells, updates, bucket_size)
        return _SEGMENTS[op](cells, updates, **params).astype(dtype)
    if op in ("argmax", "argmin"):
        nothing = math.prod(cells.place.indices.shape[:-1])
        return position(op[3:], cells, updates, nothing)
    if op in ("any", "all"):
        updates, op = updates.astype(bool), {"any": "max", "all": "min"}[op]
    if op in ("min", "max"):
        return _or_constant(cells, extremum(op, cells, None, updates), **params)
    operand = cells.full(identity(op, updates.dtype), updates)
    return scatter(op, cells, operand, updates, **params)


def _or_constant(cells: Cells, out, constant=None):
    """Of segments that receive nothing the constant, if there is one."""
    if constant is None:
        return out
    return jnp.where(cells.counts() > 0, out, jnp.asarray(constant, out.dtype))


def _by_buckets(cells: Cells, updates, size: int):
    """The sum of each bucket of rows, then of these: rounding errors stay small."""
    place, first, dtype = cells.place, cells.place.indices[..., :1], updates.dtype
    if dtype.name in _TINY:
        updates = updates.astype(np.int32)
    rows = row_numbers(cells.points(), first[..., 0]).astype(first.dtype)
    number = lax.expand_dims(rows // jnp.asarray(size, rows.dtype), (rows.ndim,))
    buckets = -(-math.prod(first.shape) // size)
    place = place._replace(
        indices=lax.concatenate([number, place.indices], rows.ndim),
        dnums=place.dnums._replace(
            inserted_window_dims=(0, 1), scatter_dims_to_operand_dims=(0, 1)
        ),
        operand_shape=(buckets, *place.operand_shape),
    )
    cells = cells._replace(place=place)
    return segments("add", cells, wide(updates)).sum(0).astype(dtype)


def _add(cells: Cells, operand, updates, alpha=None):
    dtype = operand.dtype
    if alpha is not None:
        # A NaN in a dropped row would reach alpha's gradient. And scaled updates
        # must not be rounded one by one.
        operand, updates = wide(operand), wide(cells.kept(updates))
        updates = updates * alpha.astype(updates.dtype)
    return cells.add(operand, updates).astype(dtype)


def _in_place(cells: Cells, operand):
    shape = cells.place.operand_shape  # has one more dimension for empty index vectors
    return operand if operand.shape == shape else operand.reshape(shape)
