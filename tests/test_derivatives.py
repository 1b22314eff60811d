"""The rules about derivatives, one by one: zeros, ties, winners, infinities, NaN.

Every function, form and transformation meets plain JAX on dense masks in
test_transforms. Here stand the cells where plain JAX has no answer, or another one.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import BNNS, SEGMENT

import jscatter as js

F, I = np.float32, np.int32


# -- ties ------------------------------------------------------------------------------

VALUES = (-np.inf, 1.0, np.inf, np.nan)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_ties_share_evenly(reduce, include_self):
    """All patterns of four values over a target and three updates, one dropped."""
    patterns = np.array(list(itertools.product(VALUES, repeat=3)), F)
    targets, updates = patterns[:, :1], patterns[:, 1:]
    updates = np.concatenate([updates, np.full((len(updates), 1), np.nan, F)], 1)
    index = np.tile(np.array([[0, 0, 9]], I), (len(updates), 1))

    def f(t, u):
        return js.mint.scatter_reduce(t, 1, index, u, reduce, include_self=include_self)

    out, pull = jax.vjp(f, targets, updates)
    dt, du = pull(jnp.ones_like(out))
    for p, o, a, b in zip(patterns, out, dt, du):
        entries = p if include_self else p[1:]
        best = np.nan if np.isnan(entries).any() else getattr(entries, reduce[1:])()
        np.testing.assert_array_equal(o[0], best)
        wins = entries == best
        want = wins / max(wins.sum(), 1)
        got = [*([a[0]] if include_self else []), *b[:2]]
        np.testing.assert_allclose(got, want, rtol=1e-6)
        assert b[2] == 0 and (include_self or a[0] == 0)
    ones = np.ones_like(targets), np.ones_like(updates)
    _, tangent = jax.jvp(f, (targets, updates), ones)
    # The shares of a cell have sum 1.
    np.testing.assert_allclose(tangent, ~np.isnan(out), rtol=1e-6)


def test_segments_of_equal_infinities_share():
    """Plain JAX lets the fill of an empty cell take part: 1/3 each."""
    low = jnp.full(2, -jnp.inf, F)
    ids = np.zeros(2, I)
    assert jax.grad(lambda x: js.ops.segment_max(x, ids, 1)[0])(low).tolist() == [
        0.5,
        0.5,
    ]


def test_an_excluded_target_never_counts():
    """PyTorch halves the update's gradient where the excluded target ties with it."""
    f = lambda t, u: js.mint.scatter_reduce(
        t, 0, np.zeros(1, I), u, "amax", include_self=False
    ).sum()
    dt, du = jax.grad(f, (0, 1))(jnp.ones(2, F), jnp.ones(1, F))
    assert dt.tolist() == [0, 1] and du.tolist() == [1]


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16])
def test_a_thousand_ties_in_half_precision(dtype):
    """Counted in bfloat16 they would be 256."""
    x, ids = jnp.ones(1000, dtype), np.zeros(1000, I)
    gradient = jax.grad(lambda x: js.ops.segment_max(x, ids, 1).sum())(x)
    assert (gradient == jnp.asarray(1 / 1000, dtype)).all()
    for f in (js.ops.segment_max, js.ops.segment_min):
        _, tangent = jax.jvp(lambda x: f(x, ids, 1), (x,), (x,))
        assert tangent[0] == 1


def test_second_derivatives_of_extrema_are_zero():
    x = jnp.array([2.0, 2.0, 1.0, -jnp.inf, jnp.nan], F)
    ids = np.array([0, 0, 0, 1, 2], I)
    for f in (js.ops.segment_max, js.ops.segment_min):
        second = jax.hessian(lambda x: (f(x, ids, 4)[:2] * np.array([3, 1], F)).sum())
        assert not second(x).any()


def test_clipped_rows_take_part():
    x, t = jnp.array([5.0, 5.0], F), jnp.zeros(3, F)
    f = lambda x: js.mint.index_reduce(t, 0, [2, 9], x, "amax", mode="clip").sum()
    assert jax.grad(f)(x).tolist() == [0.5, 0.5]
    f = lambda x: js.mint.index_reduce(t, 0, [2, 9], x, "amax").sum()
    assert jax.grad(f)(x).tolist() == [1, 0]


# -- set -------------------------------------------------------------------------------


