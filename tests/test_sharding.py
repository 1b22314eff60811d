"""What each placement of the arrays does; HLO on 8 CPU devices; out_sharding.

All functions in all forms meet the usual placements in test_placements.

Gradients are compared with the same scatter on one device, written as a plain matmul or
with plain `lax`, never with our own output.
"""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jscatter as js
from jscatter import _call

RNG = np.random.default_rng(1)
X = RNG.standard_normal((6, 4)).astype(np.float32)
U = RNG.standard_normal((16, 4)).astype(np.float32)
I = RNG.integers(-1, 8, 16).astype(np.int32)
M = np.stack([I == row for row in range(6)]).astype(np.float32)  # X + M @ U
COLLECTIVES = (
    "all-gather all-reduce all-to-all collective-permute reduce-scatter".split()
)


def mesh(*shape, explicit=False):
    kind = AxisType.Explicit if explicit else AxisType.Auto
    names = tuple("xy"[: len(shape)])
    return jax.make_mesh(shape, names, axis_types=(kind,) * len(shape))


def same(got, want):
    check = lambda g, w: np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5)
    jax.tree.map(check, got, want)


# -- shard_map -------------------------------------------------------------------------

ADDS = {  # the same sum in every spelling: (x, i, u) -> x + M u
    "tf": lambda x, i, u: js.tf.tensor_scatter_nd_add(x, i[:, None], u),
    "tf sub": lambda x, i, u: js.tf.tensor_scatter_nd_sub(x, i[:, None], -u),
    "tf.scatter_nd": lambda x, i, u: x + js.tf.scatter_nd(i[:, None], u, x.shape),
    "mint.scatter_add": lambda x, i, u: js.mint.scatter_add(
        x, 0, jnp.broadcast_to(i[:, None], u.shape), u
    ),
    "mint.scatter": lambda x, i, u: js.mint.scatter(
        x, 0, jnp.broadcast_to(i[:, None], u.shape), u, reduce="add"
    ),
    "mint.index_add": lambda x, i, u: js.mint.index_add(x, 0, i, u),
    "bnns": lambda x, i, u: js.bnns.scatter_nd("sum", u, i[:, None], x),
    "ops": lambda x, i, u: x + js.ops.segment_sum(u, i, x.shape[0]),
}
SPECS = {
    "replicated operand, sharded updates": (P(), P("x"), P("x")),
    "replicated operand and ids": (P(), P(), P(None, "x")),
    "sharded operand, replicated updates": (P("x"), P(), P()),
    "all replicated": (P(), P(), P()),
}


def ids_matrix(i, n):
    return jnp.stack([i == row for row in range(n)]).astype(np.float32)


PLACEMENTS = [
    (name, specs, check_vma)
    for name in ("mint.index_add", "mint.scatter_add", "tf")
    for specs in SPECS
    for check_vma in ((True, False) if name == "mint.index_add" else (True,))
]


@pytest.mark.parametrize("name, placement, check_vma", PLACEMENTS)
def test_shard_map_gradients(name, placement, check_vma):
    """A replicated operand with sharded updates once gave silently wrong gradients."""
    specs = SPECS[placement]
    m = mesh(2)
    x = np.concatenate([X, 2 * X]) if specs[0] == P("x") else X
    u = np.concatenate([U, 2 * U], 1) if specs[2] == P(None, "x") else U
    replicated = placement == "all replicated"  # psum of such a value is refused
    total = (lambda v: v) if replicated else (lambda v: lax.psum(jnp.sin(v), "x"))

    def sharded(x, u):
        body = lambda x, i, u: total(ADDS[name](x, i, u))
        f = jax.shard_map(
            body, mesh=m, in_specs=specs, out_specs=P(), check_vma=check_vma
        )
        return (f(x, I, u) ** 2).sum()

    def one_device(x, u):
        cut = lambda a, s: jnp.split(a, 2, list(s).index("x")) if "x" in s else [a] * 2
        parts = zip(cut(x, specs[0]), cut(jnp.asarray(I), specs[1]), cut(u, specs[2]))
        each = [x + ids_matrix(i, x.shape[0]) @ u for x, i, u in parts]
        out = each[0] if replicated else sum(jnp.sin(v) for v in each)
        return (out**2).sum()

    same(jax.grad(sharded, (0, 1))(x, u), jax.grad(one_device, (0, 1))(x, u))
    if check_vma:
        hvp = lambda f: jax.jvp(jax.grad(f, 1), (x, u), (x, u))
        same(hvp(sharded), hvp(one_device))


