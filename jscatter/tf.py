"""TensorFlow's spelling: index vectors on the last dimension of `indices`.

The shape law of every scatter here, with `K = indices.shape[-1]`:

    updates.shape == indices.shape[:-1] + tensor.shape[K:]

Each index vector names one slice of the tensor (one element where K is its rank).
Arguments may be nested lists. Unlike TensorFlow on CPU, which raises, an index outside
the tensor is dropped on every platform, as TensorFlow documents it for GPU; see
`jscatter.Options`. `name` becomes a named scope within a jit.
"""

from __future__ import annotations

import contextlib
from typing import Unpack

import jax

from jscatter import _call, _validate
from jscatter._call import Call, Options


def scatter_nd(indices, updates, shape, name=None, **options: Unpack[Options]):
    """Adds `updates` into zeros of `shape` at `indices`.

    Duplicates are summed. The rule is that of `tf.scatter_nd`; it is the inverse of
    `gather_nd` where no index stands twice.

    Args:
      indices: integers `[..., K]`, K at most the length of `shape`.
      updates: numbers or bools (bools add as OR) of the shape that the law gives.
      shape: the result's shape: an int, a tuple, a list or a concrete rank-1 array.
      name: a name for profiles.
      **options: see `jscatter.Options`.

    Returns:
      An array of `shape` with the dtype of `updates`.

    Raises:
      TypeError: an argument's kind or dtype; a traced `shape`.
      ValueError: shapes against the law; a negative size.

    >>> import jscatter as js
    >>> js.tf.scatter_nd([[4], [3], [1], [7]], [9, 10, 11, 12], [8]).tolist()
    [0, 11, 0, 10, 9, 0, 0, 12]
    """
    shape = _validate.shape("tf.scatter_nd", "shape", shape)
    names = ("shape", "indices", "updates")
    call = Call("tf.scatter_nd", names, "nd", "add", shape=shape)
    with _scope(call.function, name):
        return _call.run(call, None, indices, updates, given=options)


def gather_nd(params, indices, batch_dims=0, name=None, **options: Unpack[Options]):
    """The slices of `params` at `indices`; 0 where an index is outside.

    The rule is that of `tf.gather_nd` (on GPU, for what is outside). It is the exact
    transpose of a scatter-add, so gradients of any order agree with the values.

    Args:
      params: an array.
      indices: integers `[..., K]`, K at most the rank of `params` less `batch_dims`.
      batch_dims: how many leading dimensions of both arrays belong together.
      name: a name for profiles.
      **options: see `jscatter.Options`.

    Returns:
      An array `indices.shape[:-1] + params.shape[batch_dims + K:]`.

    Raises:
      TypeError: an argument's kind or dtype.
      ValueError: shapes against the law.

    >>> import jscatter as js
    >>> js.tf.gather_nd([[1, 2], [3, 4]], [[1, 0], [0, 1], [5, 0]]).tolist()
    [3, 2, 0]
    """
    batch_dims = _validate.dim("tf.gather_nd", "batch_dims", batch_dims)
    names = ("params", "indices", "updates")
    call = Call("tf.gather_nd", names, "nd", "gather", dim=batch_dims)
    with _scope(call.function, name):
        return _call.run(call, params, indices, given=options)


def tensor_scatter_nd_add(
    tensor, indices, updates, name=None, **options: Unpack[Options]
):
    """Adds `updates` to `tensor` at `indices`; duplicates are summed.

    The rule is that of `tf.tensor_scatter_nd_add`. Bools add as OR.

    Args:
      tensor: numbers or bools.
      indices: integers `[..., K]`, K at most the rank of `tensor`.
      updates: of the tensor's dtype and of the shape that the law gives.
      name: a name for profiles.
      **options: see `jscatter.Options`.

    Returns:
      An array like `tensor`.

    Raises:
      TypeError: an argument's kind or dtype.
      ValueError: shapes against the law.

    >>> import jscatter as js
    >>> js.tf.tensor_scatter_nd_add([10, 20, 30], [[0], [2], [2]], [1, 2, 3]).tolist()
    [11, 20, 35]
    """
    return _tensor(
        "tensor_scatter_nd_add", "add", tensor, indices, updates, name, options
    )


def tensor_scatter_nd_sub(
    tensor, indices, updates, name=None, **options: Unpack[Options]
):
    """Subtracts `updates` from `tensor` at `indices`; duplicates are summed.

    The rule is that of `tf.tensor_scatter_nd_sub`. bool: TypeError.

    Args:
      tensor: numbers.
      indices: integers `[..., K]`, K at most the rank of `tensor`.
      updates: of the tensor's dtype and of the shape that the law gives.
      name: a name for profiles.
      **options: see `jscatter.Options`.

    Returns:
      An array like `tensor`.

    Raises:
      TypeError: an argument's kind or dtype.
      ValueError: shapes against the law.

    >>> import jscatter as js
    >>> js.tf.tensor_scatter_nd_sub([10, 20, 30], [[0], [2], [2]], [1, 2, 3]).tolist()
    [9, 20, 25]
    """
    return _tensor(
        "tensor_scatter_nd_sub", "subtract", tensor, indices, updates, name, options
    )