def test_the_last_one_wins_in_value_and_gradient():
    """TensorFlow and PyTorch give every writer the cotangent."""
    u, ids = jnp.arange(1, 6, dtype=F), np.array([0, 2, 0, 2, 7], I)
    f = lambda t, u: js.tf.tensor_scatter_nd_update(t, ids[:, None], u)
    out, pull = jax.vjp(f, jnp.full(4, 9.0, F), u)
    assert out.tolist() == [3, 9, 4, 9]
    dt, du = pull(jnp.array([1.0, 2, 3, 4], F))
    assert dt.tolist() == [0, 2, 0, 4] and du.tolist() == [0, 0, 1, 3, 0]
    _, tangent = jax.jvp(f, (jnp.zeros(4, F), u), (jnp.full(4, 7.0, F), 10 * u))
    assert tangent.tolist() == [30, 7, 40, 7]
    cube = lambda u: (f(jnp.zeros(4, F), u) ** 3).sum()
    second = jax.hessian(cube)(u)
    assert np.diag(second).tolist() == [0, 0, 18, 24, 0] and second[2, 3] == 0
    # Along a dimension and for whole rows: one winner per cell, one per row.
    index = np.array([[0, 1], [0, 0], [2, 1]], I)
    src = jnp.arange(6, dtype=F).reshape(3, 2)
    g = jax.grad(lambda s: js.mint.scatter(jnp.zeros((3, 2), F), 0, index, s).sum())(
        src
    )
    assert g.tolist() == [[0, 0], [1, 1], [1, 1]]
    rows = jnp.zeros((4, 2), F)
    g = jax.grad(
        lambda s: js.tf.tensor_scatter_nd_update(rows, ids[:3, None], s).sum()
    )(src)
    assert g.tolist() == [[0, 0], [1, 1], [1, 1]]
    # A promise that none is twice, and a promise that none is outside.
    for promise in (dict(unique_indices=True), dict(mode="promise_in_bounds")):
        once = lambda t, u: js.tf.tensor_scatter_nd_update(t, [[2], [0]], u, **promise)
        dt, du = jax.grad(lambda t, u: once(t, u).sum(), (0, 1))(jnp.ones(3, F), u[:2])
        assert dt.tolist() == [0, 1, 0] and du.tolist() == [1, 1]


def test_bits_survive_a_differentiated_set():
    bits = np.array([0x80000000, 1, 0x7F800005], np.uint32).view(F)
    f = lambda u: js.tf.tensor_scatter_nd_update(jnp.zeros(3, F), [[2], [1], [0]], u)
    value, _ = jax.jvp(f, (bits,), (np.ones(3, F),))
    assert np.asarray(value).view(np.uint32).tolist() == [0x7F800005, 1, 0x80000000]


# -- promises --------------------------------------------------------------------------

PROMISES = [
    dict(unique_indices=True),
    dict(indices_are_sorted=True),
    dict(mode="promise_in_bounds"),
    dict(unique_indices=True, indices_are_sorted=True, mode="promise_in_bounds"),
]


@pytest.mark.parametrize("op", "set add multiply divide max l2_norm mean".split())
def test_promises_that_are_kept_change_nothing(op):
    """Value, both first derivatives and a second one, to the last bit."""
    tensor_scatter = dict(set="update", add="add", multiply="mul", divide="div")
    tensor_scatter |= dict(max="max")
    ids = np.array([[0], [2], [3]], I)

    def fun(o, x, **promises):
        if op in tensor_scatter:
            fun = getattr(js.tf, f"tensor_scatter_nd_{tensor_scatter[op]}")
            return fun(o, ids, x, **promises)
        return js.bnns.scatter_nd(op, x, ids, o, **promises)

    args = np.array([3, -2, 0, 5], F), np.array([3, -1, 2], F)
    run = lambda **promises: jax.jit(
        lambda o, x: derivatives(
            lambda *a: fun(*a, **promises), (o, x), (x[:1] * o, o[:3]), jnp.cos(o)
        )
    )(*args)
    want = run()
    for promises in PROMISES:
        jax.tree.map(np.testing.assert_array_equal, run(**promises), want)


@pytest.mark.parametrize("name", "prod max std normalize softmax logsumexp".split())
def test_promises_for_segments(name):
    """As above, and sorted ids with duplicates."""
    fun = getattr(js.ops, f"segment_{name}")
    for ids, some in (([0, 1, 3], PROMISES), ([0, 0, 3], PROMISES[1:3])):
        x, ids = np.array([2, 2, -1], F), np.array(ids, I)
        shape = jax.eval_shape(lambda x, i=ids: fun(x, i, 4), x).shape
        run = lambda i=ids, s=shape, **promises: jax.jit(
            lambda x: derivatives(
                lambda x: fun(x, i, 4, **promises), (x,), (3 * x,), jnp.ones(s, F)
            )
        )(x)
        want = run()
        for promises in some:
            jax.tree.map(np.testing.assert_array_equal, run(**promises), want)


# -- what is dropped leaks nothing -----------------------------------------------------


def derivatives(f, args, tangents, ct):
    """Value, vjp, jvp, and the jvp of a gradient."""
    out, pull = jax.vjp(f, *args)
    loss = lambda *args: jnp.sin(f(*args)).sum()
    places = tuple(range(len(args)))
    second = jax.jvp(jax.grad(loss, places), args, tangents)
    return out, pull(ct), jax.jvp(f, args, tangents)[1], second