def test_shard_map_gathers_segments_scan_and_vmap():
    m = mesh(8)

    def body(t, i):
        g = js.ops.take(t, i)
        g = g + js.tf.gather_nd(t, i[:, None]) + js.mint.index_select(t, 0, i)
        g = g + js.mint.gather(t, 0, jnp.broadcast_to(i[:, None], (2, 4)))
        s = js.ops.segment_sum(g, i, 6) + js.ops.segment_mean(g, i, 6)
        step = lambda c, _: (js.mint.index_add(c, 0, i, g), None)
        c, _ = lax.scan(step, jnp.zeros_like(s), None, 2)
        v = jax.vmap(lambda u: js.ops.segment_sum(u, i, 6), 1, 1)(g)
        return lax.psum(jnp.sin(s) + jnp.cos(c) + v, "x")

    def sharded(t):
        f = jax.shard_map(body, mesh=m, in_specs=(P(), P("x")), out_specs=P())
        return (f(t, I) ** 2).sum()

    def one_device(t):
        total = 0.0
        for i in np.split(I, 8):
            k = ids_matrix(i, 6)
            g = 4 * k.T @ t
            s, mean = k @ g, (k @ g) / jnp.maximum(k.sum(1, keepdims=True), 1)
            total = total + jnp.sin(s + mean) + jnp.cos(2 * s) + s
        return (total**2).sum()

    same(jax.value_and_grad(sharded)(X), jax.value_and_grad(one_device)(X))
    same(jax.jit(jax.grad(sharded))(X), jax.grad(one_device)(X))


def wide(i, u):
    return jnp.broadcast_to(i[:, None], u.shape)


OTHERS = {  # name: (op, run(x, i, u))
    "tf mul": ("multiply", lambda x, i, u: TF.tensor_scatter_nd_mul(x, i[:, None], u)),
    "tf div": ("divide", lambda x, i, u: TF.tensor_scatter_nd_div(x, i[:, None], u)),
    "tf min": ("min", lambda x, i, u: TF.tensor_scatter_nd_min(x, i[:, None], u)),
    "tf max": ("max", lambda x, i, u: TF.tensor_scatter_nd_max(x, i[:, None], u)),
    "tf update": ("set", lambda x, i, u: TF.tensor_scatter_nd_update(x, i[:, None], u)),
    "mint": ("set", lambda x, i, u: js.mint.scatter(x, 0, wide(i, u), u)),
    "mint multiply": (
        "multiply",
        lambda x, i, u: js.mint.scatter(x, 0, wide(i, u), u, reduce="multiply"),
    ),
    "bnns product": (
        "multiply",
        lambda x, i, u: js.bnns.scatter_nd("product", u, i[:, None], x),
    ),
    "bnns none": ("set", lambda x, i, u: js.bnns.scatter_nd("none", u, i[:, None], x)),
    "ops prod": ("multiply", lambda x, i, u: x * js.ops.segment_prod(u, i, len(x))),
    "ops min": (
        "min",
        lambda x, i, u: jnp.minimum(x, js.ops.segment_min(u, i, len(x))),
    ),
    "ops max": (
        "max",
        lambda x, i, u: jnp.maximum(x, js.ops.segment_max(u, i, len(x))),
    ),
}
TF = js.tf
# Which duplicate a set takes is not said: there all updates are the same.
UPDATES = {op: np.ones_like(U) if op == "set" else U for op, _ in OTHERS.values()}