def tensor_scatter_nd_mul(
    tensor, indices, updates, name=None, **options: Unpack[Options]
):
    """Multiplies `tensor` by `updates` at `indices`; duplicates multiply.

    The rule is that of `tf.tensor_scatter_nd_mul`. Bools multiply as AND.
    Derivatives of every order are exact, zeros or not.

    Args, Returns, Raises: as `tensor_scatter_nd_add`.

    >>> import jscatter as js
    >>> js.tf.tensor_scatter_nd_mul([10, 20, 30], [[0], [2], [2]], [1, 2, 3]).tolist()
    [10, 20, 180]
    """
    return _tensor(
        "tensor_scatter_nd_mul", "multiply", tensor, indices, updates, name, options
    )


def tensor_scatter_nd_div(
    tensor, indices, updates, name=None, **options: Unpack[Options]
):
    """Divides `tensor` by the product of its `updates` at `indices`.

    The rule is that of MindSpore's `tensor_scatter_div`. Float and complex only.

    Args, Returns, Raises: as `tensor_scatter_nd_add`.

    >>> import jscatter as js
    >>> indices = [[0], [2], [2]]
    >>> js.tf.tensor_scatter_nd_div([10.0, 20.0, 30.0], indices, [1, 2, 3]).tolist()
    [10.0, 20.0, 5.0]
    """
    return _tensor(
        "tensor_scatter_nd_div", "divide", tensor, indices, updates, name, options
    )


def tensor_scatter_nd_min(
    tensor, indices, updates, name=None, **options: Unpack[Options]
):
    """The minimum of `tensor` and its `updates` at `indices`.

    The rule is that of `tf.tensor_scatter_nd_min`. NaN propagates (TensorFlow on CPU
    drops it). Ties share the gradient evenly, the tensor's own entry too.

    Args, Returns, Raises: as `tensor_scatter_nd_add`.

    >>> import jscatter as js
    >>> js.tf.tensor_scatter_nd_min([10, 20, 30], [[0], [2], [2]], [1, 2, 3]).tolist()
    [1, 20, 2]
    """
    return _tensor(
        "tensor_scatter_nd_min", "min", tensor, indices, updates, name, options
    )


def tensor_scatter_nd_max(
    tensor, indices, updates, name=None, **options: Unpack[Options]
):
    """The maximum of `tensor` and its `updates` at `indices`.

    The rule is that of `tf.tensor_scatter_nd_max`. NaN propagates (TensorFlow on CPU
    drops it). Ties share the gradient evenly, the tensor's own entry too.

    Args, Returns, Raises: as `tensor_scatter_nd_add`.

    >>> import jscatter as js
    >>> js.tf.tensor_scatter_nd_max([10, 20, 30], [[0], [2], [2]], [1, 2, 3]).tolist()
    [10, 20, 30]
    """
    return _tensor(
        "tensor_scatter_nd_max", "max", tensor, indices, updates, name, options
    )


def tensor_scatter_nd_update(
    tensor, indices, updates, name=None, **options: Unpack[Options]
):
    """`tensor` with `updates` in place of what stood at `indices`.

    The rule is that of `tf.tensor_scatter_nd_update`. Of duplicates one is taken, which
    one is not said; under differentiation it is the last, in value and gradient alike
    (TensorFlow gives the cotangent to all of them).

    Args, Returns, Raises: as `tensor_scatter_nd_add`.

    >>> import jscatter as js
    >>> js.tf.tensor_scatter_nd_update([10, 20, 30], [[0]], [1]).tolist()
    [1, 20, 30]
    """
    return _tensor(
        "tensor_scatter_nd_update", "set", tensor, indices, updates, name, options
    )


def unsorted_segment_sum(
    data, segment_ids, num_segments, name=None, **options: Unpack[Options]
):
    """The sum of the rows of each segment; an empty one is 0.

    The rule of `tf.math.unsorted_segment_sum`. Negative ids are dropped.

    Args:
      data: rows to be reduced; bools add as OR.
      segment_ids: integers; their shape is a prefix of the data's.
      num_segments: an int.
      name: a name for profiles.
      **options: see `jscatter.Options`.

    Returns:
      An array `[num_segments, *data.shape[segment_ids.ndim:]]` of the data's dtype.

    Raises:
      TypeError: an argument's kind or dtype; a traced `num_segments`.
      ValueError: shapes against the rule.

    >>> import jscatter as js
    >>> js.tf.unsorted_segment_sum([1, 2, 3, 4], [0, 0, 2, -1], 3).tolist()
    [3, 0, 3]
    """
    function = "unsorted_segment_sum"
    return _segments(function, "add", data, segment_ids, num_segments, name, options)


