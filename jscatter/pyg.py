"""The spelling of PyG and torch_scatter: `index` gives one segment per row of `src`.

The empty segments of a maximum or minimum hold the dtype's lowest or highest value, as
everywhere in jscatter (PyG has 0): see `jscatter.ops.segment_max_or_constant`. An index
outside, a negative one too, drops its row. Arguments may be nested lists.
"""

from __future__ import annotations

from typing import Unpack

import jax.numpy as jnp
import numpy as np

from jscatter import _arguments, _call, _validate
from jscatter._call import Call, Options

_REDUCE = {
    "sum": "add",
    "add": "add",
    "mul": "multiply",
    "mean": "mean",
    "min": "min",
    "max": "max",
}
_NAMES = ("dim_size", "index", "src")


def scatter(
    src, index, dim=-1, dim_size=None, reduce="sum", **options: Unpack[Options]
):
    """Reduces the entries of `src` along `dim` that have the same `index`.

    The rule of `torch_scatter.scatter` and, but for its default `dim`, of
    `torch_geometric.utils.scatter`: an index of rank 1 names whole slices along `dim`;
    else it is broadcast to the shape of `src` (missing dimensions stand behind) and
    names one element each. Means of integers floor.

    Args:
      src: rank 1 or more.
      index: integers.
      dim: an int in [-rank, rank).
      dim_size: the length of the result along `dim`; None takes the largest index + 1,
        which needs a concrete index.
      reduce: "sum" ("add"), "mul", "mean", "min" or "max".
      **options: see `jscatter.Options`.

    Returns:
      An array like `src`, but `dim_size` long in dimension `dim`.

    Raises:
      TypeError: an argument's kind or dtype.
      ValueError: shapes that do not fit, `dim` outside, an unknown `reduce`; no
        `dim_size` under a trace.

    >>> import jscatter as js
    >>> js.pyg.scatter([[1, 2, 3], [4, 5, 6]], [0, 2, 0], dim_size=4).tolist()
    [[4, 0, 2, 0], [10, 0, 5, 0]]
    """
    function = "pyg.scatter"
    op = _op(function, reduce)
    dim = _validate.dim(function, "dim", dim)
    src = _arguments.value(function, "src", src, lists=True)
    wide = dict(lists=True, narrow=False)  # `run` narrows, and may report them
    index = _arguments.indices(function, "index", index, **wide)
    shape = np.shape(src)
    if not shape:
        _validate.fail(ValueError, function, "`src` must have rank 1 or more", src=src)
    at = _validate.dim_in_range(function, "dim", dim, src)
    form = "rows" if index.ndim == 1 else "along"
    index = _broadcast(function, index, src, at)
    size = _arguments.size(function, "dim_size", dim_size, "index", index, lists=True)
    shape = (*shape[:at], size, *shape[at + 1 :])
    call = Call(function, _NAMES, form, op, at, shape=shape, params=_whole(op))
    return _call.run(call, None, index, src, given=options)


def softmax(src, index, dim_size=None, **options: Unpack[Options]):
    """Each row's exponential over the sum of those with the same `index`.

    The rule of `torch_geometric.utils.softmax`, stable; see
    `jscatter.ops.segment_softmax`.

    Args:
      src: real numbers.
      index: integers; their shape is a prefix of that of `src`.
      dim_size: the number of segments; None takes the largest index + 1, which needs a
        concrete index.
      **options: see `jscatter.Options`.

    Returns:
      An array like `src`.

    Raises:
      TypeError, ValueError: as `scatter`.

    >>> import jscatter as js
    >>> js.pyg.softmax([1.0, 1.0, 5.0], [0, 0, 2]).tolist()
    [0.5, 0.5, 1.0]
    """
    function = "pyg.softmax"
    size = _arguments.size(function, "dim_size", dim_size, "index", index, lists=True)
    call = Call(function, _NAMES, "segments", "softmax", shape=(size,))
    return _call.run(call, None, index, src, given=options)


def segment_csr(src, indptr, reduce="sum", **options: Unpack[Options]):
    """Reduces the rows `indptr[k]` to `indptr[k + 1]` of `src` to one, for each k.

    The rule of `torch_scatter.segment_csr` for `indptr` of rank 1. Rows before the
    first entry and from the last one on are left out.

    Args:
      src: rank 1 or more.
      indptr: integers in ascending order `[n + 1]`.
      reduce: "sum" ("add"), "mul", "mean", "min" or "max".
      **options: "implementation", "deterministic" and "out_sharding" of
        `jscatter.Options`.

    Returns:
      An array `[n, *src.shape[1:]]`.

    Raises:
      TypeError: an argument's kind or dtype; another option.
      ValueError: ranks, an unknown `reduce`.

    >>> import jscatter as js
    >>> js.pyg.segment_csr([1, 2, 3, 4], [0, 2, 2, 3]).tolist()
    [3, 0, 3]
    """
    function, allowed = "pyg.segment_csr", ("implementation", "deterministic")
    op = _op(function, reduce)
    if unknown := [name for name in options if name not in (*allowed, "out_sharding")]:
        rule = f"the options are {', '.join(allowed)}, out_sharding"
        raise TypeError(f"{function}: {rule}; got {', '.join(unknown)}.")
    src = _arguments.value(function, "src", src, lists=True)
    indptr = _arguments.indices(function, "indptr", indptr, lists=True)
    rows = np.shape(src)[:1]
    if not rows:
        _validate.fail(ValueError, function, "`src` must have rank 1 or more", src=src)
    if indptr.ndim != 1 or indptr.shape[0] < 1:
        rule = "`indptr` must have rank 1 and at least one entry"
        _validate.fail(ValueError, function, rule, indptr=indptr)
    # The entries at or before a row, less one, are the number of its segment.
    names = ("src", "indptr", "ones")
    call = Call(function, names, "segments", "add", shape=rows, scalar_updates=True)
    ids = jnp.cumsum(_call.run(call, None, indptr, np.int32(1), given={})) - np.int32(1)
    names = ("indptr", "indptr", "src")
    shape = (indptr.shape[0] - 1,)
    call = Call(function, names, "segments", op, shape=shape, params=_whole(op))
    given: Options = {**options, "indices_are_sorted": True}
    return _call.run(call, None, ids, src, given=given)


def _op(function, reduce) -> str:
    return _REDUCE[_validate.one_of(function, "reduce", reduce, tuple(_REDUCE)) or ""]


def _whole(op):
    return (("whole", True),) if op == "mean" else ()


def _broadcast(function, index, src, dim):
    """An index of rank 1 as it is; else broadcast, with dimensions of size 1 behind."""
    shape = np.shape(src)
    if index.ndim == 1:
        fits, seen = index.shape[0] == shape[dim], index.shape
    else:
        seen = index.shape + (1,) * (len(shape) - index.ndim)
        fits = len(seen) == len(shape) and all(n in (1, m) for n, m in zip(seen, shape))
    if not fits:
        rule = "`index` must be as long as `src` in `dim`, or broadcast to its shape"
        _validate.fail(ValueError, function, rule, index=index, src=src, dim=dim)
    if index.ndim == 1 or seen == shape == index.shape:
        return index
    xp = np if isinstance(index, np.ndarray) else jnp
    return xp.broadcast_to(xp.reshape(index, seen), shape)
