"""Lowering for and exporting to platforms that are not here; kernels; donation."""

import jax
import jax.numpy as jnp
import numpy as np
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


def test_what_was_forced_is_not_forced_again_by_its_transpose():
    """The gather in a forced scatter's gradient is free, and so is what that gives."""
    u, x = (jax.ShapeDtypeStruct(v.shape, v.dtype) for v in (U, X))
    once = lambda ct: jax.linear_transpose(lambda u: add(X, u, **PALLAS), u)(ct)[0]
    twice = lambda u: jax.linear_transpose(once, x)(u)[0]
    for platform in ("cpu", "cuda", "tpu"):
        assert "scatter" in text(twice, platform, U)
        with pytest.raises(NotImplementedError):
            text(lambda u: add(X, u, **PALLAS), platform, U)


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


def test_export_with_a_kernel_for_one_platform(kernel):
    platform, _ = kernel
    forced = jax.jit(lambda x, u: add(x, u, **PALLAS))
    one = jax.export.export(forced, platforms=(platform,))(X, U)
    assert MARKED in one.mlir_module()
    with pytest.raises(NotImplementedError):
        jax.export.export(forced, platforms=PLATFORMS)(X, U)


def shape(*sizes, dtype=np.float32):
    return jax.ShapeDtypeStruct(sizes, dtype)


n, r, w = jax.export.symbolic_shape("n, r, w")
ROWS = (shape(r, w), shape(n, dtype=np.int32), shape(n, w))
WRAPPED = dict(mode="clip", wrap_negative_indices=True)


def clipped(x, i, u):
    i = jnp.where(i < 0, i + x.shape[0], i).clip(0, x.shape[0] - 1)
    return x + jax.nn.one_hot(i, x.shape[0]).T @ u


SYMBOLIC = {  # name: (function, by matrix products, types)
    "clip and wrap": (
        lambda x, i, u: js.mint.index_add(x, 0, i, u, **WRAPPED),
        clipped,
        *ROWS,
    ),
    "clip and wrap points": (
        lambda x, i, u: js.tf.tensor_scatter_nd_add(x, i[:, None], u, **WRAPPED),
        clipped,
        *ROWS,
    ),
    "mapped features": (
        lambda x, i, u: jax.vmap(lambda x, u: js.mint.index_add(x, 0, i, u), 1, 1)(
            x, u
        ),
        lambda x, i, u: x + jax.nn.one_hot(i, x.shape[0]).T @ u,
        *ROWS,
    ),
    "mapped ids": (
        lambda x, i, u: jax.vmap(lambda i, u: js.ops.segment_sum(u, i, 5))(i, u) + x,
        lambda x, i, u: x + jnp.einsum("rnk,rn->rk", jax.nn.one_hot(i, 5), u),
        shape(r, 5),
        shape(r, n, dtype=np.int32),
        shape(r, n),
    ),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_shapes(name):
    """Where sizes take part in arithmetic; called with two that it has not seen."""
    f, plain, *types = SYMBOLIC[name]
    loss = lambda f: lambda x, i, u: (f(x, i, u) ** 2).sum()
    gradients = lambda f: jax.value_and_grad(loss(f), (0, 2))
    exported = jax.export.export(jax.jit(gradients(f)), platforms=PLATFORMS)(*types)
    back = jax.export.deserialize(exported.serialize())
    rng = np.random.default_rng(0)
    for sizes in ({"n": 16, "r": 6, "w": 4}, {"n": 3, "r": 2, "w": 7}):
        x, i, u = ([sizes.get(str(d), d) for d in t.shape] for t in types)
        i = rng.integers(-2, 8, i).astype(np.int32)
        x, u = (rng.standard_normal(s).astype(np.float32) for s in (x, u))
        same(back.call(x, i, u), gradients(plain)(x, i, u))


# -- memory ----------------------------------------------------------------------------


AT = np.arange(7)
WIDE = np.repeat(AT[:, None], 64, 1)
UNIQUE = dict(unique_indices=True)
IN_PLACE = {
    "add": lambda x, u: js.mint.index_add(x, 0, AT, u),
    "add points": lambda x, u: js.tf.tensor_scatter_nd_add(x, AT[:, None], u),
    "add along": lambda x, u: js.mint.scatter_add(x, 0, WIDE, u),
    "subtract": lambda x, u: js.tf.tensor_scatter_nd_sub(x, AT[:, None], u),
    "multiply": lambda x, u: js.tf.tensor_scatter_nd_mul(x, AT[:, None], u),
    "unique": lambda x, u: js.mint.index_add(x, 0, AT, u, **UNIQUE),
    "min": lambda x, u: js.tf.tensor_scatter_nd_min(x, AT[:, None], u),
    "max": lambda x, u: js.tf.tensor_scatter_nd_max(x, AT[:, None], u),
    "set": lambda x, u: js.tf.tensor_scatter_nd_update(x, AT[:, None], u),
    "set along": lambda x, u: js.mint.scatter(x, 0, WIDE, u),
}
SUMS = {"add", "add points", "add along", "subtract", "multiply"}  # or products
HALF = [np.float16]
if jax.__version_info__ >= (0, 12):  # until then XLA on CPU widens bfloat16 itself
    HALF.append(jnp.bfloat16)


def memory_of_a_donating_call(f, dtype):
    """How many times the operand's size is aliased, and how many needed besides."""
    f = jax.jit(f, donate_argnums=0)
    x, u = jnp.zeros((5000, 64), dtype), jnp.ones((7, 64), dtype)
    memory = f.lower(x, u).compile().memory_analysis()
    where = x.unsafe_buffer_pointer()
    assert f(x, u).unsafe_buffer_pointer() == where
    return memory.alias_size_in_bytes / x.nbytes, memory.temp_size_in_bytes / x.nbytes


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_donated_operand_is_not_copied(name):
    """But sums and products of half precision, which need a float32 copy."""
    for dtype in (np.float32, np.int8, *(HALF if name not in SUMS else ())):
        alias, more = memory_of_a_donating_call(IN_PLACE[name], dtype)
        assert alias >= 1 and more < 0.02, dtype


def test_what_a_donated_operand_costs_besides():
    """The exceptions, as docs/design.md has them."""
    divide = lambda x, u: js.tf.tensor_scatter_nd_div(x, AT[:, None], u)
    for f, dtype, times in (
        (divide, np.float32, 1),  # the product
        (IN_PLACE["add"], jnp.bfloat16, 2),  # the float32 copy
        (IN_PLACE["multiply"], np.float16, 2),
        (IN_PLACE["set"], jnp.float8_e5m2, 1),  # the bits
    ):
        alias, more = memory_of_a_donating_call(f, dtype)
        assert alias >= 1 and round(more, 1) == times
