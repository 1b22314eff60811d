"""The reductions of `jax.ops`, their mean, and embedding look-up."""

from __future__ import annotations

from typing import Unpack

from jscatter import _call
from jscatter._call import Call, Options, SegmentOptions
from jscatter.ops._shared import segments


def segment_sum(
    data,
    segment_ids,
    num_segments=None,
    indices_are_sorted=False,
    unique_indices=False,
    bucket_size=None,
    mode=None,
    out_sharding=None,
    **options: Unpack[SegmentOptions],
):
    """The sum of the rows of each segment; an empty one is 0.

    The rule of `jax.ops.segment_sum` and `tf.math.unsorted_segment_sum`.

    Args:
      data: rows to be reduced; bools add as OR. For ids of rank 1 a scalar or a single
        row stands for all.
      segment_ids: integers; their shape is a prefix of the data's. They may repeat and
        need not be sorted.
      num_segments: an int; None takes max + 1, which needs concrete ids.
      indices_are_sorted: a promise.
      unique_indices: a promise.
      bucket_size: None (other values are not written yet).
      mode: see `jscatter.Options`.
      out_sharding: None (other values are not written yet).
      **options: see `jscatter.Options`.

    Returns:
      An array `[num_segments, *data.shape[segment_ids.ndim:]]` of the data's dtype.

    Raises:
      TypeError: an argument's kind or dtype; a traced `num_segments`.
      ValueError: shapes against the rule; no `num_segments` under a trace.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2, -1])
    >>> js.ops.segment_sum(jnp.array([1, 2, 3, 4]), ids, 3).tolist()
    [3, 0, 3]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_sum", "add", data, segment_ids, *tail)


def segment_prod(
    data,
    segment_ids,
    num_segments=None,
    indices_are_sorted=False,
    unique_indices=False,
    bucket_size=None,
    mode=None,
    out_sharding=None,
    **options: Unpack[SegmentOptions],
):
    """The product of the rows of each segment; an empty one is 1.

    The rule of `jax.ops.segment_prod`. Bools multiply as AND. Derivatives of every
    order are exact, zeros or not. Args, Returns, Raises: as `segment_sum`.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2, 2])
    >>> js.ops.segment_prod(jnp.array([1, 2, 3, 4]), ids, 3).tolist()
    [2, 1, 12]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_prod", "multiply", data, segment_ids, *tail)


def segment_min(
    data,
    segment_ids,
    num_segments=None,
    indices_are_sorted=False,
    unique_indices=False,
    bucket_size=None,
    mode=None,
    out_sharding=None,
    **options: Unpack[SegmentOptions],
):
    """The minimum of the rows of each segment; an empty one is the dtype's highest.

    The rule of `jax.ops.segment_min`. NaN propagates; ties share the gradient
    evenly. Args, Returns, Raises: as `segment_sum`.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> js.ops.segment_min(jnp.array([1.0, 2, 3]), jnp.array([0, 0, 2]), 3).tolist()
    [1.0, inf, 3.0]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_min", "min", data, segment_ids, *tail)


def segment_max(
    data,
    segment_ids,
    num_segments=None,
    indices_are_sorted=False,
    unique_indices=False,
    bucket_size=None,
    mode=None,
    out_sharding=None,
    **options: Unpack[SegmentOptions],
):
    """The maximum of the rows of each segment; an empty one is its lowest.

    The rule of `jax.ops.segment_max`. NaN propagates; ties share the gradient
    evenly. Args, Returns, Raises: as `segment_sum`.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> js.ops.segment_max(jnp.array([1, 2, 3]), jnp.array([0, 0, 1]), 2).tolist()
    [2, 3]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_max", "max", data, segment_ids, *tail)


def segment_mean(
    data,
    segment_ids,
    num_segments=None,
    indices_are_sorted=False,
    unique_indices=False,
    bucket_size=None,
    mode=None,
    out_sharding=None,
    **options: Unpack[SegmentOptions],
):
    """The mean of the rows of each segment; an empty one is 0.

    The rule of `tf.math.unsorted_segment_mean`. Dropped rows are not counted. Integers
    give the default float dtype; bools are a TypeError. Half precision is computed in
    float32 and rounded once. Args, Returns, Raises: as `segment_sum`.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> js.ops.segment_mean(jnp.array([1.0, 2, 3]), jnp.array([0, 0, 2]), 3).tolist()
    [1.5, 0.0, 3.0]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_mean", "mean", data, segment_ids, *tail)


def take(table, ids, **options: Unpack[Options]):
    """The rows of `table` at `ids`; 0 where an id is outside: embedding look-up.

    Its gradient is a scatter-add, summed in float32 for half precision.

    Args:
      table: `[rows, ...]`.
      ids: integers of any rank.
      **options: see `jscatter.Options`.

    Returns:
      An array `ids.shape + table.shape[1:]`.

    Raises:
      TypeError: an argument's kind or dtype.
      ValueError: a table of rank 0.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> js.ops.take(jnp.array([10, 20, 30]), jnp.array([[2, 0], [-1, 3]])).tolist()
    [[30, 10], [0, 0]]
    """
    names = ("table", "ids", "updates")
    call = Call("ops.take", names, "rows", "gather", ids_rank=None, lists=False)
    return _call.run(call, table, ids, given=options)