# -- sharded jit: what the compiled program holds --------------------------------------


def compiled_text(f, sharding, *args):
    put = [jax.device_put(a, s) for a, s in args]
    return jax.jit(f, out_shardings=sharding).lower(*put).compile().as_text()


@pytest.mark.parametrize("op", ["add", "set", "multiply", "gather", "gradient"])
def test_a_sharded_batch_needs_no_collective(op):
    """Along `dim`, the other dimension is a batch; the result is right, too."""
    s = NamedSharding(mesh(8), P("x"))
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (64, 16)).astype(np.float32)
    u = rng.integers(1, 3, (64, 10)).astype(np.float32)
    i = rng.integers(-1, 17, (64, 10)).astype(np.int32)
    if op in ("add", "multiply"):
        f = lambda x, i, u: js.mint.scatter(x, 1, i, u, reduce=op)
    elif op == "set":
        f, u = (lambda x, i, u: js.mint.scatter(x, 1, i, u)), np.ones_like(u)
    elif op == "gather":
        f = lambda x, i, u: js.mint.gather(x, 1, i)
    else:
        loss = lambda u, x, i: (js.mint.scatter_add(x, 1, i, u) ** 2).sum() / 2
        f = lambda x, i, u: jax.grad(loss)(u, x, i)
    run = jax.jit(f, out_shardings=s)
    put = [jax.device_put(a, s) for a in (x, i, u)]
    text = run.lower(*put).compile().as_text()
    assert not [c for c in COLLECTIVES if c in text]
    if op == "gather":
        want = oracle.gather("along", x, i, u.shape, dim=1)
    elif op == "gradient":
        out = oracle.scatter("along", "add", x, i, u, dim=1)
        want = oracle.gather("along", out, i, u.shape, dim=1)
    else:
        want = oracle.scatter("along", op, x, i, u, dim=1)
    np.testing.assert_array_equal(run(*put), want)


def test_sharded_features_need_no_collective():
    s = NamedSharding(mesh(8), P(None, "x"))
    ids = (jnp.zeros(10, np.int32), NamedSharding(mesh(8), P()))
    for f in (
        lambda u, i: js.ops.segment_sum(u, i, 9),
        lambda u, i: js.ops.segment_mean(u, i, 9),
        lambda u, i: js.ops.take(u, i),
        *(lambda u, i, f=f: f(jnp.zeros((9, 64)), i, u) for _, f in OTHERS.values()),
    ):
        text = compiled_text(f, s, (jnp.ones((10, 64)), s), ids)
        assert not [c for c in COLLECTIVES if c in text]


def test_the_collective_test_can_fail():
    s = NamedSharding(mesh(8), P("x"))
    f = lambda u, i: js.ops.segment_sum(u, i, 9)
    args = ((jnp.ones((16, 4)), s), (jnp.zeros(16, np.int32), s))
    assert "all-reduce" in compiled_text(f, NamedSharding(mesh(8), P()), *args)


# -- Explicit meshes and out_sharding --------------------------------------------------


def core(
    function, names, form, op, operand, indices, updates=None, spec=None, shape=None
):
    """The jitted core with `out_sharding`, which no public keyword opens yet."""
    options = _call.Settings(out_sharding=spec)
    call = _call.Call(function, names, form, op, shape=shape, options=options)
    return _call.compiled(call, operand, indices, updates, None)


def index_add(x, i, u, spec=None):
    names = ("input", "index", "source")
    return core("mint.index_add", names, "rows", "add", x, i, u, spec)


def index_select(x, i, spec=None):
    names = ("input", "index", "source")
    return core("mint.index_select", names, "rows", "gather", x, i, None, spec)


