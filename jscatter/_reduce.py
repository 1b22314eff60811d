"""Reductions on the two primitives: what each op does with a canonical scatter.

add, subtract and mean are linear and made of the primitives, so their derivatives of
every order are JAX's own algebra. set, multiply, divide, min and max take their
undifferentiated forward straight from `_xla`; their derivative rules are not written
yet.
"""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding

from jscatter import _primitive, _scatter, _select, _xla
from jscatter._scatter import Options, Scatter


def scatter(op: str, place: Scatter, operand, updates, options: Options, scale=None):
    """`operand` with `updates` combined into it by `op`, in `place.operand_shape`.

    scale: multiplies the updates of an add (mint.index_add's `alpha`).
    """
    dtype = operand.dtype
    if scale is not None:
        if options.mode is _scatter.DROP:
            # A NaN in a dropped row would reach the scale's gradient.
            zero = jnp.zeros((), updates.dtype)
            updates = jnp.where(_scatter.in_bounds(place), updates, zero)
        if _scatter.is_narrow(dtype):  # scaled updates must not be rounded one by one
            operand, updates = (x.astype(np.float32) for x in (operand, updates))
        updates = updates * scale.astype(updates.dtype)
    if op == "subtract":
        op, updates = "add", -updates
    operand = _reshape(operand, place.operand_shape)
    if op == "add":
        options = _accumulating(options, operand.dtype)
        out = _primitive.scatter_add(
            operand, place.indices, updates, dnums=place.dnums, options=options
        )
    else:
        function = options.function
        arrays = _xla.common_varying(function, operand, place.indices, updates)
        options = _accumulating(options, dtype)
        out = _forward((op, place.dnums, options), *arrays)
    return out.astype(dtype)


def gather(place: Scatter, operand, options: Options):
    """The slices of `operand` that `place` names; 0 where out of bounds."""
    return _primitive.gather(
        _reshape(operand, place.operand_shape),
        place.indices,
        dnums=place.dnums,
        window=place.window,
        options=_accumulating(options, operand.dtype),  # its gradient is a sum
    )


def mean(place: Scatter, updates, options: Options):
    """The mean of the updates of each row; 0 where there are none."""
    dtype = updates.dtype
    if not jnp.issubdtype(dtype, jnp.inexact):
        dtype = jnp.result_type(float)
    # In half precision sum and quotient stay in float32, so that the mean rounds once.
    wide = np.float32 if _scatter.is_narrow(dtype) else dtype
    total = scatter(
        "add", place, fill("add", place, updates, wide), updates.astype(wide), options
    )
    batch = [d for d in range(updates.ndim) if d not in place.dnums.update_window_dims]
    ids = place._replace(
        dnums=place.dnums._replace(update_window_dims=()),
        operand_shape=place.operand_shape[:1],
        updates_shape=tuple(updates.shape[d] for d in batch),
    )
    ones = jnp.ones_like(place.indices[..., 0], dtype=np.int32)
    uncounted = dataclasses.replace(options, implementation=None)
    count = scatter("add", ids, fill("add", ids, ones, np.int32), ones, uncounted)
    count = lax.expand_dims(jnp.maximum(count, 1), tuple(range(1, total.ndim)))
    return (total / count.astype(wide)).astype(dtype)


def fill(op: str, place: Scatter, updates, dtype=None):
    """An operand full of the op's identity, sharded where the updates' windows are.

    On a mesh with Explicit axes a replicated operand would not be accepted.
    """
    dtype = dtype or updates.dtype
    sharding = jax.typeof(updates).sharding
    value = identity(op, dtype)
    if AxisType.Explicit not in sharding.mesh.axis_types:
        return jnp.full(place.operand_shape, value, dtype)
    spec: list = [None] * len(place.operand_shape)
    window = _scatter.operand_window_dims(len(spec), place.dnums)
    for d, u in zip(window, place.dnums.update_window_dims):
        spec[d] = sharding.spec[u]
    sharding = NamedSharding(sharding.mesh, jax.P(*spec))
    return jnp.full(place.operand_shape, value, dtype, device=sharding)


def identity(op: str, dtype):
    """What an empty cell holds: 0, 1, or the dtype's lowest (max) or highest (min)."""
    dtype = np.dtype(dtype)
    if op not in ("min", "max"):
        return np.ones((), dtype)[()] if op == "multiply" else np.zeros((), dtype)[()]
    sign = -1 if op == "max" else 1
    if dtype.kind == "b":
        return np.bool_(op == "min")
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
    else:
        infinity = np.asarray(sign * np.inf).astype(dtype)
        if np.isinf(infinity.astype(np.float32)):
            return infinity[()]
        info = jnp.finfo(dtype)  # float8_e4m3fn, float4 ... have no infinity
    return np.asarray(info.min if op == "max" else info.max).astype(dtype)[()]


def _accumulating(options: Options, dtype) -> Options:
    """Sums and products of narrow floats are kept in float32 and rounded once."""
    if not _scatter.is_narrow(dtype):
        return options
    return dataclasses.replace(options, accum_dtype=np.dtype(np.float32))


def _reshape(x, shape):
    return x if x.shape == shape else x.reshape(shape)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _forward(static, operand, indices, updates):
    op, dnums, options = static
    choice = _select.while_tracing(op, options)
    with jax.named_scope(_select.scope(options.function, op, dnums, choice)):
        if op != "divide":
            return _xla.scatter(
                op, operand, indices, updates, dnums=dnums, options=options
            )
        wide = options.accum_dtype or operand.dtype  # the quotient rounds once
        product = _xla.scatter(
            "multiply",
            jnp.ones_like(operand, dtype=wide),
            indices,
            updates.astype(wide),
            dnums=dnums,
            options=options,
        )
        return (operand.astype(wide) / product).astype(operand.dtype)


@_forward.defjvp
def _(static, primals, tangents):
    op, _, options = static
    raise NotImplementedError(
        f"{options.function}: the derivative of {op} is not written yet; only add,"
        " subtract, mean and gathers can be differentiated."
    )
