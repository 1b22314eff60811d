"""MindSpore mint's and PyTorch's spelling: `index` names positions along `dim`.

For `scatter*` and `gather`, `index` has the rank of `input` and names one element each,
in its own row: with dim 1, `out[i, index[i, j]]` meets `src[i, j]`. `index` may be
smaller than `src` (its leading corner is read) and than `input`, except that no
dimension but `dim` of it may be larger. For `index_*`, `index` has rank 1 and names
whole slices.

`index` must be int32 or int64. Arguments may be nested lists. An index outside `input`
is dropped (MindSpore leaves that undefined, PyTorch raises); see `jscatter.Options`.
"""

from __future__ import annotations

from typing import Unpack

from jscatter import _call, _validate
from jscatter._call import Call, Options

_ALONG = ("input", "index", "src")
_ROWS = ("input", "index", "source")
_REDUCE = {
    "sum": "add",
    "prod": "multiply",
    "mean": "mean",
    "amax": "max",
    "amin": "min",
}


def scatter_add(input, dim, index, src, **options: Unpack[Options]):
    """Adds the elements of `src` to `input` at `index` along `dim`.

    The rule of `mindspore.mint.scatter_add` and `torch.scatter_add`; for rank 3 and dim
    0: `input[index[i][j][k]][j][k] += src[i][j][k]`. Duplicates are summed.

    Args:
      input: the target; rank 1 or more. Bools add as OR.
      dim: an int in [-rank, rank). Required, although MindSpore prints a default of 0.
      index: int32 or int64, of the rank of `input`.
      src: of the dtype and rank of `input`, in no dimension smaller than `index`.
      **options: see `jscatter.Options`.

    Returns:
      An array like `input`.

    Raises:
      TypeError: an argument's kind or dtype, a `dim` that is no int.
      ValueError: a rank below 1, ranks that differ, sizes against the rule, `dim`
        outside.

    >>> import jscatter as js
    >>> js.mint.scatter_add([[1, 2, 3, 4, 5]], 1, [[2, 4]], [[8, 8]]).tolist()
    [[1, 2, 11, 4, 13]]
    """
    dim = _validate.dim("mint.scatter_add", "dim", dim)
    call = Call("mint.scatter_add", _ALONG, "along", "add", dim, wide_indices=True)
    return _call.run(call, input, index, src, given=options)


def scatter(input, dim, index, src, *, reduce=None, **options: Unpack[Options]):
    """`input` with the elements of `src` set, added or multiplied in along `dim`.

    The rule of `mindspore.mint.scatter` and `torch.scatter`. Of duplicates without
    `reduce` one is taken, which one is not said; under differentiation it is the last,
    in value and gradient alike (PyTorch gives the cotangent to all of them).

    Args:
      input: the target; rank 1 or more.
      dim: an int in [-rank, rank).
      index: int32 or int64, of the rank of `input`.
      src: as for `scatter_add`, or a scalar.
      reduce: None, "add" or "multiply".
      **options: see `jscatter.Options`.

    Returns:
      An array like `input`.

    Raises:
      TypeError, ValueError: as `scatter_add`; an unknown `reduce`.

    >>> import jscatter as js
    >>> js.mint.scatter([[1, 2, 3], [4, 5, 6]], 1, [[0], [2]], 9).tolist()
    [[9, 2, 3], [4, 5, 9]]
    """
    dim = _validate.dim("mint.scatter", "dim", dim)
    reduce = _validate.one_of(
        "mint.scatter", "reduce", reduce, (None, "add", "multiply")
    )
    op = reduce or "set"
    call = Call(
        "mint.scatter", _ALONG, "along", op, dim, scalar_updates=True, wide_indices=True
    )
    return _call.run(call, input, index, src, given=options)


