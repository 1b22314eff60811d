"""Apple's spelling: BNNSScatter, BNNSScatterND and their gathers, of Accelerate.

A scatter combines `input` into `output` and returns the new output: there is no status
code and nothing is written in place. In `scatter_nd` the indices hold index vectors on
their last dimension; where these are shorter than the rank of `output`, they name
slices. In `scatter` they name positions along one axis.
"""

from __future__ import annotations

import enum
from typing import Unpack

import numpy as np

from jscatter import _arguments, _call, _validate
from jscatter._call import Call, Options


class ReduceFunction(enum.IntEnum):
    """BNNSReduceFunction with Apple's numbers."""

    MAX = 0
    MIN = 1
    ARG_MAX = 2
    ARG_MIN = 3
    MEAN = 4
    MEAN_NON_ZERO = 5
    SUM = 6
    SUM_SQUARE = 7
    SUM_LOG = 8
    L1_NORM = 9
    LOGICAL_OR = 10
    ANY = 10
    LOGICAL_AND = 11
    ALL = 11
    L2_NORM = 12
    LOG_SUM_EXP = 13
    PRODUCT = 14
    NONE = 15
    LOG_SUM = 16


_OPS = {
    ReduceFunction.MAX: "max",
    ReduceFunction.MIN: "min",
    ReduceFunction.ARG_MAX: "arg_max",
    ReduceFunction.ARG_MIN: "arg_min",
    ReduceFunction.MEAN: "mean",
    ReduceFunction.MEAN_NON_ZERO: "mean_non_zero",
    ReduceFunction.SUM: "add",
    ReduceFunction.SUM_SQUARE: "sum_square",
    ReduceFunction.SUM_LOG: "sum_log",
    ReduceFunction.L1_NORM: "l1_norm",
    ReduceFunction.ANY: "any",
    ReduceFunction.ALL: "all",
    ReduceFunction.L2_NORM: "l2_norm",
    ReduceFunction.LOG_SUM_EXP: "log_sum_exp",
    ReduceFunction.PRODUCT: "multiply",
    ReduceFunction.NONE: "set",
    ReduceFunction.LOG_SUM: "log_sum",
}


def scatter_nd(
    op,
    input,
    indices,
    output,
    filter_params=None,
    *,
    epsilon=0.0,
    **options: Unpack[Options],
):
    """`output` with `input` combined into it at `indices`: BNNSScatterND.

    A cell that receives nothing keeps what it held, o. With the updates S it becomes:

    * MAX, MIN, PRODUCT, ANY (LOGICAL_OR), ALL (LOGICAL_AND): those of o and S; the
      logical ones are 1 or 0, of truth values
    * SUM: o + sum of S
    * MEAN: (o + sum of S) / (1 + number of S); integers floor
    * MEAN_NON_ZERO: the mean of those of o and S that are not 0; 0 if none is
    * SUM_SQUARE: o**2 + sum of s**2
    * L1_NORM: abs(o) + sum of abs(s)
    * L2_NORM: sqrt(o**2 + sum of s**2)
    * SUM_LOG: log(o + epsilon) + sum of log(s + epsilon)
    * LOG_SUM: log(o + sum of S)
    * LOG_SUM_EXP: log(exp(o) + sum of exp(s)), stably
    * ARG_MAX, ARG_MIN: the row-major position among the index vectors of the winning
      update, of which o is none, in the output's dtype; the first of equal ones
    * NONE: one of S (which one, Apple does not say either)

    All have exact derivatives of every order; where the formula has no finite one (the
    log of what is not positive, L2_NORM at 0), and for positions and truth values, it
    is 0.

    Args:
      op: a `ReduceFunction`, its number, or its name in any case.
      input: the updates; `indices.shape[:-1] + output.shape[K:]`, the dtype of
        `output`.
      indices: integers `[..., K]`, K at most the rank of `output`.
      output: what is combined into.
      filter_params: None; Apple's run-time parameters have no meaning here.
      epsilon: a number, for SUM_LOG.
      **options: see `jscatter.Options`.

    Returns:
      An array like `output`.

    Raises:
      TypeError: an argument's kind or dtype; `filter_params` other than None.
      ValueError: an unknown `op`; shapes against the law.

    >>> import jax.numpy as jnp
    >>> import jscatter as js
    >>> out = jnp.zeros((3, 2))
    >>> js.bnns.scatter_nd("none", [[20.0, 21.0]], [[1]], out).tolist()
    [[0.0, 0.0], [20.0, 21.0], [0.0, 0.0]]
    """
    op, params = _op("bnns.scatter_nd", op, filter_params, epsilon)
    call = Call("bnns.scatter_nd", _SCATTER, "nd", op, params=params)
    return _call.run(call, output, indices, input, given=options)


