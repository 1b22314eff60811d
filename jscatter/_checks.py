"""`mode="error"`: indices outside, and promises that are not kept.

Concrete indices raise IndexError at once. Traced ones become a `checkify.debug_check`,
which `checkify.checkify` reports and everything else leaves out. Both have one
computation and one text.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType

from jscatter import _scatter


class Place(NamedTuple):
    """What is needed to judge indices.

    Attributes:
      function, name: the public function, and what it calls its indices.
      vectors: whether the last dimension of indices is the index.
      sizes: of the axes that the components of an index name, one each.
      lanes: the dimensions of indices that are batches: promises are made in each.
      wrap, is_sorted, is_unique: what was asked and promised.
    """

    function: str
    name: str
    vectors: bool
    sizes: tuple
    lanes: tuple[int, ...]
    wrap: bool
    is_sorted: bool
    is_unique: bool


def place(call, shape, ndim: int) -> Place:
    """Of a call on an operand of `shape` with indices of rank `ndim`."""
    o, lanes, vectors = call.options, (), call.form == "nd"
    if vectors:
        sizes, lanes = shape[call.dim :], tuple(range(call.dim))
    else:
        dim = call.dim % len(shape)
        sizes = shape[dim : dim + 1]
        if call.form == "along":
            lanes = tuple(d for d in range(ndim) if d != dim)
    promises = o.indices_are_sorted, o.unique_indices
    name = call.names[1]
    return Place(call.function, name, vectors, sizes, lanes, o.wrap, *promises)


def concrete(place: Place, indices):
    """Raises IndexError for the first fault."""
    indices = np.asarray(indices)
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.iinfo(np.int64).max)
    indices = _as_vectors(indices.astype(np.int64), place.vectors)
    for bad, text in _faults(np, place, indices):
        if bad.any():
            found = _first(np, bad, indices, place.vectors)
            raise IndexError(text.format(**found))


def traced(place: Place, indices):
    """Leaves checks in the program."""
    from jax.experimental import checkify  # not at import

    axes = jax.typeof(indices).sharding.mesh.axis_types
    if AxisType.Explicit in axes:  # checkify's own rule for vmap does not take them
        raise NotImplementedError(
            f"{place.function}: mode='error' of traced indices is not written yet for a"
            " mesh with Explicit axes."
        )
    indices = _as_vectors(indices, place.vectors)
    for bad, text in _faults(jnp, place, indices):
        if bad.size:
            found = _first(jnp, bad, indices, place.vectors)
            checkify.debug_check(~bad.any(), text, **found)


def _as_vectors(indices, vectors: bool):
    """[batch of rank 1 or more, components]."""
    indices = indices if vectors else indices[..., None]
    return indices if indices.ndim > 1 else indices[None]


def _first(xp, bad, indices, vectors: bool):
    """The first fault's index and position, as numbers where one number says it."""
    position = xp.unravel_index(xp.argmax(bad.reshape(-1)), bad.shape)
    index = indices[position] if vectors else indices[(*position, 0)]
    return {
        "index": index,
        "position": position[0] if bad.ndim == 1 else xp.stack(position),
    }


def _faults(xp, place: Place, indices):
    """(which index vectors are at fault, the text) for each rule, in order."""
    named = place.sizes[: indices.shape[-1]]
    start = f"{place.function}: `{place.name}` must be"
    end = "; got {index} at position {position}"
    if any(type(n) is int and n > np.iinfo(indices.dtype).max for n in named):
        indices = indices.astype(_scatter.int_dtype())
    sizes = xp.asarray(named, indices.dtype).reshape(*[1] * (indices.ndim - 1), -1)
    wrapped = indices
    if place.wrap:
        wrapped = xp.where(indices < 0, indices + sizes, indices)
    bounds = " x ".join(f"[{f'-{n}' if place.wrap else 0}, {n})" for n in named)
    outside = ((wrapped < 0) | (wrapped >= sizes)).any(-1)
    yield outside, f"{start} in {bounds} under mode='error'{end}."
    # The promises are about the indices as given.
    if place.is_sorted:
        text = (
            f"{start} sorted, as indices_are_sorted promises{end} after a larger one."
        )
        yield _by_lane(xp, _unsorted, place.lanes, indices), text
    if place.is_unique:
        text = f"{start} unique, as unique_indices promises{end} again."
        yield _by_lane(xp, _repeated, place.lanes, indices), text


def _by_lane(xp, fault, lanes, indices):
    """`fault` of [n, lanes..., components], n in row-major order; in its own shape."""
    batch = indices.shape[:-1]
    rows = [d for d in range(len(batch)) if d not in lanes]
    order = [*rows, *lanes]
    shape = [batch[d] for d in order]
    moved = indices.transpose(*order, len(batch))
    n = math.prod(shape[: len(rows)])
    flat = moved.reshape(n, *shape[len(rows) :], indices.shape[-1])
    return fault(xp, flat).reshape(shape).transpose(np.argsort(order))


def _unsorted(xp, x):
    """Which vectors are lexicographically less than the one before."""
    less = xp.zeros(x[1:].shape[:-1], bool)
    for k in reversed(range(x.shape[-1])):
        before, this = x[:-1, ..., k], x[1:, ..., k]
        less = (this < before) | ((this == before) & less)
    return xp.concatenate([xp.zeros(x[:1].shape[:-1], bool), less])


def _repeated(xp, x):
    """Which vectors stood before."""
    if not x.shape[-1]:  # empty vectors are all the same
        x = xp.zeros((*x.shape[:-1], 1), x.dtype)
    keys = [x[..., k] for k in range(x.shape[-1])]
    order = xp.lexsort(keys, axis=0)
    in_order = xp.take_along_axis(x, order[..., None], 0)
    same = (in_order[1:] == in_order[:-1]).all(-1)
    same = xp.concatenate([xp.zeros(x[:1].shape[:-1], bool), same])
    return xp.take_along_axis(same, xp.argsort(order, axis=0), 0)
