"""The one form that every spelling becomes, and what a call may promise about it.

`lax.ScatterDimensionNumbers` says where the windows of `updates` stand in `operand`. A
gather is described by the same numbers read the other way: its result has the shape
that the updates of the mirrored scatter would have.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# What an index outside the operand does. These two are all that the primitives know:
# clipping and wrapping are arithmetic on the indices (`_canonical.resolve`).
DROP = lax.GatherScatterMode.FILL_OR_DROP
PROMISE = lax.GatherScatterMode.PROMISE_IN_BOUNDS

# float8_e8m0fnu has no zero: nothing can be added into it, nothing dropped.
WITHOUT_ZERO = ("float8_e8m0fnu",)


class Scatter(NamedTuple):
    """Where windows go. `operand_shape` may carry an added 1 (see `_canonical.nd`)."""

    indices: jax.Array
    dnums: lax.ScatterDimensionNumbers
    operand_shape: tuple[int, ...]
    updates_shape: tuple[int, ...]

    @property
    def window(self) -> tuple[int, ...]:
        """The windows' sizes, in the order of `update_window_dims`."""
        return tuple(self.updates_shape[d] for d in self.dnums.update_window_dims)


@dataclasses.dataclass(frozen=True)
class Options:
    """How a scatter or gather is to be computed. Travels through every transformation.

    Attributes:
      mode: `DROP` or `PROMISE`.
      indices_are_sorted: a promise of the caller.
      unique_indices: a promise of the caller.
      accum_dtype: the dtype that sums are kept in; None for the operand's own.
      implementation: None, "xla" or "pallas"; binds the scatter (of a gather, the
        scatter that is its transpose).
      deterministic: False, True or "exact".
      function: the public function that asked; errors and scope names show it.
    """

    mode: lax.GatherScatterMode = DROP
    indices_are_sorted: bool = False
    unique_indices: bool = False
    accum_dtype: np.dtype | None = None
    implementation: str | None = None
    deterministic: bool | str = False
    function: str = "jscatter"

    def __repr__(self) -> str:  # jaxprs print this: only what was asked for
        shown = (
            f"{f.name}={getattr(self, f.name)}"
            for f in dataclasses.fields(self)
            if getattr(self, f.name) != f.default
        )
        return f"({', '.join(shown)})"


def with_sizes(place: Scatter):
    """The indices and the sizes of the axes that they name, of one dtype and rank."""
    indices = place.indices
    largest = np.iinfo(indices.dtype).max
    if any(type(n) is int and n > largest for n in place.operand_shape):
        indices = lax.convert_element_type(indices, int_dtype())
    dims = place.dnums.scatter_dims_to_operand_dims
    named = [jnp.asarray(place.operand_shape[d], indices.dtype) for d in dims]
    return indices, lax.expand_dims(jnp.stack(named), tuple(range(indices.ndim - 1)))


def in_bounds(place: Scatter):
    """Which updates are applied: True or False, of a shape that broadcasts to them."""
    indices, sizes = with_sizes(place)
    inside = ((indices >= 0) & (indices < sizes)).all(-1)
    return lax.expand_dims(inside, place.dnums.update_window_dims)


def operand_window_dims(ndim: int, dnums: lax.ScatterDimensionNumbers) -> list[int]:
    """The operand's dimensions that windows extend over."""
    other = (*dnums.inserted_window_dims, *dnums.operand_batching_dims)
    return [d for d in range(ndim) if d not in other]


def gather_shape(indices_shape, dnums, window) -> tuple[int, ...]:
    """The shape of a gather's result: the indices' batch with the windows put in."""
    batch, sizes = iter(indices_shape[:-1]), iter(window)
    ndim = len(indices_shape) - 1 + len(window)
    return tuple(
        next(sizes) if d in dnums.update_window_dims else next(batch)
        for d in range(ndim)
    )


def is_empty(*arrays) -> bool:
    """Whether a size is 0 for certain; a symbolic size never is."""
    return any(type(n) is int and n == 0 for x in arrays for n in x.shape)


def is_narrow(dtype) -> bool:
    """Whether sums of this dtype are kept in float32 and rounded once per call."""
    return jax.dtypes.issubdtype(dtype, np.floating) and np.dtype(dtype).itemsize < 4


def int_dtype() -> np.dtype:
    """int64 where x64 is enabled, else int32."""
    return jax.dtypes.canonicalize_dtype(np.int64)


def kind(dnums: lax.ScatterDimensionNumbers) -> str:
    """The form in one word, for scope names and reasons."""
    if dnums.operand_batching_dims:
        return "batched"
    depth = len(dnums.scatter_dims_to_operand_dims)
    return "rows" if depth == 1 else f"{depth}-d points"