@pytest.mark.parametrize("name", SEGMENT)
def test_a_dropped_row_leaks_nothing(name):
    """Its data, tangent and cotangent are not numbers; all others are as without it."""
    fun = getattr(js.ops, f"segment_{name}")
    kept = np.array([0, 2, 3])
    ids = np.array([0, -1, 0, 1, 2], I)
    by_row = name in ("normalize", "softmax", "log_softmax")

    def run(ids):
        f = lambda x: fun(x, ids, 2)
        return jax.jit(lambda x, dx, ct: derivatives(f, (x,), (dx,), ct))

    x = np.array([1, 2, 4], F)
    ct = np.full(3 if by_row else 2, 0.5, F)
    want = run(ids[kept])(x, 3 * x, ct)
    with_dropped = run(ids)
    for bad in (np.nan, np.inf, -np.inf):
        wide = lambda v, bad=bad: np.array([v[0], bad, v[1], v[2], bad], F)
        args = wide(x), wide(3 * x), wide(ct) if by_row else ct
        got = with_dropped(*args)
        (gradient,) = got[1]
        assert not gradient[np.array([1, 4])].any()
        pick = lambda v: v[kept] if v.shape == (5,) else v
        for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
            assert np.isfinite(w).all()
            np.testing.assert_allclose(pick(g), w, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("op", BNNS)
def test_a_dropped_row_leaks_nothing_into_an_output(op):
    o, kept = np.array([0.5, 2.0], F), np.array([1.0, 3.0], F)
    bad = np.array([np.nan, 1.0, np.inf, 3.0], F)

    def run(indices, x):
        f = lambda o, x: js.bnns.scatter_nd(op, x, indices, o)
        tangents = (o, np.where(np.isfinite(x), x, np.nan).astype(F))
        of = lambda *args: derivatives(f, args, tangents, jnp.ones(2, F))
        return jax.jit(of)(o, x)

    got = run([[-1], [0], [2], [0]], bad)
    want = run([[0], [0]], kept)
    if op.startswith("ARG"):  # positions count the dropped rows
        got, want = got[1:], want[1:]
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
        if g.shape != w.shape:
            assert not np.isnan(g[np.array([0, 2])]).any()
            g = g[np.array([1, 3])]
        np.testing.assert_allclose(g, w, rtol=1e-6)


@pytest.mark.parametrize("op", BNNS)
def test_what_is_kept_has_derivative_one(op):
    """An output cell that receives nothing, whatever stands there."""
    f = lambda o: js.bnns.scatter_nd(op, jnp.ones(1, F), [[0]], o)

    @jax.jit
    def both(o):
        gradient = jax.grad(lambda o: f(o).sum())
        return jax.jvp(f, (o,), (jnp.ones(2, F),))[1], gradient(o)

    for value in (np.inf, -np.inf, np.nan):
        tangent, gradient = both(jnp.array([2.0, value], F))
        at_nan = np.isnan(value) and op in ("MAX", "MIN")  # rule 8: 0
        want = 0 if at_nan else 1
        assert float(tangent[1]) == float(gradient[1]) == want, value
        assert np.isfinite(gradient[0])


# -- infinities, empties, single rows --------------------------------------------------


def test_exponentials_at_infinity():
    low, high = -np.inf, np.inf
    x = jnp.array([low, low, 1.0, high, high, low, 2.0], F)
    ids = np.array([0, 0, 1, 1, 1, 2, 2], I)
    fs = {
        "logsumexp": [low, high, 2, low],
        "softmax": [0, 0, 0, 0.5, 0.5, 0, 1],
        "log_softmax": [low, low, low, -np.log(2), -np.log(2), low, 0],
    }
    for name, want in fs.items():
        f = lambda x, name=name: getattr(js.ops, f"segment_{name}")(x, ids, 4)
        np.testing.assert_allclose(f(x), want, rtol=1e-6)
        _, pull = jax.vjp(f, x)
        (g,) = pull(jnp.ones(len(want), F))
        assert np.isfinite(g).all()
        if name == "softmax":
            assert not g.any()
        if name == "logsumexp":
            assert g.tolist() == [0, 0, 0, 0, 0, 0, 1]
        finite = lambda x, f=f: jnp.where(jnp.isfinite(v := f(x)), v, 0).sum()
        assert np.isfinite(jax.hessian(finite)(x)).all()


def test_norms_at_infinity():
    """Infinite, with no derivative; the cell beside it is as it was."""
    f = lambda o, x: js.bnns.scatter_nd("l2_norm", x, [[0], [0], [1]], o)
    o, x = jnp.array([1.0, 3.0], F), jnp.array([2.0, -jnp.inf, 4.0], F)
    assert f(o, x).tolist() == [jnp.inf, 5]
    do, dx = jax.jacrev(f, (0, 1))(o, x)
    np.testing.assert_allclose(do, [[0, 0], [0, 0.6]], rtol=1e-6)
    np.testing.assert_allclose(dx, [[0, 0, 0], [0, 0, 0.8]], rtol=1e-6)
    second = jax.hessian(lambda x: f(o, x)[1])(x)
    want = np.zeros((3, 3))
    want[2, 2] = 9 / 125  # o**2 / n**3
    np.testing.assert_allclose(second, want, rtol=1e-5)


def test_no_features():
    ids, none = np.zeros(3, I), jnp.ones((3, 0), F)
    for name in SEGMENT:
        fun = lambda x, f=getattr(js.ops, f"segment_{name}"): f(x, ids, 2).sum()
        assert jax.grad(fun)(none).shape == (3, 0)
        assert jax.hessian(fun)(none).shape == (3, 0, 3, 0)


@pytest.mark.parametrize("name", SEGMENT)
def test_empty_and_single_segments(name):
    fun = getattr(js.ops, f"segment_{name}")
    x, ids = jnp.array([3.0], F), np.array([1], I)
    alone = dict(sum=3, prod=3, min=3, max=3, mean=3, variance=0, std=0, normalize=0)
    alone |= dict(logsumexp=3, softmax=1, log_softmax=0)
    empty = dict(sum=0, prod=1, min=np.inf, max=-np.inf, mean=0, variance=0, std=0)
    empty |= dict(logsumexp=-np.inf)
    out = fun(x, ids, 2)
    assert out[-1] == alone[name] and out[0] == empty.get(name, alone[name])
    slope = 1.0 if name in "sum prod min max mean logsumexp".split() else 0.0
    f = lambda x: fun(x, ids, 2)[-1]
    assert jax.grad(f)(x).tolist() == [slope]
    assert jax.hessian(f)(x).tolist() == [[0]]
    none = jax.grad(lambda x: fun(x, ids[:0], 2).sum())(x[:0])
    assert none.shape == (0,)


def test_variance_of_few():
    x, ids = jnp.array([1.0, 3.0, 5.0], F), np.array([0, 0, 1], I)
    for ddof, want in ((0, [1, 0]), (1, [2, 0]), (2, [0, 0])):
        f = lambda x, d=ddof: js.ops.segment_variance(x, ids, 2, ddof=d)
        assert f(x).tolist() == want
        assert np.isfinite(jax.jacrev(f)(x)).all()
    # A row alone, whatever it is, has no deviation to speak of.
    for value in (np.inf, -np.inf, np.nan):
        x = jnp.array([1.0, 3.0, value], F)
        for name, slopes in (("variance", [-2, 2]), ("std", [-(0.5**0.5), 0.5**0.5])):
            fun = getattr(js.ops, f"segment_{name}")
            f = lambda x, fun=fun: fun(x, ids, 2, ddof=1)
            assert f(x)[1] == 0
            want = [[*slopes, 0], [0, 0, 0]]
            np.testing.assert_allclose(jax.jacrev(f)(x), want, rtol=1e-6)
            np.testing.assert_allclose(jax.jacfwd(f)(x), want, rtol=1e-6)


@pytest.mark.parametrize("op", ["multiply", "divide", "max", "set", "mean"])
def test_a_replicated_target_with_varying_updates(op):
    """shard_map: only the target is differentiated, by what varies on each device."""
    funs = {
        "multiply": js.tf.tensor_scatter_nd_mul,
        "divide": js.tf.tensor_scatter_nd_div,
        "max": js.tf.tensor_scatter_nd_max,
        "set": js.tf.tensor_scatter_nd_update,
        "mean": lambda x, i, u: js.bnns.scatter_nd("mean", u, i, x),
    }
    m = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    ids, P = np.array([[0], [2]], I), jax.P
    x, u = jnp.array([3.0, 5.0, 7.0, 9.0], F), jnp.array([4.0, 2.0, 8.0, 0.5], F)
    for promise in ({}, dict(unique_indices=True)) if op != "mean" else ({},):
        fun = lambda x, i, u: funs[op](x, i, u, **promise)
        body = lambda x, i, u: jax.lax.psum(jnp.sin(fun(x, i, u)), "x")
        f = jax.shard_map(body, mesh=m, in_specs=(P(), P(), P("x")), out_specs=P())
        one = lambda x, u: sum(jnp.sin(fun(x, ids, v)) for v in (u[:2], u[2:]))
        got = jax.grad(lambda x: f(x, ids, u).sum())(x)
        np.testing.assert_allclose(got, jax.grad(lambda x: one(x, u).sum())(x), 1e-5)
