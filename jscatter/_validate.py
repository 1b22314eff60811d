"""The rules that a call can break, as errors: the function, the rule, the value.

TypeError for a kind or dtype, ValueError for a rank, size or name. Within one call the
order is kind, rank, dim, sizes, dtype. The functions see static facts only; the
argument names are those of the spelling that was called. Nothing here relies on chex,
whose assertions a user may switch off.
"""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from jscatter import _scatter


def fail(error, function: str, rule: str, **got):
    """Raises an error that reads `function: rule; got name value, name value`."""
    values = ", ".join(f"{name} {describe(value)}" for name, value in got.items())
    raise error(f"{function}: {rule}" + (f"; got {values}." if got else "."))


def describe(value) -> str:
    """float32[3,4] for an array, its type for what is none, repr for the rest."""
    if isinstance(value, type):
        return f"the type {value.__name__}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    if value is None or isinstance(value, bool | int | float | complex | str | tuple):
        return repr(value)
    return type(value).__name__


def not_yet(function: str, what: str, value):
    """Raises NotImplementedError for what a later version brings."""
    raise NotImplementedError(f"{function}: {what} is not written yet; got {value!r}.")


def is_number(dtype) -> bool:
    """Whether JAX has the dtype and computes with it: numbers and bools."""
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return False
    if not (jnp.issubdtype(dtype, jnp.number) or np.dtype(dtype).kind == "b"):
        return False
    return dtype.itemsize <= (16 if jnp.issubdtype(dtype, jnp.complexfloating) else 8)


_REAL_NUMBER = int | float | np.integer | np.floating


# -- outside jit: what tracing cannot see ----------------------------------------------


def dim(function: str, name: str, value) -> int:
    """`dim` as a Python int; its range is checked where the rank is known."""
    if type(value) is int:
        return value
    if isinstance(value, jax.core.Tracer) and value.ndim == 0:
        fail(TypeError, function, f"`{name}` must be static", **{name: value})
    if not isinstance(value, np.integer):
        rule = f"`{name}` must be an int"
        is_array = isinstance(value, list) or getattr(value, "ndim", 0)
        if name == "dim" and is_array:
            rule += " (PyG's order is `scatter(src, index, dim)`: see `jscatter.pyg`)"
        fail(TypeError, function, rule, **{name: value})
    return int(value)


def shape(function: str, name: str, value) -> tuple[Any, ...]:
    """`shape` as a tuple of Python ints (or symbolic sizes)."""
    if isinstance(value, tuple | list) and all(
        type(n) is int and n >= 0 for n in value
    ):
        return tuple(value)  # most calls
    if isinstance(value, jax.core.Tracer):
        fail(TypeError, function, f"`{name}` must be static", **{name: value})
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        rule = f"`{name}` must be an int or integers of rank 1"
        if not jnp.issubdtype(value.dtype, jnp.integer) and (
            value.size or value.ndim > 1
        ):
            fail(TypeError, function, rule, **{name: value})
        if value.ndim > 1:
            fail(ValueError, function, rule, **{name: value})
        value = np.asarray(value).tolist()
    sizes = value if isinstance(value, tuple | list) else (value,)
    return tuple(size(function, name, n) for n in sizes)


def size(function: str, name: str, value):
    """One static size: anything with `__index__`, or a symbolic size."""
    if isinstance(value, jax.core.Tracer):
        fail(TypeError, function, f"`{name}` must be static", **{name: value})
    if export.is_symbolic_dim(value):
        if not _at_most(0, value):
            rule = f"`{name}` must not be negative, which symbols do not show"
            fail(ValueError, function, rule, **{name: str(value)})
        return value
    try:
        n = operator.index(value)
    except TypeError:
        n = None
    if n is None or isinstance(value, bool):
        fail(TypeError, function, f"`{name}` must hold integers", **{name: value})
    if n < 0:
        fail(ValueError, function, f"`{name}` must not be negative", **{name: n})
    return n


def flag(function: str, name: str, value) -> bool:
    """A promise or switch as a Python bool."""
    if not isinstance(value, bool | np.bool_):
        rule = f"`{name}` must be True or False, and static"
        fail(TypeError, function, rule, **{name: value})
    return bool(value)


def integer(function: str, name: str, value) -> int:
    """A static whole number that is not negative."""
    is_int = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_int:
        rule = f"`{name}` must be an int, and static"
        fail(TypeError, function, rule, **{name: value})
    if value < 0:
        fail(ValueError, function, f"`{name}` must not be negative", **{name: value})
    return min(int(value), np.iinfo(np.int32).max)  # nothing counts further


def positive_integer(function: str, name: str, value) -> int:
    """A static whole number of at least 1."""
    value = integer(function, name, value)
    if not value:
        fail(ValueError, function, f"`{name}` must be positive", **{name: value})
    return value


def positive(function: str, name: str, value) -> float:
    """A static finite number above 0."""
    value = number(function, name, value)
    if not 0 < value < float("inf"):
        rule = f"`{name}` must be positive and finite"
        fail(ValueError, function, rule, **{name: value})
    return value