def scatter_reduce(
    input, dim, index, src, reduce, *, include_self=True, **options: Unpack[Options]
):
    """`input` with the elements of `src` combined into it along `dim`.

    The rule of `torch.Tensor.scatter_reduce`. The gradient of "amax" and "amin" is
    shared evenly by all that take part; an excluded target never does (in PyTorch it
    counts where its value ties). "mean" of integers floors.

    Args:
      input: the target; rank 1 or more.
      dim: an int in [-rank, rank).
      index: int32 or int64, of the rank of `input`.
      src: as for `scatter_add`.
      reduce: "sum", "prod", "mean", "amax" or "amin".
      include_self: whether the target takes part. Where False, a cell that receives
        something forgets what it held; one that receives nothing keeps it.
      **options: see `jscatter.Options`.

    Returns:
      An array like `input`.

    Raises:
      TypeError, ValueError: as `scatter_add`; an unknown `reduce`.

    >>> import jscatter as js
    >>> args = [[1, 2, 3]], 1, [[0, 0]], [[5, 7]]
    >>> js.mint.scatter_reduce(*args, "mean", include_self=False).tolist()
    [[6, 2, 3]]
    """
    function = "mint.scatter_reduce"
    dim = _validate.dim(function, "dim", dim)
    op, params = _reduction(function, reduce, tuple(_REDUCE), include_self)
    call = Call(function, _ALONG, "along", op, dim, wide_indices=True, params=params)
    return _call.run(call, input, index, src, given=options)


def gather(input, dim, index, **options: Unpack[Options]):
    """The elements of `input` at `index` along `dim`; 0 where an index is outside.

    The rule of `mindspore.mint.gather` and `torch.gather`: with dim 1,
    `out[i, j] = input[i, index[i, j]]`. The transpose of `scatter_add`.

    Args:
      input: rank 1 or more.
      dim: an int in [-rank, rank).
      index: int32 or int64, of the rank of `input`.
      **options: see `jscatter.Options`.

    Returns:
      An array of the shape of `index`.

    Raises:
      TypeError, ValueError: as `scatter_add`.

    >>> import jscatter as js
    >>> js.mint.gather([[1, 2, 3], [4, 5, 6]], 1, [[2, 0], [0, 9]]).tolist()
    [[3, 1], [4, 0]]
    """
    dim = _validate.dim("mint.gather", "dim", dim)
    call = Call("mint.gather", _ALONG, "along", "gather", dim, wide_indices=True)
    return _call.run(call, input, index, given=options)


def index_add(input, dim, index, source, *, alpha=1, **options: Unpack[Options]):
    """Adds the slices of `source`, times `alpha`, to `input` at `index` along `dim`.

    The rule of `mindspore.mint.index_add` and `torch.index_add`. Duplicates are summed.

    Args:
      input: the target; rank 1 or more.
      dim: an int in [-rank, rank).
      index: int32 or int64 `[N]`.
      source: of the dtype of `input` and its shape, but N in dimension `dim`.
      alpha: a number that fits the dtype; it may be traced and differentiated.
      **options: see `jscatter.Options`.

    Returns:
      An array like `input`.

    Raises:
      TypeError: an argument's kind or dtype; a fractional `alpha` for integers (PyTorch
        rounds it to 0).
      ValueError: ranks or sizes against the rule, `dim` outside.

    >>> import jscatter as js
    >>> js.mint.index_add([1, 2, 3], 0, [0, 0, 2], [1, 1, 1], alpha=10).tolist()
    [21, 2, 13]
    """
    dim = _validate.dim("mint.index_add", "dim", dim)
    call = Call("mint.index_add", _ROWS, "rows", "add", dim, wide_indices=True)
    if type(alpha) is int and alpha == 1:  # nothing to multiply
        return _call.run(call, input, index, source, given=options)
    call = call._replace(scalar="alpha")
    if alpha is None:
        rule = "`alpha` must be a number"
        _validate.fail(TypeError, "mint.index_add", rule, alpha=alpha)
    return _call.run(call, input, index, source, scalar=alpha, given=options)