def unsorted_segment_prod(
    data, segment_ids, num_segments, name=None, **options: Unpack[Options]
):
    """The product of the rows of each segment; an empty one is 1.

    The rule of `tf.math.unsorted_segment_prod`; its gradients of every order are exact,
    zeros or not. Args, Returns, Raises: as `unsorted_segment_sum`.

    >>> import jscatter as js
    >>> js.tf.unsorted_segment_prod([1, 2, 3, 4], [0, 0, 2, 2], 3).tolist()
    [2, 1, 12]
    """
    function = "unsorted_segment_prod"
    return _segments(
        function, "multiply", data, segment_ids, num_segments, name, options
    )


def unsorted_segment_min(
    data, segment_ids, num_segments, name=None, **options: Unpack[Options]
):
    """The minimum of the rows of each segment.

    The rule of `tf.math.unsorted_segment_min`, but an empty segment of floats is
    inf. NaN propagates; ties share the gradient evenly. Args, Returns, Raises:
    as `unsorted_segment_sum`.

    >>> import jscatter as js
    >>> js.tf.unsorted_segment_min([1, 2, 3], [0, 0, 1], 2).tolist()
    [1, 3]
    """
    function = "unsorted_segment_min"
    return _segments(function, "min", data, segment_ids, num_segments, name, options)


def unsorted_segment_max(
    data, segment_ids, num_segments, name=None, **options: Unpack[Options]
):
    """The maximum of the rows of each segment.

    The rule of `tf.math.unsorted_segment_max`, but an empty segment of floats is
    -inf. NaN propagates; ties share the gradient evenly. Args, Returns, Raises:
    as `unsorted_segment_sum`.

    >>> import jscatter as js
    >>> js.tf.unsorted_segment_max([1, 2, 3], [0, 0, 1], 2).tolist()
    [2, 3]
    """
    function = "unsorted_segment_max"
    return _segments(function, "max", data, segment_ids, num_segments, name, options)


def unsorted_segment_mean(
    data, segment_ids, num_segments, name=None, **options: Unpack[Options]
):
    """The mean of the rows of each segment; an empty one is 0.

    The rule of `tf.math.unsorted_segment_mean`. Integers give the default float dtype.
    Args, Returns, Raises: as `unsorted_segment_sum`.

    >>> import jscatter as js
    >>> js.tf.unsorted_segment_mean([1.0, 2.0, 3.0], [0, 0, 2], 3).tolist()
    [1.5, 0.0, 3.0]
    """
    function = "unsorted_segment_mean"
    return _segments(function, "mean", data, segment_ids, num_segments, name, options)


def unsorted_segment_sqrt_n(
    data, segment_ids, num_segments, name=None, **options: Unpack[Options]
):
    """The sum of the rows of each segment over the square root of their number.

    The rule of `tf.math.unsorted_segment_sqrt_n`; an empty one is 0. Args, Returns,
    Raises: as `unsorted_segment_sum`; real numbers.

    >>> import jscatter as js
    >>> ids = [0, 0, 0, 0, 2]
    >>> js.tf.unsorted_segment_sqrt_n([1.0, 2.0, 3.0, 4.0, 5.0], ids, 3).tolist()
    [5.0, 0.0, 5.0]
    """
    function = "unsorted_segment_sqrt_n"
    return _segments(
        function, "sum_over_root", data, segment_ids, num_segments, name, options
    )


tensor_scatter_add = tensor_scatter_nd_add
tensor_scatter_sub = tensor_scatter_nd_sub
tensor_scatter_mul = tensor_scatter_nd_mul
tensor_scatter_div = tensor_scatter_nd_div
tensor_scatter_min = tensor_scatter_nd_min
tensor_scatter_max = tensor_scatter_nd_max
tensor_scatter_update = tensor_scatter_nd_update


def _tensor(function, op, tensor, indices, updates, name, options):
    call = Call(f"tf.{function}", ("tensor", "indices", "updates"), "nd", op)
    with _scope(call.function, name):
        return _call.run(call, tensor, indices, updates, given=options)


def _segments(function, op, data, segment_ids, num_segments, name, options):
    function = f"tf.{function}"
    num_segments = _validate.size(function, "num_segments", num_segments)
    names = ("num_segments", "segment_ids", "data")
    call = Call(function, names, "segments", op, shape=(num_segments,))
    with _scope(function, name):
        return _call.run(call, None, segment_ids, data, given=options)


def _scope(function, name):
    if name is None:
        return contextlib.nullcontext()
    if not isinstance(name, str):
        _validate.fail(TypeError, function, "`name` must be a str", name=name)
    return jax.named_scope(name)
