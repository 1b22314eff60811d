"""Which cell of the result each update goes to, and the linear pieces on it.

Two traps that every file above avoids by these pieces: dropped rows are selected away
before any arithmetic (0 * inf is NaN, and a NaN there would come back in a transpose),
and counts are int32 (float32 counts stop at 2**24, bfloat16 ones at 256).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding

from jscatter import _primitive, _scatter, _select, _xla
from jscatter._scatter import Options, Scatter


class Cells(NamedTuple):
    """The cells that a call combines updates into."""

    place: Scatter
    options: Options

    @property
    def static(self):
        """What a `custom_jvp` takes beside arrays; `cells_of` is the way back."""
        return self.place.dnums, self.options

    def unforced(self) -> Cells:
        """Without the `implementation` that was asked for the call's own sum."""
        options = dataclasses.replace(self.options, implementation=None)
        return self._replace(options=options)

    def add(self, operand, updates):
        """Operand plus updates; linear in both."""
        p = self.place
        options = accumulating(self.options, operand.dtype)
        return _primitive.scatter_add(
            operand, p.indices, updates, dnums=p.dnums, options=options
        )

    def take(self, operand):
        """For each update what its cell holds in operand; 0 where it is dropped."""
        p = self.place
        options = accumulating(self.options, operand.dtype)  # its gradient is a sum
        return _primitive.gather(
            operand, p.indices, dnums=p.dnums, window=p.window, options=options
        )

    def inside(self):
        """Which updates are applied, broadcastable to them."""
        if self.options.mode is _scatter.PROMISE:
            return np.True_
        return _scatter.in_bounds(self.place)

    def kept(self, updates, fill=0):
        """Updates with another value where they are dropped."""
        return jnp.where(self.inside(), updates, jnp.asarray(fill, updates.dtype))

    def points(self) -> Cells:
        """The same cells without their windows: one number per index vector."""
        dnums = self.place.dnums
        cells = sorted((*dnums.inserted_window_dims, *dnums.operand_batching_dims))
        at = lambda dims: tuple(cells.index(d) for d in dims)
        points = Scatter(
            self.place.indices,
            dnums._replace(
                update_window_dims=(),
                inserted_window_dims=at(dnums.inserted_window_dims),
                scatter_dims_to_operand_dims=at(dnums.scatter_dims_to_operand_dims),
                operand_batching_dims=at(dnums.operand_batching_dims),
            ),
            tuple(self.place.operand_shape[d] for d in cells),
            self.place.indices.shape[:-1],
        )
        return self.unforced()._replace(place=points)

    def over_windows(self, x):
        """What `points` gave, broadcastable to the operand."""
        ndim, dnums = len(self.place.operand_shape), self.place.dnums
        return lax.expand_dims(x, _scatter.operand_window_dims(ndim, dnums))

    def counts(self):
        """How many updates each cell receives: int32, broadcastable to the operand."""
        return self.over_windows(self._points_and_counts()[1])

    def counts_by_update(self):
        """The same for each update's cell, broadcastable to the updates."""
        points, counts = self._points_and_counts()
        return lax.expand_dims(points.take(counts), self.place.dnums.update_window_dims)

    def _points_and_counts(self):
        points = self.points()
        ones = jnp.ones_like(self.place.indices[..., 0], dtype=np.int32)
        return points, points.add(points.full(0, ones), ones)

    def cleared(self, operand, value):
        """The operand with `value` in each cell that receives something."""
        return jnp.where(self.counts() > 0, value, operand)

    def full(self, value, updates):
        """An operand of one value, of the dtype of updates and sharded where they are.

        On a mesh with Explicit axes a replicated operand would not be accepted.
        """
        shape, dnums = self.place.operand_shape, self.place.dnums
        sharding = jax.typeof(updates).sharding
        if AxisType.Explicit not in sharding.mesh.axis_types:
            return jnp.full(shape, value, updates.dtype)
        spec: list = [None] * len(shape)
        window = _scatter.operand_window_dims(len(shape), dnums)
        for d, u in zip(window, dnums.update_window_dims):
            spec[d] = sharding.spec[u]
        batch = [d for d in range(updates.ndim) if d not in dnums.update_window_dims]
        pairs = zip(dnums.operand_batching_dims, dnums.scatter_indices_batching_dims)
        for d, i in pairs:
            spec[d] = sharding.spec[batch[i]]
        sharding = NamedSharding(sharding.mesh, jax.P(*spec))
        return jnp.full(shape, value, updates.dtype, device=sharding)


def cells_of(static, operand, indices, updates) -> Cells:
    dnums, options = static
    return Cells(Scatter(indices, dnums, operand.shape, updates.shape), options)


def by_lax(op: str, static, operand, indices, updates):
    """set, multiply, min or max as one lax scatter, which is not differentiated."""
    dnums, options = static
    options = accumulating(options, operand.dtype)
    choice = _select.while_tracing(op, options)
    arrays = _xla.common_varying(options.function, operand, indices, updates)
    with jax.named_scope(_select.scope(options.function, op, dnums, choice)):
        return _xla.scatter(op, *arrays, dnums=dnums, options=options)


def accumulating(options: Options, dtype) -> Options:
    """Sums and products of narrow floats are kept in float32 and rounded once."""
    if not _scatter.is_narrow(dtype):
        return options
    return dataclasses.replace(options, accum_dtype=np.dtype(np.float32))


def wide(x):
    """Narrow floats as float32, the rest as it is."""
    return x.astype(np.float32) if _scatter.is_narrow(x.dtype) else x


def divisor(count, x):
    """A count as what x is divided by: at least 1."""
    return jnp.maximum(count, 1).astype(x.dtype)


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
