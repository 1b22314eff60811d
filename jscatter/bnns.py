"""Apple's spelling: BNNSScatterND and BNNSGatherND of the Accelerate framework.

`scatter_nd(op, input, indices, output)` combines `input` into `output` and returns the
new output: there is no status code and nothing is written in place. `indices` holds
index vectors on its last dimension; where they are shorter than the rank of `output`,
they name slices.
"""

from __future__ import annotations

import enum
from typing import Unpack

import numpy as np

from jscatter import _call, _validate
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
    function = "bnns.scatter_nd"
    reduction = _reduction(function, op)
    if filter_params is not None:
        rule = "`filter_params` must be None"
        _validate.fail(TypeError, function, rule, filter_params=filter_params)
    epsilon = _validate.number(function, "epsilon", epsilon)
    names = ("output", "indices", "input")
    with_epsilon = reduction is ReduceFunction.SUM_LOG
    params = (("epsilon", epsilon),) if with_epsilon else ()
    call = Call(function, names, "nd", _OPS[reduction], params=params)
    return _call.run(call, output, indices, input, given=options)


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