def index_copy(input, dim, index, source, **options: Unpack[Options]):
    """`input` with the slices of `source` set at `index` along `dim`.

    The rule of `torch.Tensor.index_copy`. Of duplicates one is taken, which one is not
    said; under differentiation it is the last, in value and gradient alike.

    Args:
      input: the target; rank 1 or more.
      dim: an int in [-rank, rank).
      index: int32 or int64 `[N]`.
      source: as for `index_add`.
      **options: see `jscatter.Options`.

    Returns:
      An array like `input`.

    Raises:
      TypeError, ValueError: as `index_add`.

    >>> import jscatter as js
    >>> js.mint.index_copy([[1, 2, 3], [4, 5, 6]], 1, [2, 0], [[7, 8], [9, 0]]).tolist()
    [[8, 2, 7], [0, 5, 9]]
    """
    dim = _validate.dim("mint.index_copy", "dim", dim)
    call = Call("mint.index_copy", _ROWS, "rows", "set", dim, wide_indices=True)
    return _call.run(call, input, index, source, given=options)


def index_fill(input, dim, index, value, **options: Unpack[Options]):
    """`input` with `value` in the slices at `index` along `dim`.

    The rule of `torch.Tensor.index_fill`.

    Args:
      input: the target; rank 1 or more.
      dim: an int in [-rank, rank).
      index: int32 or int64 `[N]`.
      value: a scalar of the dtype of `input`; it may be traced and differentiated.
      **options: see `jscatter.Options`.

    Returns:
      An array like `input`.

    Raises:
      TypeError, ValueError: as `index_add`; a `value` that is no scalar.

    >>> import jscatter as js
    >>> js.mint.index_fill([[1, 2, 3], [4, 5, 6]], 1, [2, 0], 9).tolist()
    [[9, 2, 9], [9, 5, 9]]
    """
    dim = _validate.dim("mint.index_fill", "dim", dim)
    names = ("input", "index", "value")
    call = Call("mint.index_fill", names, "rows", "fill", dim, wide_indices=True)
    return _call.run(call, input, index, value, given=options)


def index_reduce(
    input, dim, index, source, reduce, *, include_self=True, **options: Unpack[Options]
):
    """`input` with the slices of `source` combined into it at `index` along `dim`.

    The rule of `torch.Tensor.index_reduce`; for the sum there is `index_add`.

    Args:
      input: the target; rank 1 or more.
      dim: an int in [-rank, rank).
      index: int32 or int64 `[N]`.
      source: as for `index_add`.
      reduce: "prod", "mean", "amax" or "amin".
      include_self: as for `scatter_reduce`.
      **options: see `jscatter.Options`.

    Returns:
      An array like `input`.

    Raises:
      TypeError, ValueError: as `index_add`; an unknown `reduce`.

    >>> import jscatter as js
    >>> js.mint.index_reduce([1, 2, 3], 0, [0, 0, 2], [5, 7, 1], "amax").tolist()
    [7, 2, 3]
    """
    function = "mint.index_reduce"
    dim = _validate.dim(function, "dim", dim)
    op, params = _reduction(function, reduce, tuple(_REDUCE)[1:], include_self)
    call = Call(function, _ROWS, "rows", op, dim, wide_indices=True, params=params)
    return _call.run(call, input, index, source, given=options)


def index_select(input, dim, index, **options: Unpack[Options]):
    """The slices of `input` at `index` along `dim`; 0 where an index is outside.

    The rule of `mindspore.mint.index_select` and `torch.index_select`.

    Args:
      input: rank 1 or more.
      dim: an int in [-rank, rank).
      index: int32 or int64 `[N]`.
      **options: see `jscatter.Options`.

    Returns:
      An array like `input`, but N in dimension `dim`.

    Raises:
      TypeError: an argument's kind or dtype.
      ValueError: `index` not of rank 1, `dim` outside.

    >>> import jscatter as js
    >>> js.mint.index_select([[1, 2], [3, 4]], 1, [1, 1, 0]).tolist()
    [[2, 2, 1], [4, 4, 3]]
    """
    dim = _validate.dim("mint.index_select", "dim", dim)
    call = Call("mint.index_select", _ROWS, "rows", "gather", dim, wide_indices=True)
    return _call.run(call, input, index, given=options)


def _reduction(function, reduce, names, include_self):
    op = _REDUCE[_validate.one_of(function, "reduce", reduce, names) or "sum"]
    flag = _validate.flag(function, "include_self", include_self)
    return op, () if flag else (("include_self", False),)
