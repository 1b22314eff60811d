"""The reductions of `jax.ops`, their mean, and embedding look-up."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from jscatter import _arguments, _call
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
      bucket_size: for accuracy, as in `jax.ops`: sums (and means) are formed of so many
        rows first, and then of these. The other functions take and ignore it: products
        and extrema are as accurate in any grouping.
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


def segment_any(
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
    """Whether any row of each segment is true: not 0. An empty one is False.

    Args, Returns, Raises: as `segment_sum`; the result's dtype is bool.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2])
    >>> js.ops.segment_any(jnp.array([0, 2, 0]), ids, 3).tolist()
    [True, False, False]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_any", "any", data, segment_ids, *tail)


def segment_all(
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
    """Whether all rows of each segment are true: not 0. An empty one is True.

    Args, Returns, Raises: as `segment_sum`; the result's dtype is bool.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2])
    >>> js.ops.segment_all(jnp.array([1, 2, 0]), ids, 3).tolist()
    [True, True, False]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_all", "all", data, segment_ids, *tail)


def segment_max_or_constant(
    data,
    segment_ids,
    num_segments=None,
    indices_are_sorted=False,
    unique_indices=False,
    bucket_size=None,
    mode=None,
    out_sharding=None,
    *,
    constant=0,
    **options: Unpack[SegmentOptions],
):
    """As `segment_max`, but an empty segment is `constant`.

    The rule of `jraph.segment_max_or_constant`, except that a segment is empty when it
    has no rows: one whose maximum is infinite keeps it. `constant` is a number
    that fits the dtype; it may be traced and differentiated. Other Args, Returns,
    Raises: as `segment_sum`.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2])
    >>> data = jnp.array([1.0, 2, 3])
    >>> js.ops.segment_max_or_constant(data, ids, 3, constant=-1).tolist()
    [2.0, -1.0, 3.0]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments(
        "segment_max_or_constant", "max", data, segment_ids, *tail, constant=constant
    )


def segment_min_or_constant(
    data,
    segment_ids,
    num_segments=None,
    indices_are_sorted=False,
    unique_indices=False,
    bucket_size=None,
    mode=None,
    out_sharding=None,
    *,
    constant=0,
    **options: Unpack[SegmentOptions],
):
    """As `segment_min`, but an empty segment is `constant`.

    The rule of `jraph.segment_min_or_constant`, except that a segment is empty when it
    has no rows: one whose minimum is infinite keeps it. `constant` is a number
    that fits the dtype; it may be traced and differentiated. Other Args, Returns,
    Raises: as `segment_sum`.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2])
    >>> data = jnp.array([1.0, 2, 3])
    >>> js.ops.segment_min_or_constant(data, ids, 3, constant=-1).tolist()
    [1.0, -1.0, 3.0]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments(
        "segment_min_or_constant", "min", data, segment_ids, *tail, constant=constant
    )


def segment_count(segment_ids, num_segments=None, **options: Unpack[Options]):
    """The number of rows of each segment: int32. The rule of `numpy.bincount`.

    Ids outside are not counted. Sizes of groups (mixture of experts), degrees of nodes.

    Args:
      segment_ids: integers of any rank.
      num_segments: an int; None takes max + 1, which needs concrete ids.
      **options: see `jscatter.Options`.

    Returns:
      int32 `[num_segments]`.

    Raises:
      TypeError: an argument's kind or dtype; a traced `num_segments`.
      ValueError: no `num_segments` under a trace.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> js.ops.segment_count(jnp.array([0, 0, 2, -1]), 3).tolist()
    [2, 0, 1]
    """
    function, names = "ops.segment_count", ("num_segments", "segment_ids", "data")
    ids = ("segment_ids", segment_ids)
    size = _arguments.size(function, "num_segments", num_segments, *ids, lists=False)
    call = Call(function, names, "segments", "add", shape=(size,), lists=False)
    call = call._replace(scalar_updates=True)
    return _call.run(call, None, segment_ids, np.int32(1), given=options)


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