def number(function: str, name: str, value) -> float:
    """A static real number."""
    if isinstance(value, bool) or not isinstance(value, _REAL_NUMBER):
        rule = f"`{name}` must be a number, and static"
        fail(TypeError, function, rule, **{name: value})
    try:
        return float(value)
    except OverflowError:
        rule = f"`{name}` must be a number that a float holds"
        raise ValueError(f"{function}: {rule}.") from None


def one_of(function: str, name: str, value, allowed: tuple):
    """A name out of a closed list."""
    if not isinstance(value, str | None) or value not in allowed:
        error = ValueError if isinstance(value, str) else TypeError
        rule = f"`{name}` must be one of {', '.join(map(repr, allowed))}"
        fail(error, function, rule, **{name: value})
    return value


# -- inside jit: shapes and dtypes -----------------------------------------------------


def nd(function, names, operand, indices, updates, batch_dims=0):
    """`updates.shape == indices.shape[:-1] + operand.shape[batch_dims + K:]`."""
    target, index, update = names
    law = target if target == "shape" else f"{target}.shape"
    got = {index: indices, target: operand.shape if target == "shape" else operand}
    if indices.ndim < 1:
        rule = f"`{index}` must have rank 1 or more: its last dimension is the index"
        fail(ValueError, function, rule, **{index: indices})
    if not 0 <= batch_dims < indices.ndim or batch_dims > operand.ndim:
        rule = f"`batch_dims` must be less than the rank of `{index}`"
        fail(ValueError, function, rule, batch_dims=batch_dims, **got)
    if indices.shape[:batch_dims] != operand.shape[:batch_dims]:
        rule = (
            f"`{index}` and `{target}` must agree in the first `batch_dims` dimensions"
        )
        fail(ValueError, function, rule, batch_dims=batch_dims, **got)
    depth = indices.shape[-1]
    if type(depth) is not int:
        rule = f"the last dimension of `{index}` must be static"
        fail(ValueError, function, rule, **got)
    if depth > operand.ndim - batch_dims:
        rest = " - batch_dims" if batch_dims else ""
        rule = f"`{index}.shape[-1]` must be at most the rank of `{target}`{rest}"
        fail(ValueError, function, rule, **got)
    expected = indices.shape[:-1] + operand.shape[batch_dims + depth :]
    if updates is not None and updates.shape != expected:
        rule = f"`{update}.shape` must be {index}.shape[:-1] + {law}[{depth}:]"
        got = {update: updates} | got
        fail(ValueError, function, f"{rule} = {expected}", **got)
    _rows_fit(function, target, operand.shape[batch_dims : batch_dims + depth])


def along(function, names, operand, index, updates, axis, dim) -> int:
    """MindSpore's and PyTorch's rule for `dim`; returns it in [0, rank).

    axis: what the spelling calls it.
    """
    arrays = dict(zip(names, (operand, index, updates)))
    if updates is None:
        arrays.pop(names[2])
    for name, x in arrays.items():
        if x.ndim < 1:
            fail(
                ValueError, function, f"`{name}` must have rank 1 or more", **{name: x}
            )
    if len({x.ndim for x in arrays.values()}) > 1:
        listed = ", ".join(f"`{name}`" for name in arrays)
        fail(ValueError, function, f"{listed} must have the same rank", **arrays)
    dim = dim_in_range(function, axis, dim, operand)
    target, ids, update = names
    for d, n in enumerate(index.shape):
        if update in arrays and not _at_most(n, updates.shape[d]):
            rule = f"`{ids}.shape[{d}]` must be at most `{update}.shape[{d}]`"
            fail(ValueError, function, rule, **arrays)
        if d != dim and not _at_most(n, operand.shape[d]):
            rule = f"`{ids}.shape[{d}]` must be at most `{target}.shape[{d}]`"
            fail(ValueError, function, f"{rule} ({axis} is {dim})", **arrays)
    _rows_fit(function, target, (operand.shape[dim],))
    return dim


def same_shape(function, names, index, updates):
    """Where a spelling has no leading corner."""
    if index.shape != updates.shape:
        rule = f"`{names[1]}` must have the shape of `{names[2]}`"
        fail(ValueError, function, rule, **{names[1]: index, names[2]: updates})


def rows(function, names, operand, ids, updates, axis, dim, ids_rank) -> int:
    """One id per slice along `dim`; returns it in [0, rank). ids_rank None: any."""
    target, index, update = names
    if operand.ndim < 1:
        rule = f"`{target}` must have rank 1 or more"
        fail(ValueError, function, rule, **{target: operand})
    if ids_rank is not None and ids.ndim != ids_rank:
        fail(
            ValueError, function, f"`{index}` must have rank {ids_rank}", **{index: ids}
        )
    dim = dim_in_range(function, axis, dim, operand)
    expected = operand.shape[:dim] + ids.shape + operand.shape[dim + 1 :]
    if updates is not None and updates.shape != expected:
        rule = (
            f"`{update}.shape` must be `{target}.shape` with dimension {dim} as long as"
            f" `{index}`, {expected}"
        )
        got = {update: updates, target: operand, index: ids}
        fail(ValueError, function, rule, **got)
    _rows_fit(function, target, (operand.shape[dim],))
    return dim


