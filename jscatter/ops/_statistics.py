"""Statistics of segments, and what is normalised by its segment.

The rules are those of jraph and of `jax.nn`; where a segment is empty, of one row, of
equal rows, or infinite, the values and all derivatives are still numbers. Narrow floats
are computed in float32 and rounded once; integers give the default float dtype.
"""

from __future__ import annotations

from typing import Unpack

from jscatter import _validate
from jscatter._call import SegmentOptions
from jscatter.ops._shared import segments


def segment_variance(
    data,
    segment_ids,
    num_segments=None,
    indices_are_sorted=False,
    unique_indices=False,
    bucket_size=None,
    mode=None,
    out_sharding=None,
    *,
    ddof=0,
    **options: Unpack[SegmentOptions],
):
    """The variance of the rows of each segment; an empty one is 0.

    The mean of the squared deviations, in two passes. Where `ddof` rows or fewer are
    left the variance is 0 (NumPy gives NaN). Dropped rows are not counted. `ddof`, an
    int, is subtracted from the count, as in `numpy.var`. Other Args, Returns, Raises:
    as `segment_sum`; real numbers.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2])
    >>> js.ops.segment_variance(jnp.array([1.0, 3, 5]), ids, 3).tolist()
    [1.0, 0.0, 0.0]
    """
    ddof = _validate.integer("ops.segment_variance", "ddof", ddof)
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_variance", "variance", data, segment_ids, *tail, ddof=ddof)


def segment_std(
    data,
    segment_ids,
    num_segments=None,
    indices_are_sorted=False,
    unique_indices=False,
    bucket_size=None,
    mode=None,
    out_sharding=None,
    *,
    ddof=0,
    **options: Unpack[SegmentOptions],
):
    """The standard deviation of the rows of each segment; an empty one is 0.

    Right from 1e-30 to 1e30, also in its first two derivatives; they are 0 where it
    is 0. Args, Returns, Raises: as `segment_variance`.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2])
    >>> js.ops.segment_std(jnp.array([1.0, 3, 5]), ids, 3, ddof=1).round(3).tolist()
    [1.414, 0.0, 0.0]
    """
    ddof = _validate.integer("ops.segment_std", "ddof", ddof)
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_std", "std", data, segment_ids, *tail, ddof=ddof)


def segment_normalize(
    data,
    segment_ids,
    num_segments=None,
    indices_are_sorted=False,
    unique_indices=False,
    bucket_size=None,
    mode=None,
    out_sharding=None,
    *,
    eps=1e-5,
    **options: Unpack[SegmentOptions],
):
    """Each row less its segment's mean, over its standard deviation.

    The rule of `jraph.segment_normalize`: the variance is taken to be at least `eps`, a
    positive number. A dropped row gives 0. Other Args, Raises: as `segment_sum`; real
    numbers.

    Returns:
      An array like `data`: of its dtype, with a row for each id.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2])
    >>> js.ops.segment_normalize(jnp.array([1.0, 3, 5]), ids, 3).round(3).tolist()
    [-1.0, 1.0, 0.0]
    """
    eps = _validate.positive("ops.segment_normalize", "eps", eps)
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_normalize", "normalize", data, segment_ids, *tail, eps=eps)


def segment_logsumexp(
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
    """The log of the sum of the exponentials of each segment; an empty one is -inf.

    Stable, as `jax.nn.logsumexp` is. Args, Returns, Raises: as `segment_sum`; real
    numbers.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2])
    >>> js.ops.segment_logsumexp(jnp.array([0.0, 0, 5]), ids, 3).round(3).tolist()
    [0.693, -inf, 5.0]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_logsumexp", "logsumexp", data, segment_ids, *tail)


def segment_softmax(
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
    """Each row's exponential over the sum of those of its segment.

    The rule of `jraph.segment_softmax`, stable. A dropped row gives 0, and so does a
    segment of -inf; entries of +inf share their segment evenly. Args, Raises: as
    `segment_sum`; real numbers.

    Returns:
      An array like `data`: of its dtype, with a row for each id.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2, -1])
    >>> js.ops.segment_softmax(jnp.array([1.0, 1, 5, 5]), ids, 3).tolist()
    [0.5, 0.5, 1.0, 0.0]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_softmax", "softmax", data, segment_ids, *tail)


def segment_log_softmax(
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
    """The log of `segment_softmax`, without its rounding to 0; a dropped row gives 0.

    Args, Returns, Raises: as `segment_softmax`.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2, -1])
    >>> js.ops.segment_log_softmax(jnp.array([0.0, 200, 5, 5]), ids, 3).tolist()
    [-200.0, 0.0, 0.0, 0.0]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_log_softmax", "log_softmax", data, segment_ids, *tail)


def segment_argmax(
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
    """The position of the largest row of each segment, elementwise: int32.

    Of equal ones the first; the first NaN where there is one. An empty segment gives
    `len(data)`. For ids of rank other than 1 positions are row-major over the ids.
    Args, Raises: as `segment_sum`; real numbers or bools.

    Returns:
      int32 `[num_segments, *data.shape[segment_ids.ndim:]]`.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2])
    >>> js.ops.segment_argmax(jnp.array([1.0, 3, 5]), ids, 3).tolist()
    [1, 3, 2]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_argmax", "argmax", data, segment_ids, *tail)


def segment_argmin(
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
    """The position of the smallest row of each segment, elementwise: int32.

    Of equal ones the first; the first NaN where there is one. An empty segment gives
    `len(data)`. For ids of rank other than 1 positions are row-major over the ids.
    Args, Raises: as `segment_sum`; real numbers or bools.

    Returns:
      int32 `[num_segments, *data.shape[segment_ids.ndim:]]`.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> ids = jnp.array([0, 0, 2])
    >>> js.ops.segment_argmin(jnp.array([1.0, 3, 5]), ids, 3).tolist()
    [0, 3, 2]
    """
    promises = (indices_are_sorted, unique_indices)
    tail = (num_segments, *promises, bucket_size, mode, out_sharding, options)
    return segments("segment_argmin", "argmin", data, segment_ids, *tail)
