"""From a spelling to the canonical scatter: one jitted function for all of them.

Outside jit stands only what tracing cannot see: the kinds of the arguments, NumPy
integers wider than JAX's, the normalisation of static values. Everything else is
checked once per signature, inside; a repeated call costs a dictionary look-up and JAX's
own dispatch.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypedDict

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding

from jscatter import _arguments, _canonical, _checks, _reduce, _validate, _xla
from jscatter._scatter import DROP, PROMISE
from jscatter._scatter import Options as PrimitiveOptions

Mode = Literal["drop", "fill", "clip", "error", "promise_in_bounds"]


class SegmentOptions(TypedDict, total=False):
    """The options that the `jax.ops` spelling has not among its named arguments.

    wrap_negative_indices: True: -1 is the last row, as in NumPy. False (default): a
      negative index is outside.
    implementation: None (default) works everywhere; "xla"; "pallas": the kernel, or
      NotImplementedError with the reason. Of a gather it binds the gradient's scatter.
    deterministic: False. (True and "exact" are not written yet.)
    """

    wrap_negative_indices: bool
    implementation: Literal["xla", "pallas"] | None
    deterministic: bool | Literal["exact"]


class Options(SegmentOptions, total=False):
    """The keyword-only options that every function takes.

    mode: what an index outside its axis does. "drop" (default; None and "fill" mean the
      same): a scatter does not apply the update, a gather reads 0. "clip": the index is
      moved into range. "promise_in_bounds": undefined if there is one. "error":
      IndexError, which also checks the promises below; where the indices are traced, a
      `checkify.debug_check`, which `checkify.checkify` reports and everything else,
      `jax.export` too, leaves out (JAX cannot serialise an export that has left one
      out), and which a mesh with Explicit axes has not yet. Also the members of
      `jax.lax.GatherScatterMode`.
    wrap_negative_indices: True: -1 is the last row, as in NumPy. False (default): a
      negative index is outside.
    indices_are_sorted: a promise about the indices as given; undefined when broken.
    unique_indices: a promise about the indices as given; undefined when broken.
    implementation: None (default) works everywhere; "xla"; "pallas": the kernel, or
      NotImplementedError with the reason. Of a gather it binds the gradient's scatter.
    deterministic: False. (True and "exact" are not written yet.)
    out_sharding: None. (Other values are not written yet.)
    """

    mode: Mode | lax.GatherScatterMode | None
    indices_are_sorted: bool
    unique_indices: bool
    out_sharding: Any


_NAMES = tuple(Options.__annotations__)


class Settings(NamedTuple):
    """`Options`, normalised."""

    mode: str = "drop"
    wrap: bool = False
    indices_are_sorted: bool = False
    unique_indices: bool = False
    implementation: str | None = None
    out_sharding: Any = None


class Call(NamedTuple):
    """The static part of a call: with the arrays' types, what jit caches on.

    Attributes:
      function: the public name, "mint.scatter_add".
      names: the arguments' names for errors: operand (or "shape"), indices, updates.
      form: "nd", "along", "rows" or "segments".
      op: "add", "set" ..., or "gather".
      dim: the dimension of along and rows, the `batch_dims` of nd.
      shape: None, or for a spelling without an operand the result's shape (nd) or
        number of rows (segments).
      axis: what the spelling calls its `dim`.
      same_shape: whether updates must have the shape of the indices (along).
      scalar_updates: whether rank-0 updates stand for a constant everywhere.
      ids_rank: the rank that ids must have (rows); None: any.
      wide_indices: whether indices must be int32 or int64.
      lists: whether nested lists are taken for arrays.
      scalar: what the spelling calls the number that it takes beside the arrays.
      params: what else the op is told, as (name, value) pairs.
      options: the normalised options.
    """

    function: str
    names: tuple[str, str, str]
    form: str
    op: str
    dim: int = 0
    shape: tuple[Any, ...] | None = None
    axis: str = "dim"
    same_shape: bool = False
    scalar_updates: bool = False
    ids_rank: int | None = 1
    wide_indices: bool = False
    lists: bool = True
    scalar: str = ""
    params: tuple[tuple[str, Any], ...] = ()
    options: Settings = Settings()


def run(call: Call, operand, indices, updates=None, *, scalar=None, given: Options):
    """Runs a call. `given`: the options as the user wrote them.

    operand: ignored where the call has a `shape`. updates: ignored for gathers.
    """
    if given:
        call = call._replace(options=_settings(call.function, given))
    seen, has_operand, as_given = _arguments.seen, call.shape is None, indices
    if has_operand and type(operand) not in seen:
        operand = _value(call, call.names[0], operand)
    if type(indices) not in seen:
        name, lists = call.names[1], call.lists
        indices = _arguments.indices(call.function, name, indices, lists=lists)
    if call.op != "gather" and type(updates) not in seen:
        updates = _value(call, call.names[2], updates, operand if has_operand else None)
    if scalar is not None:
        scalar = _value(call, call.scalar, scalar, operand if has_operand else updates)
    if call.options.mode == "error" and not isinstance(indices, jax.core.Tracer):
        # Without the promises, which may be broken. It says what else is wrong.
        plain = call.options._replace(
            mode="drop", indices_are_sorted=False, unique_indices=False
        )
        plain = call._replace(options=plain)
        out = compiled(plain, operand, indices, updates, scalar)
        shape = operand.shape if has_operand else call.shape
        place = _checks.place(call, shape, indices.ndim)
        name, lists = call.names[1], call.lists
        as_given = _arguments.indices(
            call.function, name, as_given, lists=lists, narrow=False
        )
        _checks.concrete(place, as_given)
        return out
    return compiled(call, operand, indices, updates, scalar)


def _value(call: Call, name: str, x, like=None):
    dtype = getattr(like, "dtype", None)
    return _arguments.value(call.function, name, x, lists=call.lists, dtype=dtype)


# -- options ---------------------------------------------------------------------------

_MODES = {
    None: "drop",
    "drop": "drop",
    "fill": "drop",
    "clip": "clip",
    "error": "error",
    "promise_in_bounds": "promise_in_bounds",
    lax.GatherScatterMode.FILL_OR_DROP: "drop",
    lax.GatherScatterMode.CLIP: "clip",
    lax.GatherScatterMode.PROMISE_IN_BOUNDS: "promise_in_bounds",
}


def _settings(function: str, given: Options) -> Settings:
    unknown = [name for name in given if name not in _NAMES]
    if unknown:
        rule = f"the options are {', '.join(_NAMES)}"
        raise TypeError(f"{function}: {rule}; got {', '.join(unknown)}.")
    mode = given.get("mode")
    if not isinstance(mode, str | lax.GatherScatterMode | None) or mode not in _MODES:
        rule = f"`mode` must be one of {', '.join(repr(m) for m in list(_MODES)[:6])}"
        error = (
            ValueError if isinstance(mode, str | lax.GatherScatterMode) else TypeError
        )
        _validate.fail(error, function, rule, mode=str(mode))
    flag = lambda name: _validate.flag(function, name, given.get(name, False))
    implementation = _validate.one_of(
        function, "implementation", given.get("implementation"), (None, "xla", "pallas")
    )
    deterministic = given.get("deterministic", False)
    if isinstance(deterministic, str):
        _validate.one_of(function, "deterministic", deterministic, ("exact",))
        _validate.not_yet(function, "`deterministic`", deterministic)
    if flag("deterministic"):
        _validate.not_yet(function, "`deterministic`", deterministic)
    if given.get("out_sharding") is not None:
        _validate.not_yet(function, "`out_sharding`", given.get("out_sharding"))
    return Settings(
        _MODES[mode],
        flag("wrap_negative_indices"),
        flag("indices_are_sorted"),
        flag("unique_indices"),
        implementation,
    )


# -- inside jit ------------------------------------------------------------------------


def jscatter(call: Call, operand, indices, updates, scalar):
    """Validates, makes the form, reduces. Profiles show the name: jit(jscatter)."""
    arrays = (operand, indices, updates, scalar)
    out_sharding = call.options.out_sharding
    if out_sharding is None:
        return _traced(call, *arrays)
    mesh = jax.sharding.get_abstract_mesh()
    if isinstance(out_sharding, NamedSharding):
        mesh = out_sharding.mesh.abstract_mesh
    sharding = NamedSharding(mesh, getattr(out_sharding, "spec", out_sharding))
    axes = zip(mesh.axis_names, mesh.axis_types)
    explicit = tuple(
        n for n, t in axes if t == AxisType.Explicit
    )  # hashed by auto_axes
    # auto_axes would hide these types from the primitives.
    avals = [jax.typeof(x) for x in arrays if x is not None]
    _xla.refuse_reduced(call.function, avals)
    if not explicit:
        return lax.with_sharding_constraint(_traced(call, *arrays), sharding)
    run = lambda *arrays: _traced(call, *arrays)
    # pyrefly: ignore[bad-argument-count]
    return jax.sharding.auto_axes(run, axes=explicit, out_sharding=sharding)(*arrays)


# Early inlining: inside a user's jit the jaxpr holds the primitive, not a nested jit.
# Where jax.Inline exists, `inline=True` has come to mean "while lowering".
_EARLY: Any = jax.Inline.JAX_EARLY if hasattr(jax, "Inline") else True
compiled = jax.jit(jscatter, static_argnums=0, inline=_EARLY)


def _traced(call: Call, operand, indices, updates, scalar):
    indices = jnp.asarray(indices)
    operand, updates = (x if x is None else jnp.asarray(x) for x in (operand, updates))
    call, operand, updates = _agree(call, operand, indices, updates)
    indices = _canonical.widen(indices)
    if call.options.mode == "error":
        place = _checks.place(call, operand.shape, indices.ndim)
        _checks.traced(place, indices)
    if call.form == "nd":
        place = _canonical.nd(operand.shape, indices, call.dim)
    elif call.form == "along":
        place = _canonical.along(operand.shape, indices, call.dim)
    else:
        place = _canonical.rows(operand.shape, indices, call.dim)
    o, shape = call.options, operand.shape
    place = _canonical.resolve(place, wrap=o.wrap, clip=o.mode == "clip")
    cells = _reduce.Cells(place, _primitive_options(call, place))
    params = dict(call.params)
    if call.op == "gather":
        return _reduce.gather(cells, operand)
    if scalar is not None:
        name, like = call.scalar, updates if call.shape is not None else operand
        scalar = _validate.scalar(call.function, name, jnp.asarray(scalar), like)
        params[name] = scalar
    if isinstance(operand, jax.ShapeDtypeStruct):
        out = _reduce.segments(call.op, cells, updates, **params)
        return out.reshape(shape) if call.form == "nd" else out
    out = _reduce.scatter(call.op, cells, operand, updates, **params)
    return out if out.shape == shape else out.reshape(shape)


def _agree(call: Call, operand, indices, updates):
    """Checks that the arguments fit each other; then `dim` >= 0 and dtypes are equal.

    Where no operand is given a ShapeDtypeStruct stands for it.
    """
    function, names = call.function, call.names
    target, index, update = names
    if call.form == "segments":
        assert call.shape is not None
        shape = (*call.shape, *updates.shape[indices.ndim :])
        if call.scalar_updates and updates.ndim == 0:
            updates = jnp.broadcast_to(updates, indices.shape)
        elif indices.ndim == 1 and (updates.ndim == 0 or updates.shape[0] == 1):
            # as in jax.ops: one row for all ids
            updates = jnp.broadcast_to(updates, (*indices.shape, *updates.shape[1:]))
        _validate.segments(function, names, call.shape[0], indices, updates)
        operand = jax.ShapeDtypeStruct(shape, updates.dtype)
    elif call.shape is not None:
        operand = jax.ShapeDtypeStruct(call.shape, updates.dtype)
    if call.form == "nd":
        _validate.nd(function, names, operand, indices, updates, call.dim)
    elif call.form == "along":
        constant = call.scalar_updates and updates.ndim == 0
        src = None if constant else updates
        where = (call.axis, call.dim)
        dim = _validate.along(function, names, operand, indices, src, *where)
        if call.same_shape:
            _validate.same_shape(function, names, indices, updates)
        call = call._replace(dim=dim)
        if constant:
            updates = jnp.broadcast_to(updates, indices.shape)
        elif updates is not None and updates.shape != indices.shape:
            updates = updates[tuple(slice(n) for n in indices.shape)]  # leading corner
    elif call.form == "rows":
        where = (call.axis, call.dim, call.ids_rank)
        src = None if call.op == "fill" else updates
        dim = _validate.rows(function, names, operand, indices, src, *where)
        if call.op == "fill" and updates.ndim:
            rule = f"`{update}` must be a scalar"
            _validate.fail(ValueError, function, rule, **{update: updates})
        call = call._replace(dim=dim)
    _validate.index_dtype(function, index, indices, wide=call.wide_indices)
    if updates is None:
        _validate.value_dtype(function, target, operand)
        return call, operand, updates
    _validate.value_dtype(function, update, updates)
    if not isinstance(operand, jax.ShapeDtypeStruct):
        _validate.value_dtype(function, target, operand)
        updates = _validate.same_dtype(function, names, operand, updates)
    _validate.op_dtype(function, call.op, update, updates)
    return call, operand, updates


def _primitive_options(call: Call, place) -> PrimitiveOptions:
    o = call.options
    # The promises are about the indices as given. Clipping makes duplicates, wrapping
    # also breaks the order; clipped index vectors may lose it, and so do along's when
    # their batch does not lead.
    batch = place.dnums.scatter_indices_batching_dims
    clip = o.mode == "clip"
    still_sorted = not o.wrap and batch == tuple(range(len(batch)))
    if len(place.dnums.scatter_dims_to_operand_dims) > 1:
        still_sorted = still_sorted and not clip and call.form != "along"
    return PrimitiveOptions(
        mode=PROMISE if o.mode == "promise_in_bounds" else DROP,
        indices_are_sorted=o.indices_are_sorted and still_sorted,
        unique_indices=o.unique_indices and not (clip or o.wrap),
        implementation=o.implementation,
        function=call.function,
    )