def test_out_sharding_on_an_auto_mesh():
    m = mesh(8)
    u = jax.device_put(U, NamedSharding(m, P("x")))
    names = ("num_segments", "segment_ids", "data")
    spec = NamedSharding(m, P("x"))
    f = lambda u: core(
        "ops.segment_sum", names, "segments", "add", None, I, u, spec, (8,)
    )
    y = jax.jit(f)(u)
    assert y.sharding.spec == P("x")
    same(y[:6], M @ U)


WANT = X + M @ U


@pytest.fixture
def explicit():
    m = mesh(2, 2, explicit=True)
    with jax.set_mesh(m):
        yield lambda v, *spec: jax.device_put(v, NamedSharding(m, P(*spec)))


def spec_of(x):
    return jax.typeof(x).sharding.spec


def test_explicit_types_are_inferred(explicit):
    put = explicit
    u, ids, x = put(U, None, "x"), put(I, None), put(X, None, "x")
    for name, add in ADDS.items():
        if "scatter_add" in name or name == "mint.scatter":
            continue  # along: below
        y = add(x, ids, u)
        assert spec_of(y) == P(None, "x"), name
        same(y, WANT)
    for segment, want in ((js.ops.segment_sum, M @ U), (js.ops.segment_mean, None)):
        y = segment(u, ids, 6)  # its zeros must stand where the features stand
        assert spec_of(y) == P(None, "x")
        if want is not None:
            same(y, want)
    assert spec_of(js.ops.segment_max(u, ids, 6)) == P(None, "x")
    for name, (op, fun) in OTHERS.items():
        if name.startswith("mint"):
            continue  # along: below
        y = fun(x, ids, put(UPDATES[op], None, "x"))
        assert spec_of(y) == P(None, "x"), name
        want = oracle.scatter("rows", op, X, I, UPDATES[op])
        np.testing.assert_allclose(y, want, rtol=1e-5)
    # clipping and wrapping are arithmetic on sharded indices
    wrapped = dict(mode="clip", wrap_negative_indices=True)
    assert spec_of(js.mint.index_add(x, 0, ids, u, **wrapped)) == P(None, "x")


def test_explicit_batches(explicit):
    put = explicit
    xb, ib, ub = np.stack([X, X]), np.stack([I, I]), np.stack([U, U])
    each = np.stack([WANT, WANT])
    idx = np.broadcast_to(ib[:, :, None], ub.shape)
    args = [put(v, "x", None, "y") for v in (xb, idx, ub)]
    y = jax.jit(lambda x, i, u: js.mint.scatter_add(x, 1, i, u))(*args)
    assert spec_of(y) == P("x", None, "y")
    same(y, each)
    for reduce in (None, "multiply"):
        y = js.mint.scatter(args[0], 1, args[1], args[2], reduce=reduce)
        assert spec_of(y) == P("x", None, "y")
    options = dict(mode="clip", wrap_negative_indices=True)
    y = js.mint.gather(args[0], 1, args[1], **options)
    assert spec_of(y) == P("x", None, "y")
    # vmap over a sharded axis, also with arguments that are not mapped
    add = lambda x, i, u: js.mint.index_add(x, 0, i, u)
    mapped = (put(xb, "x", None, None), put(ib, "x", None), put(ub, "x", None, None))
    plain = (put(X, None, None), put(I, None), put(U, None, None))
    for mask in ((1, 1, 1), (0, 1, 0), (0, 0, 1), (1, 0, 0)):
        args = [b if m else p for m, b, p in zip(mask, mapped, plain)]
        y = jax.jit(jax.vmap(add, tuple(0 if m else None for m in mask)))(*args)
        assert spec_of(y) == P("x", None, None)
        same(y, each)