def scatter(
    axis,
    op,
    input,
    indices,
    output,
    filter_params=None,
    *,
    epsilon=0.0,
    **options: Unpack[Options],
):
    """`output` with `input` combined into it at `indices` along `axis`: BNNSScatter.

    Indices of rank 1 name whole slices; else they have the shape of `input` and name
    one element each, in its own row: with axis 1, `output[i, indices[i, j]]` meets
    `input[i, j]`.

    Args:
      axis: an int in [-rank, rank).
      op: as for `scatter_nd`, with its formulas. ARG_MAX and ARG_MIN give positions
        along `axis`.
      input: the updates; the dtype and rank of `output`. For indices of rank 1 its
        shape, but N in dimension `axis`; else in no other dimension larger.
      indices: integers `[N]`, or of the shape of `input`.
      output: what is combined into; rank 1 or more.
      filter_params: None; Apple's run-time parameters have no meaning here.
      epsilon: a number, for SUM_LOG.
      **options: see `jscatter.Options`.

    Returns:
      An array like `output`.

    Raises:
      TypeError: an argument's kind or dtype; `filter_params` other than None.
      ValueError: an unknown `op`; shapes against the rule, `axis` outside.

    >>> import jscatter as js
    >>> js.bnns.scatter(1, "sum", [[8, 9]], [2, 0], [[1, 2, 3]]).tolist()
    [[10, 2, 11]]
    """
    axis = _validate.dim("bnns.scatter", "axis", axis)
    op, params = _op("bnns.scatter", op, filter_params, epsilon)
    call = Call("bnns.scatter", _SCATTER, "", op, axis, axis="axis", params=params)
    call = call._replace(same_shape=True)
    return _along(call, output, indices, input, options)


def gather(axis, input, indices, **options: Unpack[Options]):
    """What `input` holds at `indices` along `axis`; 0 where one is outside: BNNSGather.

    Indices of rank 1 name whole slices; else they have the rank of `input` and name one
    element each, in its own row: with axis 1, `out[i, j] = input[i, indices[i, j]]`.

    Args:
      axis: an int in [-rank, rank).
      input: rank 1 or more.
      indices: integers `[N]`, or of the rank of `input` and in no other dimension
        larger.
      **options: see `jscatter.Options`.

    Returns:
      An array like `input`, but N in dimension `axis`; or of the shape of `indices`.

    Raises:
      TypeError: an argument's kind or dtype.
      ValueError: shapes against the rule, `axis` outside.

    >>> import jscatter as js
    >>> js.bnns.gather(1, [[1, 2, 3], [4, 5, 6]], [2, 0]).tolist()
    [[3, 1], [6, 4]]
    >>> js.bnns.gather(1, [[1, 2, 3], [4, 5, 6]], [[2], [0]]).tolist()
    [[3], [4]]
    """
    axis = _validate.dim("bnns.gather", "axis", axis)
    names = ("input", "indices", "updates")
    call = Call("bnns.gather", names, "", "gather", axis, axis="axis")
    return _along(call, input, indices, None, options)


def gather_nd(input, indices, **options: Unpack[Options]):
    """The slices of `input` at `indices`; 0 where an index is outside: BNNSGatherND.

    Args:
      input: an array.
      indices: integers `[..., K]`, K at most the rank of `input`.
      **options: see `jscatter.Options`.

    Returns:
      An array `indices.shape[:-1] + input.shape[K:]`.

    Raises:
      TypeError: an argument's kind or dtype.
      ValueError: shapes against the law.

    >>> import jscatter as js
    >>> js.bnns.gather_nd([[1.0, 2.0], [3.0, 4.0]], [[1, 0]]).tolist()
    [3.0]
    """
    call = Call("bnns.gather_nd", ("input", "indices", "updates"), "nd", "gather")
    return _call.run(call, input, indices, given=options)


_SCATTER = ("output", "indices", "input")


def _op(function, op, filter_params, epsilon):
    """Our name of an op, and its parameters."""
    reduction = _reduction(function, op)
    if filter_params is not None:
        rule = "`filter_params` must be None"
        _validate.fail(TypeError, function, rule, filter_params=filter_params)
    epsilon = _validate.number(function, "epsilon", epsilon)
    with_epsilon = reduction is ReduceFunction.SUM_LOG
    return _OPS[reduction], (("epsilon", epsilon),) if with_epsilon else ()


def _along(call, operand, indices, updates, options):
    """Of rank 1 the indices name slices, else elements."""
    wide = dict(lists=True, narrow=False)  # `run` narrows, and may report them
    indices = _arguments.indices(call.function, "indices", indices, **wide)
    call = call._replace(form="rows" if indices.ndim == 1 else "along")
    return _call.run(call, operand, indices, updates, given=options)


def _reduction(function, op) -> ReduceFunction:
    if isinstance(op, str):
        if op.upper() in ReduceFunction.__members__:
            return ReduceFunction[op.upper()]
        rule = f"`op` must be one of {', '.join(ReduceFunction.__members__)}"
        _validate.fail(ValueError, function, rule, op=op)
    rule = "`op` must be a ReduceFunction, its number or its name"
    if isinstance(op, bool) or not isinstance(op, int | np.integer):
        _validate.fail(TypeError, function, rule, op=op)
    if int(op) not in set(ReduceFunction):
        _validate.fail(ValueError, function, rule, op=int(op))
    return ReduceFunction(int(op))
