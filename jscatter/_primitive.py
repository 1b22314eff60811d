"""Two linear primitives, `scatter_add` and `gather`, each the other's transpose.

    scatter_add(operand, indices, updates) -> operand's shape and dtype
    gather(operand, indices)               -> updates' shape, operand's dtype

`lax.ScatterDimensionNumbers` describes both; `gather` reads them mirrored and gets the
one thing that they do not say, the window's sizes, as `window`. An index outside the
operand, negative ones included, adds nothing in a scatter and reads 0 in a gather.
That makes the pair exactly adjoint, so every rule below is one or two lines of algebra.

JAX gives no promise of compatibility for `jax.extend` and `jax.interpreters`, so this
is one of the two files that may import them (the other is the edge form's).
"""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import AxisType

from jscatter import _scatter, _select, _xla

scatter_add_p = Primitive("jscatter_scatter_add")
gather_p = Primitive("jscatter_gather")


def scatter_add(operand, indices, updates, *, dnums, options):
    """Operand + updates at indices; see `lax.scatter_add` for the dimension numbers."""
    arrays = _xla.common_varying(options.function, operand, indices, updates)
    return scatter_add_p.bind(*arrays, dnums=dnums, options=options)


def gather(operand, indices, *, dnums, window, options):
    """The windows of operand at indices; `window` sizes as in `update_window_dims`."""
    arrays = _xla.common_varying(options.function, operand, indices)
    return gather_p.bind(*arrays, dnums=dnums, window=tuple(window), options=options)


# -- abstract evaluation ---------------------------------------------------------------


def _abstract(out_shape, rule, *avals, **params):
    """Output type: the operand's, except where a mesh axis is Explicit.

    There the sharding must be inferred, and lax already knows how: trace its version
    and read the type off. No rule of ours can disagree with the lowering or go stale.
    """
    mesh = jax.sharding.get_abstract_mesh()
    meshes = [mesh, *(a.sharding.mesh for a in avals)]
    if any(AxisType.Explicit in m.axis_types for m in meshes):
        return jax.make_jaxpr(partial(rule, **params))(*avals).out_avals[0]
    operand = avals[0]
    return operand.update(
        shape=out_shape,
        weak_type=False,
        sharding=jax.sharding.NamedSharding(operand.sharding.mesh, jax.P()),
    )


@scatter_add_p.def_abstract_eval
def _(operand, indices, updates, **params):
    args = (operand, indices, updates)
    return _abstract(operand.shape, _xla.scatter_add, *args, **params)


@gather_p.def_abstract_eval
def _(operand, indices, **params):
    shape = _scatter.gather_shape(indices.shape, params["dnums"], params["window"])
    return _abstract(shape, _xla.gather, operand, indices, **params)


# -- derivatives -----------------------------------------------------------------------


def _is_zero(tangent) -> bool:
    return type(tangent) is ad.Zero or tangent.dtype == jax.dtypes.float0


def _zero_tangent(x):
    return ad.Zero(jax.typeof(x).to_tangent_aval())  # float0 where x is not a float


def _zero_cotangent(x):
    return ad.Zero(x.aval.to_ct_aval()) if ad.is_undefined_primal(x) else None


def _typed_as(x, aval):
    """`x` with the sharding of `aval`, which differs on meshes with Explicit axes only.

    There operand, updates and result may be sharded differently, but the type of a
    tangent or cotangent is that of its primal.
    """
    sharding = aval.sharding
    if AxisType.Explicit not in sharding.mesh.axis_types:
        return x
    if jax.typeof(x).sharding.spec == sharding.spec:
        return x
    return jax.sharding.reshard(x, sharding)


def _scatter_add_jvp(primals, tangents, **params):
    _, indices, _ = primals
    t_operand, _, t_updates = tangents
    out = scatter_add(*primals, **params)
    if _is_zero(t_updates):  # nothing is added to the tangent
        if _is_zero(t_operand):
            return out, _zero_tangent(out)
        return out, _typed_as(t_operand, jax.typeof(out))
    if _is_zero(t_operand):
        t_operand = ad.instantiate_zeros(_zero_tangent(out))
    return out, scatter_add(t_operand, indices, t_updates, **params)


def _scatter_add_transpose(ct, operand, indices, updates, *, dnums, options):
    if type(ct) is ad.Zero:
        return _zero_cotangent(operand), None, _zero_cotangent(updates)
    ct_operand = ct_updates = None
    if ad.is_undefined_primal(operand):
        ct_operand = _typed_as(ct, operand.aval)
    if ad.is_undefined_primal(updates):
        window = tuple(updates.aval.shape[d] for d in dnums.update_window_dims)
        # Forced was the scatter; the gather's own transpose is not.
        free = dataclasses.replace(options, implementation=None)
        ct_updates = gather(ct, indices, dnums=dnums, window=window, options=free)
        ct_updates = _typed_as(ct_updates, updates.aval)
    return ct_operand, None, ct_updates