def test_explicit_gradients_keep_their_types(explicit):
    put = explicit
    x, u, ids = put(X, None, "x"), put(U, None, "x"), put(I, None)
    loss = lambda x, u: (js.mint.index_add(x, 0, ids, u) ** 2).sum()
    gx, gu = jax.grad(loss, (0, 1))(x, u)
    assert spec_of(gu) == P(None, "x") == spec_of(gx)
    same((gx, gu), (2 * WANT, M.T @ (2 * WANT)))
    loss = lambda t: (js.ops.take(t, ids) ** 2).sum()
    gt = jax.grad(loss)(x)
    assert spec_of(gt) == P(None, "x")
    same(gt, 2 * M @ (M.T @ X))


RULES = {
    "product": lambda x, i, u: js.mint.index_reduce(x, 0, i, u, "prod"),
    "maximum": lambda x, i, u: js.mint.index_reduce(
        x, 0, i, u, "amax", include_self=False
    ),
    "set": lambda x, i, u: js.tf.tensor_scatter_nd_update(x, i[:, None], u),
    "norm": lambda x, i, u: js.bnns.scatter_nd("l2_norm", u, i[:, None], x),
    "normalize": lambda x, i, u: x.sum() + js.ops.segment_normalize(u, i, 6),
    "softmax": lambda x, i, u: x.sum() + js.ops.segment_softmax(u, i, 6),
}


@pytest.mark.parametrize("name", RULES)
def test_explicit_gradients_of_every_rule(name, explicit):
    """Sharded features: derivatives of two orders are typed and valued as on one."""
    put, fun = explicit, RULES[name]

    def two_orders(i):
        loss = lambda x, u: jnp.sin(fun(x, i, u)).sum()
        gradient = jax.grad(loss, (0, 1))
        return lambda x, u: (gradient(x, u), jax.jvp(gradient, (x, u), (x, u))[1])

    got = jax.jit(two_orders(put(I, None)))(put(X, None, "x"), put(U, None, "x"))
    assert {spec_of(v) for v in jax.tree.leaves(got)} == {P(None, "x")}
    with jax.set_mesh(mesh(1)):
        want = jax.jit(two_orders(I))(X, U)
    same(got, want)
    if name in ("product", "maximum"):  # along `dim`, where the batch is sharded
        reduce = dict(product="prod", maximum="amax")[name]
        index = np.arange(12, dtype=np.int32).reshape(6, 2) % 4
        f = lambda i: (
            lambda x, u: jnp.sin(js.mint.scatter_reduce(x, 1, i, u, reduce)).sum()
        )
        got = jax.grad(f(put(index, "x")), (0, 1))(put(X, "x"), put(U[:6, :2], "x"))
        with jax.set_mesh(mesh(1)):
            want = jax.grad(f(index), (0, 1))(X, U[:6, :2])
        assert [spec_of(v) for v in got] == [P("x", None)] * 2
        same(got, want)


def test_explicit_gradients_where_shardings_differ(explicit):
    """A cotangent has the sharding of its own primal, not of the result."""
    put = explicit
    rows = np.arange(12, dtype=np.float32).reshape(2, 6)
    index = np.array([[0, 5, 7, 0], [1, 1, -1, 2]], np.int32)
    src = np.ones((2, 4), np.float32)
    for x_spec, u_spec in (((None, None), ("x", None)), (("x", None), (None, None))):
        x, u = put(rows, *x_spec), put(src, *u_spec)
        ids = put(index, "x", None)
        loss = lambda x, u: (js.mint.scatter_add(x, 1, ids, u) ** 2).sum()
        gx, gu = jax.grad(loss, (0, 1))(x, u)
        assert spec_of(gx) == P(*x_spec) and spec_of(gu) == P(*u_spec)
        want = 2 * oracle.scatter("along", "add", rows, index, src, dim=1)
        same(gx, want)
        same(gu, oracle.gather("along", want, index, (2, 4), dim=1))
        push = jax.jvp(lambda x: js.mint.scatter_add(x, 1, ids, u), (x,), (x,))
        assert spec_of(push[0]) == spec_of(push[1])
    constant = lambda s: js.mint.scatter(x, 1, ids, s, reduce="add").sum()
    assert jax.grad(constant)(1.0) == 6


