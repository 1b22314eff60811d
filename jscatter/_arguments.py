"""Arguments before jit sees them: kinds, Python numbers, lists, integers too wide.

JAX would cut a NumPy int64 or a Python integer to int32 silently, and says in its own
words what is no array. Everything that tracing can see is left to `_validate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jscatter import _scatter, _validate
from jscatter._validate import fail

# Types that are known to be jax.Array: isinstance on that class is slow.
seen: set[type] = set()
_NUMBERS = (bool, int, float, complex)
_LISTS = (list, tuple)
_NUMPY = (np.ndarray, np.generic)


def value(function: str, name: str, x, *, lists: bool, dtype=None):
    """Numbers as an array. Python's are weakly typed: they take a `dtype` that fits."""
    x = _array_or_numbers(function, name, x, lists)
    if not isinstance(x, (*_LISTS, *_NUMBERS)):
        return x
    leaves = list(_leaves(x))
    if any(isinstance(leaf, (jax.Array, *_NUMPY)) for leaf in leaves):
        return _stacked(function, name, x, jnp.asarray)
    return _from_numbers(function, name, x, leaves, dtype)


def indices(function: str, name: str, x, *, lists: bool, narrow: bool = True):
    """Integers as an array; what int32 cannot hold (x64 off) stays out of bounds.

    narrow: False leaves NumPy's integers as wide as they are.
    """
    narrowed = _narrowed if narrow else np.asarray
    x = _array_or_numbers(function, name, x, lists)
    if isinstance(x, jax.Array):
        return x
    if isinstance(x, _NUMPY):
        return narrowed(x)
    leaves = list(_leaves(x))
    if not leaves:
        return _stacked(function, name, x, lambda x: np.asarray(x, np.int32))
    if all(isinstance(n, int) and not isinstance(n, bool) for n in leaves):
        low, high = -(2**63), 2**63 - 1  # NumPy would make floats of larger ones
        if max(leaves) > high or min(leaves) < low:
            x = _mapped(x, lambda n: min(max(n, low), high))
        return narrowed(_stacked(function, name, x, lambda x: np.asarray(x, np.int64)))
    if any(isinstance(leaf, (jax.Array, *_NUMPY)) for leaf in leaves):
        x = _mapped(x, lambda leaf: indices(function, name, leaf, lists=lists))
        return _stacked(function, name, x, jnp.asarray)
    rule = f"`{name}` must have an integer dtype"
    fail(TypeError, function, rule, **{name: np.asarray(leaves)})


def size(function: str, name: str, n, ids_name: str, ids, *, lists: bool):
    """A number of segments; where it is None the highest of the ids + 1."""
    if type(n) is int and n >= 0:  # most calls
        return n
    if n is not None:
        return _validate.size(function, name, n)
    if isinstance(ids, jax.core.Tracer):
        rule = f"`{name}` must be given where `{ids_name}` is traced (jit, vmap ...)"
        fail(ValueError, function, rule, **{ids_name: ids})
    found = indices(function, ids_name, ids, lists=lists)
    if not jnp.issubdtype(found.dtype, jnp.integer):
        rule = f"`{ids_name}` must have an integer dtype"
        fail(TypeError, function, rule, **{ids_name: ids})
    return max(int(np.asarray(found).max()), -1) + 1 if found.size else 0


def _array_or_numbers(function: str, name: str, x, lists: bool) -> Any:
    """A jax.Array, a NumPy array, a Python number, or a list or tuple of such."""
    if isinstance(x, jax.Array):
        seen.add(type(x))
        return x
    if hasattr(x, "__jax_array__") and not isinstance(x, type):
        x = x.__jax_array__()
    if isinstance(x, np.ma.MaskedArray):
        fail(TypeError, function, f"`{name}` must not be a masked array: fill it")
    is_text = isinstance(x, str | bytes)
    if is_text or (isinstance(x, _NUMPY) and not _validate.is_number(x.dtype)):
        rule = f"`{name}` must be numeric or bool; JAX has no strings, objects or dates"
        got = type(x).__name__ if is_text else x.dtype
        raise TypeError(f"{function}: {rule}; got {got}.")
    if isinstance(x, _LISTS):
        if not lists:
            rule = (
                f"`{name}` must be an array, not a {type(x).__name__}: jnp.asarray it"
            )
            fail(TypeError, function, rule)
        for leaf in _leaves(x):
            _array_or_numbers(function, name, leaf, False)
    elif not isinstance(x, (jax.Array, *_NUMPY, *_NUMBERS)):
        fail(TypeError, function, f"`{name}` must be an array", **{name: x})
    return x


def _leaves(x) -> Iterator:
    if isinstance(x, _LISTS):
        for item in x:
            yield from _leaves(item)
    else:
        yield x


def _mapped(x, fun):
    return [_mapped(item, fun) for item in x] if isinstance(x, _LISTS) else fun(x)


def _stacked(function: str, name: str, x, stack):
    try:
        return stack(x)
    except (TypeError, ValueError, OverflowError) as error:
        rule = f"`{name}` must be a rectangular nested list of numbers"
        raise ValueError(f"{function}: {rule} ({error}).") from None


def _from_numbers(function: str, name: str, x, leaves, dtype):
    """Python numbers in `dtype` where it is of their kind or a higher one."""
    kinds = [_kind(leaf) for leaf in leaves]
    if 0 in kinds and any(kinds):
        fail(TypeError, function, f"`{name}` must not mix bools and numbers")
    kind = max(kinds, default=2)
    python_type = _NUMBERS[kind]
    if dtype is None or (leaves and not _takes(dtype, kind)):
        # If the operand's dtype does not fit, `_validate` says so.
        dtype = jax.dtypes.canonicalize_dtype(python_type)
    if python_type is int:
        if jnp.issubdtype(dtype, jnp.integer):
            info = jnp.iinfo(dtype)
            for n in leaves:
                if not info.min <= n <= info.max:
                    fail(
                        ValueError, function, f"`{name}` must fit {dtype}", **{name: n}
                    )
        python_type = object  # whatever their size
    with np.errstate(over="ignore"):  # 1e6 is inf in float16, as a conversion says
        to_array = lambda x: np.asarray(x, python_type).astype(dtype)
        return _stacked(function, name, x, to_array)


def _kind(number) -> int:
    return next(k for k, kind in enumerate(_NUMBERS) if isinstance(number, kind))


def _takes(dtype, kind: int) -> bool:
    """Whether Python numbers of a kind are weaker than a dtype, as JAX has it."""
    lowest = (np.bool_, jnp.number, jnp.inexact, jnp.complexfloating)[kind]
    return jnp.issubdtype(dtype, lowest)


def _narrowed(x):
    """As wide as JAX takes them, by clamping: signs and dtype kinds stay."""
    width = _scatter.int_dtype().itemsize
    if x.dtype.kind not in "iu" or x.dtype.itemsize <= width:
        return x
    narrow = np.dtype(f"{x.dtype.kind}{width}")
    info = np.iinfo(narrow)
    return np.clip(x, info.min, info.max).astype(narrow)
