"""Lowering for and exporting to platforms that are not here; kernels; donation."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jscatter as js
from jscatter import _select, _xla

RNG = np.random.default_rng(1)
X = RNG.standard_normal((6, 4)).astype(np.float32)
U = RNG.standard_normal((16, 4)).astype(np.float32)
I = RNG.integers(-1, 8, 16).astype(np.int32)
M = np.stack([I == row for row in range(6)]).astype(np.float32)  # X + M @ U

PALLAS = {"implementation": "pallas"}


def add(x, u, **options):
    return js.mint.index_add(x, 0, I, u, **options)


def take(t, **options):
    return js.ops.take(t, I, **options)


def text(f, platform, *args, debug_info=False):
    lowered = jax.jit(f).trace(*args).lower(lowering_platforms=(platform,))
    return lowered.as_text(debug_info=debug_info)


def same(got, want):
    check = lambda g, w: np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5)
    jax.tree.map(check, got, want)


# -- the scopes that say what runs -----------------------------------------------------


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm", "tpu"])
def test_every_lowering_says_form_choice_and_reason(platform):
    """With the same text under transformations, on a platform that is not there."""
    none = f"no kernel is written for {platform}"
    scope = f"jscatter[mint.index_add: scatter_add rows xla, {none}]"
    assert scope in text(add, platform, X, U, debug_info=True)
    gradient = jax.grad(lambda t: (take(t) ** 2).sum())
    lowered = text(gradient, platform, X, debug_info=True)
    assert f"jscatter[ops.take: scatter_add rows xla, {none}]" in lowered
    assert "jscatter[ops.take: gather rows xla, gathers are the compiler's" in lowered
    mapped = text(jax.vmap(add), platform, X[None], U[None], debug_info=True)
    assert scope in mapped
    asked = text(
        lambda x, u: add(x, u, implementation="xla"), platform, X, U, debug_info=True
    )
    assert "scatter_add rows xla, asked for]" in asked
    along = lambda x, u: js.mint.scatter_add(x, 1, jnp.zeros((6, 3), int), u)
    assert "scatter_add batched xla" in text(along, platform, X, X, debug_info=True)
    points = lambda x, u: js.tf.tensor_scatter_nd_max(x, jnp.zeros((3, 2), int), u)
    got = text(points, platform, X, X[0, :3], debug_info=True)
    assert "max 2-d points xla, no kernel is written for max]" in got


# -- a stand-in kernel -----------------------------------------------------------------

MARKED = "0x7F800000"  # infinity as StableHLO prints it: nothing else here holds one


@pytest.fixture(params=["cuda", "tpu"])
def kernel(request, monkeypatch):
    """XLA's scatter plus a mark, as one platform's kernel; refuses all but float32.

    Not a Pallas kernel: what is tested is the way to it.
    """
    traced = []

    def run(operand, indices, updates, **params):
        traced.append(jax.typeof(operand))
        return _xla.scatter_add(operand, indices, updates, **params) + np.float32(
            np.inf
        )

    def supports(operand, indices, updates, *, dnums, options):
        return None if operand.dtype == np.float32 else f"dtype {operand.dtype}"

    row = _select.Kernel("stand-in", run, supports)
    table = {("scatter_add", request.param): (row,)}
    monkeypatch.setattr(_select, "KERNELS", table)
    jax.clear_caches()  # lowerings are cached: the new row would not be seen
    yield request.param, traced
    jax.clear_caches()


def test_every_way_reaches_the_kernel(kernel):
    platform, traced = kernel
    forced = lambda x, u: add(x, u, **PALLAS)
    square = lambda t: (take(t, **PALLAS) ** 2).sum()
    cube = lambda t: (take(t, **PALLAS) ** 3).sum()
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    sharded = jax.shard_map(
        lambda x, i, u: lax.psum(js.mint.index_add(x, 0, i, u, **PALLAS), "x"),
        mesh=mesh,
        in_specs=(P(), P("x"), P("x")),
        out_specs=P(),
    )
    take_sharded = jax.shard_map(
        lambda t, i: js.ops.take(t, i, **PALLAS),
        mesh=mesh,
        in_specs=(P(), P("x")),
        out_specs=P("x"),
    )
    for f, *args in (
        (forced, X, U),
        (lambda x, u: jax.jvp(forced, (x, u), (x, u))[1], X, U),
        (jax.vmap(forced, (None, 0)), X, U[None]),
        (jax.vmap(forced, -1, -1), X[..., None], U[..., None]),
        (jax.grad(square), X),
        (jax.vmap(jax.grad(square)), X[None]),
        (lambda t: jax.jvp(jax.grad(cube), (t,), (t,))[1], X),
        (lambda u: js.ops.segment_sum(u, I, 6, **PALLAS), U),
        (lambda u: js.ops.segment_mean(u, I, 6, **PALLAS), U),
        (lambda u: js.tf.scatter_nd(I[:, None], u, (6, 4), **PALLAS), U),
        (lambda x, u: js.tf.tensor_scatter_nd_sub(x, I[:, None], u, **PALLAS), X, U),
        (lambda x, u: js.bnns.scatter_nd("sum", u, I[:, None], x, **PALLAS), X, U),
        (lambda x: js.mint.scatter_add(x, 1, I[None, :4], x, **PALLAS), X[:1]),
        (jax.grad(lambda t: js.tf.gather_nd(t, I[:, None], **PALLAS).sum()), X),
        (jax.grad(lambda t: js.mint.index_select(t, 0, I, **PALLAS).sum()), X),
        (jax.grad(lambda t: js.mint.gather(t, 1, I[None, :4], **PALLAS).sum()), X[:1]),
        (lambda x, u: lax.scan(lambda c, _: (forced(c, u), None), x, None, 2)[0], X, U),
        (lambda x, u: lax.cond(x.sum() > 0, forced, lambda x, u: x, x, u), X, U),
        (jax.grad(lambda t: jax.checkpoint(square)(t)), X),
        (sharded, X, I, U),
        (jax.grad(lambda t: (take_sharded(t, I) ** 2).sum()), X),
    ):
        assert MARKED in text(f, platform, *args)
        other = "tpu" if platform == "cuda" else "cuda"
        with pytest.raises(NotImplementedError, match=f"on {other}"):
            text(f, other, *args)
    # The kernel sees no varying types: Pallas takes none.
    assert not any(aval.manual_axis_type.varying for aval in traced)
    named = text(forced, platform, X, U, debug_info=True)
    assert "jscatter[mint.index_add: scatter_add rows stand-in, asked for]" in named


def test_the_kernel_is_not_taken_where_it_must_not_be(kernel):
    platform, traced = kernel
    # Not measured on any device: the default stays XLA's, and says why.
    default = text(add, platform, X, U, debug_info=True)
    assert MARKED not in default
    assert f"xla, stand-in was not measured on {platform}]" in default
    assert not traced
    same(add(X, U), X + M @ U)  # running on CPU never traces it
    assert not traced
    half = (X.astype(jnp.bfloat16), U.astype(jnp.bfloat16))
    with pytest.raises(NotImplementedError, match=f"on {platform}: dtype bfloat16"):
        text(lambda x, u: add(x, u, **PALLAS), platform, *half)
    # Spread over devices by the compiler, an opaque kernel would gather its arguments.
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    rows = jax.sharding.NamedSharding(mesh, P("x"))
    spread = jax.ShapeDtypeStruct(U.shape, U.dtype, sharding=rows)
    segment = lambda u: js.ops.segment_sum(u, I, 6, **PALLAS)
    with pytest.raises(NotImplementedError, match="spread over devices"):
        text(segment, platform, spread)
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    partly = jax.shard_map(
        lambda u: lax.psum(js.ops.segment_sum(u, I[:4], 6, **PALLAS), "x"),
        mesh=mesh,
        in_specs=P("x"),
        out_specs=P(),
        axis_names={"x"},
    )
    with pytest.raises(NotImplementedError, match="spread over devices"):
        text(partly, platform, U)


def test_the_host_is_not_taken_for_the_target(kernel):
    """A CPU host lowers for another platform: the device kind is unknown there."""
    platform, _ = kernel
    (row,) = _select.KERNELS["scatter_add", platform]
    host = jax.devices()[0].device_kind
    row = row._replace(measured=frozenset({host}))
    _select.KERNELS["scatter_add", platform] = (row,)
    assert MARKED not in text(add, platform, X, U)
    # ... and where host and target are one, the kind is read and the row is taken
    _select.KERNELS["scatter_add", "cpu"] = (row,)
    jax.clear_caches()
    named = jax.jit(lambda x, u: add(x, u)).lower(X, U).as_text(debug_info=True)
    assert f"stand-in, measured on {host}]" in named


def test_a_measured_kernel_is_the_default_on_its_device(kernel):
    """The rule itself: no such device is here to lower for."""
    platform, _ = kernel
    (row,) = _select.KERNELS["scatter_add", platform]
    row = row._replace(measured=frozenset({"that chip"}))
    _select.KERNELS["scatter_add", platform] = (row,)
    from jscatter._scatter import Options

    avals = [jax.typeof(a) for a in (X, I[:, None], U)]
    params = {"dnums": None, "options": Options()}
    choose = lambda kind, local=True: _select.select(
        "scatter_add", platform, avals, params, device_kind=kind, local=local
    )
    assert choose("that chip")[:2] == ("stand-in", "measured on that chip")
    assert choose("another").name == "xla"
    assert choose(None).name == "xla"
    assert choose("that chip", local=False).name == "xla"
    params = {"dnums": None, "options": Options(implementation="xla")}
    assert choose("that chip").reason == "asked for"


# -- export ----------------------------------------------------------------------------

PLATFORMS = ("cpu", "tpu", "cuda")


def test_export_for_three_platforms_and_back():
    loss = lambda x, u: ((add(x, u) + js.ops.segment_mean(u, I, 6)) ** 2).sum()
    f = jax.jit(jax.value_and_grad(loss, (0, 1)))
    exported = jax.export.export(f, platforms=PLATFORMS)(X, U)
    back = jax.export.deserialize(exported.serialize(vjp_order=1))
    count = np.maximum(M.sum(1, keepdims=True), 1)
    by_matrix = lambda x, u: ((x + M @ u + (M @ u) / count) ** 2).sum()
    same(back.call(X, U), jax.value_and_grad(by_matrix, (0, 1))(X, U))
    same(jax.grad(lambda x: back.call(x, U)[0])(X), jax.grad(by_matrix)(X, U))


def test_export_with_a_kernel_for_one_platform(kernel):
    platform, _ = kernel
    forced = jax.jit(lambda x, u: add(x, u, **PALLAS))
    one = jax.export.export(forced, platforms=(platform,))(X, U)
    assert MARKED in one.mlir_module()
    with pytest.raises(NotImplementedError):
        jax.export.export(forced, platforms=PLATFORMS)(X, U)


def shape(*sizes, dtype=np.float32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def test_export_of_the_other_reductions():
    """Forward, for three platforms and back, with sizes that were symbols."""
    n, r = jax.export.symbolic_shape("n, r")
    specs = (shape(r, 4), shape(n, 1, dtype=np.int32), shape(n, 4))
    args = (X, I[:, None], U)
    low = np.full_like(X, -np.inf)
    for f, op, start, u in (
        (js.tf.tensor_scatter_nd_mul, "multiply", X, U),
        (js.tf.tensor_scatter_nd_div, "divide", X, U),
        (js.tf.tensor_scatter_nd_min, "min", X, U),
        (js.tf.tensor_scatter_nd_max, "max", X, U),
        (lambda x, i, u: js.tf.tensor_scatter_nd_update(x, i, 0 * u), "set", X, 0 * U),
        (lambda x, i, u: js.ops.segment_max(u, i[:, 0], x.shape[0]), "max", low, U),
    ):
        exported = jax.export.export(jax.jit(f), platforms=PLATFORMS)(*specs)
        got = jax.export.deserialize(exported.serialize()).call(*args)
        want = oracle.scatter("rows", op, start, I, u)
        np.testing.assert_allclose(got, want, rtol=1e-6)


n, r, w = jax.export.symbolic_shape("n, r, w")
IDS = shape(n, dtype=np.int32)
ROWS = (shape(r, w), IDS, shape(n, w))
SYMBOLIC = {
    "rows": (lambda x, i, u: js.mint.index_add(x, 0, i, u), *ROWS),
    "clip and wrap": (
        lambda x, i, u: js.mint.index_add(
            x, 0, i, u, mode="clip", wrap_negative_indices=True
        ),
        *ROWS,
    ),
    "nd": (lambda x, i, u: js.tf.tensor_scatter_nd_add(x, i[:, None], u), *ROWS),
    "nd into nothing": (
        lambda x, i, u: x + js.tf.scatter_nd(i[:, None], u, x.shape),
        *ROWS,
    ),
    "bnns": (lambda x, i, u: js.bnns.scatter_nd("sum", u, i[:, None], x), *ROWS),
    "along": (
        lambda x, i, u: js.mint.scatter_add(x, 0, i, u),
        shape(r, w),
        shape(n, w, dtype=np.int32),
        shape(n, w),
    ),
    "segments": (lambda x, i, u: x + js.ops.segment_sum(u, i, x.shape[0]), *ROWS),
    "mean": (lambda x, i, u: x + js.ops.segment_mean(u, i, x.shape[0]), *ROWS),
    "gathers": (
        lambda x, i, u: u * js.ops.take(x, i) + js.tf.gather_nd(x, i[:, None]),
        *ROWS,
    ),
    "mapped features": (
        lambda x, i, u: jax.vmap(lambda x, u: js.mint.index_add(x, 0, i, u), 1, 1)(
            x, u
        ),
        *ROWS,
    ),
    "mapped ids": (
        lambda x, i, u: jax.vmap(lambda i, u: js.ops.segment_sum(u, i, 5))(i, u) + x,
        shape(r, 5),
        shape(r, n, dtype=np.int32),
        shape(r, n),
    ),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_shapes(name):
    """One exported program with gradients, called with sizes it has not seen."""
    f, *specs = SYMBOLIC[name]

    def with_gradients(x, i, u):
        loss = lambda x, u: (f(x, i, u) ** 2).sum()
        return f(x, i, u), jax.grad(loss, (0, 1))(x, u)

    exported = jax.export.export(jax.jit(with_gradients), platforms=PLATFORMS)(*specs)
    sizes = {"n": 16, "r": 6, "w": 4}
    concrete = lambda s: tuple(sizes.get(str(d), d) for d in s.shape)
    rng = np.random.default_rng(0)
    args = [
        rng.integers(-1, 8, concrete(s)).astype(np.int32)
        if s.dtype == np.int32
        else rng.standard_normal(concrete(s)).astype(np.float32)
        for s in specs
    ]
    back = jax.export.deserialize(exported.serialize())
    same(back.call(*args), with_gradients(*args))


# -- memory ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.int8, jnp.bfloat16])
def test_a_donated_operand_is_not_copied(dtype):
    """Half precision only with unique indices: else its sums are kept in float32."""
    promise = dict(unique_indices=True) if dtype == jnp.bfloat16 else {}
    i = jnp.arange(7)
    f = jax.jit(lambda x, u: js.mint.index_add(x, 0, i, u, **promise), donate_argnums=0)
    x, u = jnp.zeros((5000, 64), dtype), jnp.ones((7, 64), dtype)
    memory = f.lower(x, u).compile().memory_analysis()
    assert memory.alias_size_in_bytes >= x.nbytes
    if dtype != jnp.bfloat16:
        assert memory.temp_size_in_bytes < x.nbytes
    where = x.unsafe_buffer_pointer()
    assert f(x, u).unsafe_buffer_pointer() == where