def _gather_jvp(primals, tangents, **params):
    out = gather(*primals, **params)
    if _is_zero(tangents[0]):
        return out, _zero_tangent(out)
    return out, gather(tangents[0], primals[1], **params)


def _gather_transpose(ct, operand, indices, *, dnums, window, options):
    if type(ct) is ad.Zero:
        return _zero_cotangent(operand), None
    zeros = ad.instantiate_zeros(_zero_cotangent(operand))  # its sharding, varying axes
    return scatter_add(zeros, indices, ct, dnums=dnums, options=options), None


# -- batching --------------------------------------------------------------------------
#
# Indices unbatched: the batch is one more window dimension. Its place among the window
# dimensions must be the same in operand and updates; wherever it stands it is left
# there, so that `vmap(segment_sum, 1, 1)` is one (segments, features) scatter and no
# transpose.
# Indices batched: a pair of batching dimensions, which needs the batch in
# all three arrays (a gather from one shared operand needs it in the indices only).


def _insert(dims, at: int) -> tuple[int, ...]:
    """The same dimensions after a new one was put in at position `at`."""
    return tuple(d + (d >= at) for d in dims)


def _slot(places, j: int, ndim: int, front: bool) -> int:
    """Where a new dimension may stand to be the j-th of those at `places`."""
    if front:
        return places[j - 1] + 1 if j else 0
    return places[j] if j < len(places) else ndim


def _with_window(dnums, operand_at: int, updates_at: int):
    """`dnums` with one more window dimension, at these positions."""
    window = sorted((*_insert(dnums.update_window_dims, updates_at), updates_at))
    return dnums._replace(
        update_window_dims=tuple(window),
        inserted_window_dims=_insert(dnums.inserted_window_dims, operand_at),
        scatter_dims_to_operand_dims=_insert(
            dnums.scatter_dims_to_operand_dims, operand_at
        ),
        operand_batching_dims=_insert(dnums.operand_batching_dims, operand_at),
    )


def _with_batch(dnums, operand_at: int | None, indices_at: int, updates_at: int):
    """`dnums` with one more pair of batching dimensions, at these positions.

    operand_at None: only the indices get a dimension (a gather from one operand).
    """
    dnums = dnums._replace(
        update_window_dims=_insert(dnums.update_window_dims, updates_at),
        scatter_indices_batching_dims=_insert(
            dnums.scatter_indices_batching_dims, indices_at
        ),
    )
    if operand_at is None:
        return dnums
    pairs = zip(
        (*_insert(dnums.operand_batching_dims, operand_at), operand_at),
        (*dnums.scatter_indices_batching_dims, indices_at),
    )
    operand_dims, indices_dims = zip(*sorted(pairs))  # lax wants the operand's in order
    return dnums._replace(
        inserted_window_dims=_insert(dnums.inserted_window_dims, operand_at),
        scatter_dims_to_operand_dims=_insert(
            dnums.scatter_dims_to_operand_dims, operand_at
        ),
        operand_batching_dims=operand_dims,
        scatter_indices_batching_dims=indices_dims,
    )


def _batch_indices(indices, at: int, to: int | None = None):
    """Moves the indices' batch off the index vector's place, or where it is asked."""
    if to is None:
        to = at if at < indices.ndim - 1 else 0
    return jnp.moveaxis(indices, at, to), to


def _still_sorted(options, leading: bool):
    """XLA reads the promise per batch, but only where the batch leads the indices."""
    sorted_ = options.indices_are_sorted and leading
    return dataclasses.replace(options, indices_are_sorted=sorted_)


def _scatter_add_batch(axis_data, args, dims, *, dnums, options):
    operand, indices, updates = args
    o, i, u = dims
    if o is i is u is None:  # inside a batched jit: not every equation is mapped
        return scatter_add(*args, dnums=dnums, options=options), None

    def spread(x, at):
        mesh_axis = axis_data.explicit_mesh_axis
        return batching.broadcast(x, axis_data.size, at, mesh_axis)

    window = dnums.update_window_dims
    if i is None:
        ndim = operand.ndim - (o is not None)
        places = _scatter.operand_window_dims(ndim, dnums)
        if o is None:
            j = sum(d < u for d in window)
            o = _slot(places, j, ndim, front=u == 0)
            operand = spread(operand, o)
        else:
            j = sum(d < o for d in places)
            if u is None:
                u = _slot(window, j, updates.ndim, front=o == 0)
                updates = spread(updates, u)
            elif (
                sum(d < u for d in window) != j
            ):  # the other side of a window dimension
                to = _slot(window, j, updates.ndim - 1, front=o == 0)
                updates, u = jnp.moveaxis(updates, u, to), to
        dnums = _with_window(dnums, o, u)
    else:
        if u is None:
            indices, i = _batch_indices(indices, i)
            rows = [d for d in range(updates.ndim) if d not in window]
            u = _slot(rows, i, updates.ndim, front=i == 0)
            updates = spread(updates, u)
        else:
            indices, i = _batch_indices(indices, i, u - sum(d < u for d in window))
        if o is None:
            o, operand = 0, spread(operand, 0)
        dnums = _with_batch(dnums, o, i, u)
        options = _still_sorted(options, i == 0)
    return scatter_add(operand, indices, updates, dnums=dnums, options=options), o


