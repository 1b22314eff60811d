"""Three constructors of the one form, and the arithmetic that indices need before it.

`nd` (index vectors), `along` (elementwise on one dimension) and `rows` (one id per row)
cover every spelling. They assume arguments that `_validate` has seen.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from jscatter import _scatter
from jscatter._scatter import Scatter


def nd(shape, indices, batch_dims: int = 0) -> Scatter:
    """`indices[..., :]` names a slice of the operand: tf.scatter_nd, BNNSScatterND.

    The first `batch_dims` dimensions of operand and indices belong together.
    """
    depth, batch = indices.shape[-1], indices.shape[:-1]
    updates_shape = batch + shape[batch_dims + depth :]
    if depth == 0:
        # Every update is a whole slice. XLA miscompiles empty index vectors (CPU, JAX
        # 0.10.2) and crashes on some (rank 0): index a dimension of length 1 instead.
        shape = (*shape[:batch_dims], 1, *shape[batch_dims:])
        none = [(0, 0, 0)] * len(batch)  # padding keeps the batch's sharding
        depth, indices = 1, lax.pad(indices, indices.dtype.type(0), [*none, (0, 1, 0)])
    indexed = tuple(range(batch_dims, batch_dims + depth))
    dnums = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(len(batch), len(updates_shape))),
        inserted_window_dims=indexed,
        scatter_dims_to_operand_dims=indexed,
        operand_batching_dims=tuple(range(batch_dims)),
        scatter_indices_batching_dims=tuple(range(batch_dims)),
    )
    return _checked(Scatter(indices, dnums, shape, updates_shape))


def along(shape, index, dim: int) -> Scatter:
    """`out[i, index[i, j]] = src[i, j]` for dim 1: mint and torch `scatter(dim)`.

    A dimension where index and operand agree is a batching dimension, so sharding it
    costs nothing; where index is shorter its position is one more index component.
    """
    ndim = len(shape)
    same = [d for d in range(ndim) if d != dim and _equal(index.shape[d], shape[d])]
    named = [d for d in range(ndim) if d not in same]
    components = [
        index if d == dim else lax.broadcasted_iota(index.dtype, index.shape, d)
        for d in named
    ]
    dnums = lax.ScatterDimensionNumbers(
        update_window_dims=(),
        inserted_window_dims=tuple(named),
        scatter_dims_to_operand_dims=tuple(named),
        operand_batching_dims=tuple(same),
        scatter_indices_batching_dims=tuple(same),
    )
    indices = [lax.expand_dims(c, (ndim,)) for c in components]
    indices = indices[0] if len(indices) == 1 else lax.concatenate(indices, ndim)
    return _checked(Scatter(indices, dnums, shape, index.shape))


def rows(shape, ids, dim: int = 0) -> Scatter:
    """`out.take(ids[n], dim) += updates.take(n, dim)`: segment_sum, index_add, take.

    ids of any rank: its dimensions stand in updates where `dim` stands in the operand.
    """
    updates_shape = shape[:dim] + ids.shape + shape[dim + 1 :]
    dnums = lax.ScatterDimensionNumbers(
        update_window_dims=(*range(dim), *range(dim + ids.ndim, len(updates_shape))),
        inserted_window_dims=(dim,),
        scatter_dims_to_operand_dims=(dim,),
    )
    indices = lax.expand_dims(ids, (ids.ndim,))
    return _checked(Scatter(indices, dnums, shape, updates_shape))


def _equal(a, b) -> bool:
    """Sizes known to be equal; symbolic sizes that may differ are not."""
    return a is b or bool(a == b)


def _checked(scatter: Scatter) -> Scatter:
    """Our own invariants: a failure is a bug of jscatter, not the caller's fault."""
    import chex  # 70 to 110 ms: not at import

    d, indices = scatter.dnums, scatter.indices
    chex.assert_type(indices, int)
    chex.assert_axis_dimension(indices, -1, len(d.scatter_dims_to_operand_dims))
    inner = set(d.inserted_window_dims) | set(d.operand_batching_dims)
    chex.assert_equal(
        len(inner) + len(d.update_window_dims), len(scatter.operand_shape)
    )
    batch = len(scatter.updates_shape) - len(d.update_window_dims)
    chex.assert_rank(indices, batch + 1)
    return scatter


# -- indices ---------------------------------------------------------------------------


def widen(indices):
    """int32 at least and signed, before any arithmetic: narrow types would overflow.

    Unsigned values that the signed type cannot hold become its maximum, which is out of
    bounds in every axis that `_validate` lets through.
    """
    if indices.dtype.itemsize < 4:  # int2, int4 ... too
        return lax.convert_element_type(indices, np.int32)
    if not jnp.issubdtype(indices.dtype, jnp.unsignedinteger):
        return indices
    signed = _scatter.int_dtype()
    if indices.dtype.itemsize == signed.itemsize:
        highest = indices.dtype.type(np.iinfo(signed).max)
        indices = lax.min(indices, lax.full_like(indices, highest))
    return lax.convert_element_type(indices, signed)


def resolve(scatter: Scatter, *, wrap: bool, clip: bool) -> Scatter:
    """Wraps, then clips (NumPy's order): afterwards only the primitives' rule is left.

    Being arithmetic on indices it needs no rule of its own under any transformation,
    and the gradient of a clipped update goes where its value went.
    """
    if not (wrap or clip):
        return scatter
    indices, size = _scatter.with_sizes(scatter)
    if wrap:
        indices = jnp.where(indices < 0, indices + size, indices)
    if clip:  # into an axis of size 0: -1, which drops
        indices = jnp.minimum(jnp.maximum(indices, 0), size - 1)
    return scatter._replace(indices=indices)
