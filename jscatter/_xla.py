"""The one form as `lax` calls: the implementation that every platform has.

The only file that calls `lax.scatter*` and `lax.gather`. Nothing here is
differentiated: the primitives' rules stand in `_primitive`, those of the other
reductions in `_reduce`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jscatter import _scatter
from jscatter._scatter import PROMISE


def scatter_add(operand, indices, updates, *, dnums, options):
    """Operand + updates at indices; bools add as OR."""
    # Half precision would stop adding at 256 ones. A promise of unique indices means
    # one sum per cell, which rounds once anyway: then the float32 copy is saved.
    accum_dtype = None if options.unique_indices else options.accum_dtype
    op = lax.scatter_max if operand.dtype == bool else lax.scatter_add
    return _scatter_with(op, operand, indices, updates, dnums, options, accum_dtype)


def scatter(op, operand, indices, updates, *, dnums, options):
    """set, multiply, min or max; bools multiply as AND."""
    if op == "set":
        return _set(operand, indices, updates, dnums, options)
    is_and = op == "multiply" and operand.dtype == bool
    call = {"multiply": lax.scatter_mul, "min": lax.scatter_min, "max": lax.scatter_max}
    return _scatter_with(
        lax.scatter_min if is_and else call[op],
        operand,
        indices,
        updates,
        dnums,
        options,
        options.accum_dtype if op == "multiply" else None,
    )


def _set(operand, indices, updates, dnums, options):
    operand, updates, dtype = _bits(operand), _bits(updates), operand.dtype
    out = _scatter_with(lax.scatter, operand, indices, updates, dnums, options)
    return _from_bits(out, dtype)


def _scatter_with(call, operand, indices, updates, dnums, options, accum_dtype=None):
    if _scatter.is_empty(operand, indices, updates):  # XLA rejects some of these forms
        return operand
    accum_dtype = accum_dtype or operand.dtype
    out = call(
        lax.convert_element_type(operand, accum_dtype),
        _int32(indices, operand),
        lax.convert_element_type(updates, accum_dtype),
        dnums,
        indices_are_sorted=options.indices_are_sorted,
        unique_indices=options.unique_indices,
        mode=options.mode,
    )
    return lax.convert_element_type(out, operand.dtype)


def gather(operand, indices, *, dnums, window, options):
    """The windows of operand at indices, 0 where out of bounds."""
    if _scatter.is_empty(operand, indices) or 0 in window:
        shape = _scatter.gather_shape(indices.shape, dnums, window)
        return jnp.zeros(shape, operand.dtype)
    sizes = dict(zip(_scatter.operand_window_dims(operand.ndim, dnums), window))
    bits = _bits(operand)
    out = lax.gather(
        bits,
        _int32(indices, operand),
        lax.GatherDimensionNumbers(
            offset_dims=dnums.update_window_dims,
            collapsed_slice_dims=dnums.inserted_window_dims,
            start_index_map=dnums.scatter_dims_to_operand_dims,
            operand_batching_dims=dnums.operand_batching_dims,
            start_indices_batching_dims=dnums.scatter_indices_batching_dims,
        ),
        tuple(sizes.get(d, 1) for d in range(operand.ndim)),
        indices_are_sorted=options.indices_are_sorted,
        unique_indices=options.unique_indices,
        mode=options.mode,
        fill_value=None if options.mode is PROMISE else bits.dtype.type(0),
    )
    return _from_bits(out, operand.dtype)


# These the compiler moves as they are.
_MOVED = {np.dtype(np.float16)}
if jax.__version_info__ >= (0, 12):
    _MOVED.add(np.dtype(jnp.bfloat16))


def _bits(x):
    """Narrow floats as integers, for what only moves values.

    XLA on CPU carries float8, and before JAX 0.12 bfloat16, through a wider type, where
    NaN loses its payload.
    """
    bits = 8 * x.dtype.itemsize
    if not _scatter.is_narrow(x.dtype) or x.dtype in _MOVED:
        return x
    if jnp.finfo(x.dtype).bits != bits:
        return x  # float4 fills half of its byte, and has no NaN
    return lax.bitcast_convert_type(x, np.dtype(f"uint{bits}"))


def _from_bits(x, dtype):
    return x if x.dtype == dtype else lax.bitcast_convert_type(x, dtype)


def _int32(indices, operand):
    """Row numbers as int32 wherever they fit; too large stays out of bounds.

    `lax.gather(mode="fill")` casts int64 to int32 *before* it tests the bounds, so that
    2**32 + 1 reads row 1 (JAX 0.10.2 and 0.12, x64 on), which `lax.scatter_add` drops.
    """
    if indices.dtype.itemsize < 8 or any(
        type(n) is int and n >= 2**31 for n in operand.shape
    ):
        return indices
    info = np.iinfo(np.int32)
    clipped = lax.clamp(
        indices.dtype.type(info.min), indices, indices.dtype.type(info.max)
    )
    return lax.convert_element_type(clipped, np.int32)


# -- arrays before they meet lax -------------------------------------------------------


def common_varying(function, *arrays):
    """Casts each array to the union of the manual mesh axes that any varies over.

    Without this, `shard_map` sees a replicated operand meet varying updates and forgets
    the psum that belongs to the operand's cotangent: gradients are wrong, silently.
    """
    avals = [jax.typeof(x) for x in arrays]
    refuse_reduced(function, avals)
    union = frozenset().union(*(a.manual_axis_type.varying for a in avals))
    if not union:
        return arrays

    def cast(x, aval):
        axes = tuple(
            a
            for a in aval.sharding.mesh.axis_names
            if a in union and a not in aval.manual_axis_type.varying
        )
        return lax.pcast(x, axes, to="varying") if axes else x

    return tuple(map(cast, arrays, avals))


def refuse_reduced(function, avals) -> None:
    """JAX's own gather has wrong gradients for some `reduced` and `unreduced` types."""
    for a in avals:
        spec, manual = a.sharding.spec, a.manual_axis_type
        if spec.reduced or spec.unreduced or manual.reduced or manual.unreduced:
            raise NotImplementedError(
                f"{function}: `reduced` and `unreduced` types are not taken; got {a}."
            )
