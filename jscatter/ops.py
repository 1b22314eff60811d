"""JAX's spelling: drop-in for `jax.ops.segment_*`, their mean, and `take`.

`segment_ids` gives one id per row of `data`. Departures from `jax.ops`: ids of rank
other than 1 mean what TensorFlow says, their shape is a prefix of the data's; bools add
as OR; half precision is summed in float32 and rounded once. An id outside [0,
num_segments), negative ones included, drops its row. Arguments are arrays, not lists,
as in `jax.ops`.
"""

from __future__ import annotations

from typing import Unpack

import jax
import jax.numpy as jnp
import numpy as np

from jscatter import _arguments, _call, _validate
from jscatter._call import Call, Options, SegmentOptions


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
    rest = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return _segments("segment_sum", "add", data, segment_ids, *rest)


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

    The rule of `jax.ops.segment_prod`. Bools multiply as AND. Args, Returns, Raises: as
    `segment_sum`; the derivative is not written yet.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2, 2])
    >>> js.ops.segment_prod(jnp.array([1, 2, 3, 4]), ids, 3).tolist()
    [2, 1, 12]
    """
    promises = (indices_are_sorted, unique_indices)
    rest = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return _segments("segment_prod", "multiply", data, segment_ids, *rest)


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

    The rule of `jax.ops.segment_min`. NaN propagates. Args, Returns, Raises: as
    `segment_sum`; the derivative is not written yet.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> js.ops.segment_min(jnp.array([1.0, 2, 3]), jnp.array([0, 0, 2]), 3).tolist()
    [1.0, inf, 3.0]
    """
    promises = (indices_are_sorted, unique_indices)
    rest = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return _segments("segment_min", "min", data, segment_ids, *rest)


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

    The rule of `jax.ops.segment_max`. NaN propagates. Args, Returns, Raises: as
    `segment_sum`; the derivative is not written yet.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> js.ops.segment_max(jnp.array([1, 2, 3]), jnp.array([0, 0, 1]), 2).tolist()
    [2, 3]
    """
    promises = (indices_are_sorted, unique_indices)
    rest = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return _segments("segment_max", "max", data, segment_ids, *rest)


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
    rest = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return _segments("segment_mean", "mean", data, segment_ids, *rest)


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


def _segments(
    name,
    op,
    data,
    segment_ids,
    num_segments,
    indices_are_sorted,
    unique_indices,
    bucket_size,
    mode,
    out_sharding,
    options,
):
    function = f"ops.{name}"
    if bucket_size is not None:
        _validate.not_yet(function, "`bucket_size`", bucket_size)
    given: Options = {**options}
    if mode is not None:
        given["mode"] = mode
    if indices_are_sorted is not False:
        given["indices_are_sorted"] = indices_are_sorted
    if unique_indices is not False:
        given["unique_indices"] = unique_indices
    if out_sharding is not None:
        given["out_sharding"] = out_sharding
    if num_segments is None:
        num_segments = _highest_id(function, segment_ids) + 1
    elif type(num_segments) is not int or num_segments < 0:
        num_segments = _validate.size(function, "num_segments", num_segments)
    names = ("num_segments", "segment_ids", "data")
    call = Call(function, names, "segments", op, 0, (num_segments,), lists=False)
    return _call.run(call, None, segment_ids, data, given=given)


def _highest_id(function, segment_ids) -> int:
    if isinstance(segment_ids, jax.core.Tracer):
        rule = (
            "`num_segments` must be given where `segment_ids` is traced (jit, vmap ...)"
        )
        _validate.fail(ValueError, function, rule, segment_ids=segment_ids)
    ids = _arguments.indices(function, "segment_ids", segment_ids, lists=False)
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        rule = "`segment_ids` must have an integer dtype"
        _validate.fail(TypeError, function, rule, segment_ids=segment_ids)
    return max(int(np.asarray(ids).max()), -1) if ids.size else -1