def test_explicit_ambiguity_is_jax_own_error(explicit):
    put = explicit
    with pytest.raises(Exception, match="out_sharding"):
        js.mint.index_add(put(X, None, None), 0, put(I, "x"), put(U, "x", None))


def test_explicit_out_sharding(explicit):
    put = explicit
    ids, x, u = put(I, "x"), put(X, None, None), put(U, "x", None)
    for spec in (P(), P("x"), P(None, "y")):
        f = lambda x, u: index_add(x, ids, u, spec)
        y = f(x, u)
        same(y, WANT)
        assert spec_of(y) == P(*spec, *[None] * (2 - len(spec)))
        gx, gu = jax.grad(lambda x, u: (f(x, u) ** 2).sum(), (0, 1))(x, u)
        same((gx, gu), (2 * WANT, M.T @ (2 * WANT)))
        assert spec_of(gu) == P("x", None)
    ids = put(I, "y")
    table = put(X, "x", None)
    take = lambda t: index_select(t, ids, P("y"))
    assert spec_of(take(table)) == P("y", None)
    square = lambda t: (take(t) ** 2).sum()
    cube = lambda t: (take(t) ** 3).sum()
    assert spec_of(jax.grad(square)(table)) == P("x", None)
    hvp = jax.jvp(jax.grad(cube), (table,), (table,))[1]
    want = 6 * M @ ((M.T @ X) ** 2)
    same(hvp, want)


def test_fill_of_sharded_features():
    m = mesh(4, explicit=True)
    with jax.set_mesh(m):
        x = jax.device_put(np.ones((8, 4), np.float32), NamedSharding(m, P(None, "x")))
        f = lambda x, v: js.mint.index_fill(x, 0, np.array([1, 2, 1]), v)
        out = jax.jit(f)(x, np.float32(3))
        assert jax.typeof(out).sharding.spec == P(None, "x")
        dx, dv = jax.grad(lambda *a: f(*a).sum(), (0, 1))(x, np.float32(3))
    assert np.asarray(out)[:, 0].tolist() == [1, 3, 3, 1, 1, 1, 1, 1]
    assert dv == 8 and np.asarray(dx)[:, 3].tolist() == [1, 0, 0, 1, 1, 1, 1, 1]


def test_reduced_types_are_refused():
    m = mesh(4, 2, explicit=True)
    with jax.set_mesh(m):
        put = lambda v, *spec: jax.device_put(v, NamedSharding(m, P(*spec)))
        table = put(np.ones((64, 4), np.float32), "y", None)
        table = jax.sharding.reshard(table, P("y", None, reduced={"x"}))
        ids = put(np.zeros(8, np.int32), "x")
        window = put(np.ones((8, 4), np.float32), None, None)
        for take in (
            lambda: js.ops.take(table, ids),
            lambda: index_select(table, ids),
            lambda: js.tf.tensor_scatter_nd_max(table, ids[:, None], window),
        ):
            with pytest.raises(
                NotImplementedError, match=r"^(ops|mint|tf)\.\w+: `reduced`"
            ):
                take()
        with pytest.raises(NotImplementedError, match="reduced"):
            index_select(table, ids, P("x"))


def test_unreduced_types_are_refused():
    m = mesh(2, explicit=True)
    with jax.set_mesh(m):
        put = lambda v, *spec: jax.device_put(v, NamedSharding(m, P(*spec)))
        left, right = put(np.ones((4, 6), np.float32), None, "x"), put(X, "x", None)

        def take(a, b):
            sums = P(None, None, unreduced={"x"})
            table = jnp.einsum("ij,jk->ik", a, b, out_sharding=sums)
            return js.ops.take(table, jnp.zeros(2, int))

        with pytest.raises(NotImplementedError, match=r"^ops.take: .*`unreduced`"):
            jax.jit(take)(left, right)