def _gather_batch(axis_data, args, dims, *, dnums, window, options):
    operand, indices = args
    o, i = dims
    if o is i is None:
        out = gather(operand, indices, dnums=dnums, window=window, options=options)
        return out, None
    out_ndim = indices.ndim - (i is not None) - 1 + len(window)
    if i is None:
        places = _scatter.operand_window_dims(operand.ndim - 1, dnums)
        j = sum(d < o for d in places)
        at = _slot(dnums.update_window_dims, j, out_ndim, front=o == 0)
        window = (*window[:j], operand.shape[o], *window[j:])
        dnums = _with_window(dnums, o, at)
    else:
        indices, i = _batch_indices(indices, i)
        rows = [d for d in range(out_ndim) if d not in dnums.update_window_dims]
        at = _slot(rows, i, out_ndim, front=i == 0)
        dnums = _with_batch(dnums, o, i, at)
        options = _still_sorted(options, i == 0 and o is not None)
        if o is None:  # two batches may read the same row
            options = dataclasses.replace(options, unique_indices=False)
    return gather(operand, indices, dnums=dnums, window=window, options=options), at


# -- lowering --------------------------------------------------------------------------

# The varying type that values have outside any shard_map.
_NOT_VARYING = jax.typeof(np.float32(0)).manual_axis_type


def _is_local(ctx) -> bool:
    """Whether no compiler pass will spread these arrays over devices."""
    context = ctx.module_context.axis_context
    if (manual := getattr(context, "manual_axes", None)) is not None:  # in a shard_map
        return manual == frozenset(context.mesh.axis_names)
    return getattr(context, "num_devices", None) == 1


def _device_kind(ctx, platform: str) -> str | None:
    """The kind of the device at hand, None when lowering for a device that is not."""
    backend = ctx.module_context.get_backend(optional=True)
    if backend is None or platform not in (backend.platform, _vendor(backend)):
        return None
    return backend.local_devices()[0].device_kind


def _vendor(backend) -> str:
    """A "gpu" backend is lowered for as "cuda" or "rocm"."""
    version = backend.platform_version.lower()
    return "rocm" if "rocm" in version else "cuda" if "cuda" in version else ""


def _lower(name, xla, platform, ctx, *args, **params):
    """The one lowering rule: asks `_select`, runs what it names, says so in a scope."""
    platforms = ctx.platforms or ctx.module_context.platforms
    choice = _select.select(
        name,
        platform or "/".join(platforms),
        ctx.avals_in,
        params,
        device_kind=_device_kind(ctx, platforms[0]),
        local=_is_local(ctx),
    )
    run = xla if choice.kernel is None else choice.kernel
    if choice.kernel is not None:
        # Pallas takes no varying Refs (GPU) and wants an out_shape that matches (TPU).
        # The types were checked when the primitive was bound: take them off.
        plain = [a.update(manual_axis_type=_NOT_VARYING) for a in ctx.avals_in]
        ctx = ctx.replace(avals_in=plain)

    scope = _select.scope(params["options"].function, name, params["dnums"], choice)

    def scoped(*arrays):
        with jax.named_scope(scope):
            return run(*arrays, **params)

    return mlir.lower_fun(scoped, multiple_results=False)(ctx, *args)


# -- registration ----------------------------------------------------------------------


def _register(primitive, name, xla, jvp, transpose, batch, *static):
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose
    # The "fancy" table: a mesh with Explicit axes must know the batch's mesh axis.
    batching.fancy_primitive_batchers[primitive] = batch

    compiled = jax.jit(primitive.bind, static_argnames=static)

    @primitive.def_impl
    def _(*arrays, **params):
        with jax.disable_jit(False):  # under disable_jit the jit would call us again
            return compiled(*arrays, **params)

    mlir.register_lowering(primitive, partial(_lower, name, xla, None))
    for platform in ("cuda", "tpu"):
        rule = partial(_lower, name, xla, platform)
        mlir.register_lowering(primitive, rule, platform=platform)


_register(
    scatter_add_p,
    "scatter_add",
    _xla.scatter_add,
    _scatter_add_jvp,
    _scatter_add_transpose,
    _scatter_add_batch,
    "dnums",
    "options",
)
_register(
    gather_p,
    "gather",
    _xla.gather,
    _gather_jvp,
    _gather_transpose,
    _gather_batch,
    "dnums",
    "window",
    "options",
)