def segments(function, names, num_segments, ids, data):
    """The shape of the ids is a prefix of the data's (TensorFlow's meaning)."""
    _, index, update = names
    if data.shape[: ids.ndim] != ids.shape:
        rule = f"`{index}.shape` must be a prefix of `{update}.shape`"
        fail(ValueError, function, rule, **{index: ids, update: data})
    _rows_fit(function, "num_segments", (num_segments,))


def _at_most(n, limit) -> bool:
    """Sizes that may be symbolic: not provably larger is let through where equal."""
    try:
        return bool(n <= limit)
    except jax.errors.InconclusiveDimensionOperation:
        return bool(n == limit)


def dim_in_range(function, name, dim, operand) -> int:
    if not -operand.ndim <= dim < operand.ndim:
        rule = f"`{name}` must be in [{-operand.ndim}, {operand.ndim})"
        fail(ValueError, function, rule, **{name: dim})
    return dim % operand.ndim


def _rows_fit(function, name, sizes):
    """Else an id clamped to int32's maximum would name a row."""
    for n in sizes:
        if type(n) is int and n > np.iinfo(_scatter.int_dtype()).max:
            rule = (
                f"a dimension of `{name}` has more rows than int32 can name: enable x64"
            )
            fail(ValueError, function, rule, size=n)


def index_dtype(function, name, indices, *, wide: bool):
    """Any integer dtype, or of these int32 and int64 only (mint, as MindSpore says)."""
    if wide:
        if indices.dtype not in (np.int32, np.int64):
            rule = f"`{name}` must be int32 or int64"
            fail(TypeError, function, rule, **{name: indices})
    elif not jnp.issubdtype(indices.dtype, jnp.integer):
        fail(
            TypeError,
            function,
            f"`{name}` must have an integer dtype",
            **{name: indices},
        )


def value_dtype(function, name, x):
    """Numbers and bools that have a zero."""
    if not is_number(x.dtype):
        fail(TypeError, function, f"`{name}` must be numeric or bool", **{name: x})
    if x.dtype.name in _scatter.WITHOUT_ZERO:
        rule = f"`{name}` must have a dtype that holds a zero"
        fail(TypeError, function, rule, **{name: x})


def same_dtype(function, names, operand, updates):
    """`updates` in the operand's dtype: equal, or weakly typed of no higher kind."""
    if updates.dtype == operand.dtype:
        return updates
    if jax.typeof(updates).weak_type and _kind(updates) <= _kind(operand):
        return updates.astype(operand.dtype)
    rule = f"`{names[2]}` must have the dtype of `{names[0]}`"
    fail(TypeError, function, rule, **{names[2]: updates, names[0]: operand})


def scalar(function, name, value, like):
    """`alpha`, `constant`: one number, of no higher kind than the array's."""
    value_dtype(function, name, value)
    if value.ndim:
        fail(ValueError, function, f"`{name}` must be a scalar", **{name: value})
    if _kind(value) > _kind(like):
        rule = f"`{name}` must fit {like.dtype}"
        fail(TypeError, function, rule, **{name: value})
    return value


def _kind(x) -> int:
    kinds = (np.bool_, jnp.integer, jnp.floating, jnp.complexfloating)
    return next(k for k, kind in enumerate(kinds) if jnp.issubdtype(x.dtype, kind))


# What ops refuse: dtype kinds (bool, integer, float, complex) and the reason.
_REAL = "bc", "it takes real numbers"
_INEXACT_REAL = "bic", "it needs a float dtype"
_REFUSED = {
    "subtract": ("b", "bool has no subtraction"),
    "divide": ("bi", "division needs a float or complex dtype"),
    "mean": ("b", "bool has no mean"),
    "min": ("c", "complex numbers have no order"),
    "max": ("c", "complex numbers have no order"),
    "argmin": ("c", "complex numbers have no order"),
    "argmax": ("c", "complex numbers have no order"),
    **dict.fromkeys(("arg_max", "arg_min"), _REAL),
    **dict.fromkeys(("variance", "std", "normalize", "sum_over_root"), _REAL),
    **dict.fromkeys(("logsumexp", "softmax", "log_softmax", "l1_norm"), _REAL),
    "sum_square": ("b", "bool has no squares"),
    "mean_non_zero": ("bi", "it needs a float or complex dtype"),
    **dict.fromkeys(("sum_log", "l2_norm", "log_sum_exp", "log_sum"), _INEXACT_REAL),
}


def op_dtype(function, op, name, x):
    """What a reduction cannot do with a dtype."""
    kinds, reason = _REFUSED.get(op, ("", ""))
    if "bifc"[_kind(x)] in kinds:
        fail(TypeError, function, reason, **{name: x})
