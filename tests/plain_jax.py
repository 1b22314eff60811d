"""Our names over plain jnp, as a user would write them. The tests must tell them apart.

Only what fits in a line or two each: no meaning of ours is put in.
"""

import jax
import jax.numpy as jnp


def _at(x, indices):
    return jnp.asarray(x).at[tuple(jnp.moveaxis(jnp.asarray(indices), -1, 0))]


def scatter_nd(indices, updates, shape, name=None, **_):
    updates = jnp.asarray(updates)
    return _at(jnp.zeros(shape, updates.dtype), indices).add(updates)


def gather_nd(params, indices, batch_dims=0, name=None, **_):
    return jnp.asarray(params)[tuple(jnp.moveaxis(jnp.asarray(indices), -1, 0))]


def tensor_scatter_nd_update(tensor, indices, updates, name=None, **_):
    return _at(tensor, indices).set(jnp.asarray(updates))


def tensor_scatter_nd_mul(tensor, indices, updates, name=None, **_):
    return _at(tensor, indices).multiply(jnp.asarray(updates))


def tensor_scatter_nd_max(tensor, indices, updates, name=None, **_):
    return _at(tensor, indices).max(jnp.asarray(updates))


def index_add(input, dim, index, source, *, alpha=1, **_):
    at = (slice(None),) * dim + (jnp.asarray(index),)
    return jnp.asarray(input).at[at].add(alpha * jnp.asarray(source))


def index_select(input, dim, index, **_):
    return jnp.take(jnp.asarray(input), jnp.asarray(index), dim)


def take(table, ids, **_):
    return table[ids]


def segment_sum(data, segment_ids, num_segments=None, **_):
    return jax.ops.segment_sum(data, segment_ids, num_segments)


def segment_prod(data, segment_ids, num_segments=None, **_):
    return jax.ops.segment_prod(data, segment_ids, num_segments)


def segment_min(data, segment_ids, num_segments=None, **_):
    return jax.ops.segment_min(data, segment_ids, num_segments)


def segment_max(data, segment_ids, num_segments=None, **_):
    return jax.ops.segment_max(data, segment_ids, num_segments)


def segment_mean(data, segment_ids, num_segments=None, **_):
    total = segment_sum(data, segment_ids, num_segments)
    return total / segment_sum(jnp.ones_like(data), segment_ids, num_segments)


def segment_std(data, segment_ids, num_segments=None, **_):
    mean = segment_mean(data, segment_ids, num_segments)
    squares = (data - mean[segment_ids]) ** 2
    return jnp.sqrt(segment_mean(squares, segment_ids, num_segments))


def segment_softmax(data, segment_ids, num_segments=None, **_):
    e = jnp.exp(data - segment_max(data, segment_ids, num_segments)[segment_ids])
    return e / segment_sum(e, segment_ids, num_segments)[segment_ids]


TF = (
    scatter_nd,
    gather_nd,
    tensor_scatter_nd_update,
    tensor_scatter_nd_mul,
    tensor_scatter_nd_max,
)
MINT = (index_add, index_select)
OPS = (
    take,
    segment_sum,
    segment_prod,
    segment_min,
    segment_max,
    segment_mean,
    segment_std,
    segment_softmax,
)
