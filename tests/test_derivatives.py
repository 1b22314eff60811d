"""The rules about derivatives, one by one: zeros, ties, winners, infinities, NaN.

Every function, form and transformation meets plain JAX on dense masks in
test_transforms. Here stand the cells where plain JAX has no answer, or another one.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import jscatter as js

F, I = np.float32, np.int32


# -- products: exact integer arithmetic ------------------------------------------------


def partials(t, x, ids, rows, order):
    """All mixed partials of t[r] * prod of x[ids == r] by (t, x), by multiplying ints.

    [rows] + [len(t) + len(x)] * order; a product is linear in each of its factors.
    """
    n = len(t) + len(x)
    out = np.zeros((rows, *[n] * order), object)
    for r in range(rows):
        factors = {r: int(t[r])}
        factors |= {len(t) + k: int(v) for k, v in enumerate(x) if ids[k] == r}
        for by in itertools.permutations(factors, order):
            rest = 1
            for k, v in factors.items():
                rest *= 1 if k in by else v
            out[r][by] = rest
    return out.astype(np.float64)


T, ROWS = np.array([3, -2, 0, 5], F), 4
PRODUCTS = {  # updates, ids: cells with no, one, two and three zeros; dropped rows
    "none": ([2, -3, 1, 4, -1, 2], [0, 1, 0, 1, 0, 1]),
    "one each": ([0, -3, 2, 0, 3, 2], [0, 1, 0, 1, 0, 1]),
    "many": ([0, 0, 2, 0, 0, 0], [0, 0, 0, 1, 1, 1]),
    "dropped": ([0, 7, 2, 3, 9, -2], [3, -1, 2, 3, 4, 2]),
}


def by_rows(t, x, ids):
    return js.mint.index_reduce(t, 0, ids, x, "prod")


PRODUCT_SPELLINGS = {
    "rows": by_rows,
    "points": lambda t, x, ids: js.tf.tensor_scatter_nd_mul(t, ids[:, None], x),
    "along": lambda t, x, ids: js.mint.scatter(t, 0, ids, x, reduce="multiply"),
    "segments": lambda t, x, ids: t * js.ops.segment_prod(x, ids, ROWS),
    "mapped": lambda t, x, ids: jax.vmap(by_rows, (None, 0, None))(t, x[None], ids)[0],
    "mapped ids": lambda t, x, ids: jax.vmap(by_rows, (0, 0, 0))(
        t[None], x[None], ids[None]
    )[0],
    "a lane of two": lambda t, x, ids: js.mint.scatter(
        jnp.stack([t, 0 * t], 1), 0, ids[:, None], x[:, None], reduce="multiply"
    )[:, 0],
}


@pytest.mark.parametrize("spelling", PRODUCT_SPELLINGS)
def test_products_are_exact(spelling):
    """Gradient, Hessian and third derivative, forward and reverse in turn."""
    fun = PRODUCT_SPELLINGS[spelling]
    f = lambda v, ids: fun(v[:ROWS], v[ROWS:], ids)
    fwd, rev = jax.jacfwd, jax.jacrev
    nests = {1: [fwd(f), rev(f)], 2: [fwd(rev(f)), rev(fwd(f)), rev(rev(f))]}
    nests[3] = [fwd(fwd(rev(f)))]
    all_of_them = jax.jit(
        lambda *a: {k: [g(*a) for g in gs] for k, gs in nests.items()}
    )
    for name, (x, ids) in PRODUCTS.items():
        x, ids = np.array(x, F), np.array(ids, I)
        for order, each in all_of_them(np.concatenate([T, x]), ids).items():
            want = partials(T, x, ids, ROWS, order)
            for got in each:
                np.testing.assert_array_equal(got, want, err_msg=name)


def test_complex_products():
    x = np.array([1 + 2j, 0, 3 - 1j, 1j], np.complex64)
    ids = np.array([0, 0, 0, 1], I)
    f = lambda x: js.ops.segment_prod(x, ids, 2)
    got = jax.jacfwd(f, holomorphic=True)(x)
    np.testing.assert_allclose(got, [[0, 5 + 5j, 0, 0], [0, 0, 0, 1]])
    got = jax.jacfwd(jax.jacrev(f, holomorphic=True), holomorphic=True)(x)
    assert got[0, 1, 2] == 1 + 2j and got[0, 2, 1] == 1 + 2j and got[0, 0, 2] == 0


@pytest.mark.parametrize("n", [63, 64, 65, 129, 5000])
def test_long_products(n):
    """Across the lanes that the products of others are computed in."""
    rng = np.random.default_rng(n)
    x = rng.choice([1, -1], n).astype(F)
    x[rng.integers(0, n, 2)] = 0
    x[rng.integers(0, n, 5)] *= 2
    ids = rng.choice([-1, 0, 0, 0, 1, 2], n).astype(I)
    want = np.zeros(n)
    for r in range(3):
        (at,) = np.nonzero(ids == r)
        for k in at:
            want[k] = np.prod([int(x[j]) for j in at if j != k], dtype=object)
    loss = lambda x: js.ops.segment_prod(x, ids, 3).sum()
    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(x), want)


def test_no_zero_divides_a_quotient_of_products():
    """A division by the product has the derivatives of x / (u v)."""
    x, u = jnp.array([6.0, 1.0]), jnp.array([2.0, -3.0, 5.0])
    ids = np.array([[0], [0], [7]], I)
    f = lambda x, u: js.tf.tensor_scatter_nd_div(x, ids, u)
    assert f(x, u).tolist() == [-1, 1]
    dx, du = jax.jacrev(f, (0, 1))(x, u)
    np.testing.assert_allclose(dx, [[-1 / 6, 0], [0, 1]], rtol=1e-6)
    np.testing.assert_allclose(du, [[0.5, -1 / 3, 0], [0, 0, 0]], rtol=1e-6)


@pytest.mark.parametrize("op", ["multiply", "max", "min", "set"])
def test_without_a_derivative_it_is_one_scatter(op):
    """No sort and no loop: what derivatives need costs nothing where there is none."""
    funs = {
        "multiply": js.tf.tensor_scatter_nd_mul,
        "max": js.tf.tensor_scatter_nd_max,
        "min": js.tf.tensor_scatter_nd_min,
        "set": js.tf.tensor_scatter_nd_update,
    }
    args = jnp.ones((9, 2)), np.zeros((5, 1), I), jnp.ones((5, 2))
    text = jax.jit(funs[op]).lower(*args).as_text()
    assert text.count('"stablehlo.scatter"(') == 1
    assert not [t for t in ("sort", "while", "gather", "case") if f".{t}" in text]


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
    low = jnp.full(2, -jnp.inf)
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
    dt, du = jax.grad(f, (0, 1))(jnp.ones(2), jnp.ones(1))
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
    x = jnp.array([2.0, 2.0, 1.0, -jnp.inf, jnp.nan])
    ids = np.array([0, 0, 0, 1, 2], I)
    for f in (js.ops.segment_max, js.ops.segment_min):
        second = jax.hessian(lambda x: (f(x, ids, 4)[:2] * np.array([3, 1], F)).sum())
        assert not second(x).any()


def test_clipped_rows_take_part():
    x, t = jnp.array([5.0, 5.0]), jnp.zeros(3)
    f = lambda x: js.mint.index_reduce(t, 0, [2, 9], x, "amax", mode="clip").sum()
    assert jax.grad(f)(x).tolist() == [0.5, 0.5]
    f = lambda x: js.mint.index_reduce(t, 0, [2, 9], x, "amax").sum()
    assert jax.grad(f)(x).tolist() == [1, 0]


# -- set -------------------------------------------------------------------------------


def test_the_last_one_wins_in_value_and_gradient():
    """TensorFlow and PyTorch give every writer the cotangent."""
    u, ids = jnp.arange(1.0, 6.0), np.array([0, 2, 0, 2, 7], I)
    f = lambda t, u: js.tf.tensor_scatter_nd_update(t, ids[:, None], u)
    out, pull = jax.vjp(f, jnp.full(4, 9.0), u)
    assert out.tolist() == [3, 9, 4, 9]
    dt, du = pull(jnp.array([1.0, 2, 3, 4]))
    assert dt.tolist() == [0, 2, 0, 4] and du.tolist() == [0, 0, 1, 3, 0]
    _, tangent = jax.jvp(f, (jnp.zeros(4), u), (jnp.full(4, 7.0), 10 * u))
    assert tangent.tolist() == [30, 7, 40, 7]
    cube = lambda u: (f(jnp.zeros(4), u) ** 3).sum()
    second = jax.hessian(cube)(u)
    assert np.diag(second).tolist() == [0, 0, 18, 24, 0] and second[2, 3] == 0
    # Along a dimension and for whole rows: one winner per cell, one per row.
    index = np.array([[0, 1], [0, 0], [2, 1]], I)
    src = jnp.arange(6.0).reshape(3, 2)
    g = jax.grad(lambda s: js.mint.scatter(jnp.zeros((3, 2)), 0, index, s).sum())(src)
    assert g.tolist() == [[0, 0], [1, 1], [1, 1]]
    rows = jnp.zeros((4, 2))
    g = jax.grad(
        lambda s: js.tf.tensor_scatter_nd_update(rows, ids[:3, None], s).sum()
    )(src)
    assert g.tolist() == [[0, 0], [1, 1], [1, 1]]
    # A promise that none is twice, and a promise that none is outside.
    for promise in (dict(unique_indices=True), dict(mode="promise_in_bounds")):
        once = lambda t, u: js.tf.tensor_scatter_nd_update(t, [[2], [0]], u, **promise)
        dt, du = jax.grad(lambda t, u: once(t, u).sum(), (0, 1))(jnp.ones(3), u[:2])
        assert dt.tolist() == [0, 1, 0] and du.tolist() == [1, 1]


def test_bits_survive_a_differentiated_set():
    bits = np.array([0x80000000, 1, 0x7F800005], np.uint32).view(F)
    f = lambda u: js.tf.tensor_scatter_nd_update(jnp.zeros(3), [[2], [1], [0]], u)
    value, _ = jax.jvp(f, (bits,), (np.ones(3, F),))
    assert np.asarray(value).view(np.uint32).tolist() == [0x7F800005, 1, 0x80000000]


# -- what is dropped leaks nothing -----------------------------------------------------

SEGMENT = """sum prod min max mean variance std normalize logsumexp softmax
log_softmax""".split()


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


BNNS = [op.name for op in js.bnns.ReduceFunction]


@pytest.mark.parametrize("op", BNNS)
def test_a_dropped_row_leaks_nothing_into_an_output(op):
    o, kept = np.array([0.5, 2.0], F), np.array([1.0, 3.0], F)
    bad = np.array([np.nan, 1.0, np.inf, 3.0], F)

    def run(indices, x):
        f = lambda o, x: js.bnns.scatter_nd(op, x, indices, o)
        tangents = (o, np.where(np.isfinite(x), x, np.nan).astype(F))
        of = lambda *args: derivatives(f, args, tangents, jnp.ones(2))
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


# -- infinities, empties, single rows --------------------------------------------------


def test_exponentials_at_infinity():
    low, high = -np.inf, np.inf
    x = jnp.array([low, low, 1.0, high, high, low, 2.0])
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
        (g,) = pull(jnp.ones(len(want)))
        assert np.isfinite(g).all()
        if name == "softmax":
            assert not g.any()
        if name == "logsumexp":
            assert g.tolist() == [0, 0, 0, 0, 0, 0, 1]
        finite = lambda x, f=f: jnp.where(jnp.isfinite(v := f(x)), v, 0).sum()
        assert np.isfinite(jax.hessian(finite)(x)).all()


@pytest.mark.parametrize("name", SEGMENT)
def test_empty_and_single_segments(name):
    fun = getattr(js.ops, f"segment_{name}")
    x, ids = jnp.array([3.0]), np.array([1], I)
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
    x, ids = jnp.array([1.0, 3.0, 5.0]), np.array([0, 0, 1], I)
    for ddof, want in ((0, [1, 0]), (1, [2, 0]), (2, [0, 0])):
        f = lambda x, d=ddof: js.ops.segment_variance(x, ids, 2, ddof=d)
        assert f(x).tolist() == want
        assert np.isfinite(jax.jacrev(f)(x)).all()


# -- by property -----------------------------------------------------------------------


# 0 or of magnitude 1e-3 to 1e3; zeros and equal values are drawn often.
FEW = st.sampled_from([0.0, 1.0, 1.0, -1.0, 2.0, 1e-3, 1e3, -1e3])
FREE = st.floats(F(1e-3), F(1e3), width=32)
VALUE = FEW | FEW | FREE | FREE.map(lambda v: -v)


def arrays(values, n):
    return st.lists(values, min_size=n, max_size=n)


def finite_functions():
    for name in SEGMENT:
        fun = getattr(js.ops, f"segment_{name}")
        yield name, lambda o, x, i, fun=fun: fun(x, i, 3)
    for name in BNNS:
        if name.lower() in (*SEGMENT, "product", "none") or name[:3] in ("ANY", "ALL"):
            continue  # as above, or no derivative
        yield (
            name,
            lambda o, x, i, n=name: js.bnns.scatter_nd(
                n, x, i[:, None], o, epsilon=1e4
            ),
        )
    for name in ("prod", "mean", "amax", "amin"):
        yield (
            f"alone {name}",
            lambda o, x, i, n=name: js.mint.index_reduce(
                o, 0, i, x, n, include_self=False
            ),
        )
    yield "divide", lambda o, x, i: js.tf.tensor_scatter_nd_div(o, i[:, None], x)


FINITE = dict(finite_functions())


@pytest.mark.parametrize("name", FINITE)
def test_derivatives_are_finite(name):
    """vjp, jvp, hvp, reverse over reverse and third order, at what is drawn."""
    fun = FINITE[name]

    def all_orders(o, x, i):
        def loss(o, x):  # in the value's own size, so that float32 holds the orders
            y = fun(o, x, i)
            y = jnp.where(jnp.isfinite(y), y, 0)  # log of what is not positive; empties
            return jnp.sin(y / (1 + jax.lax.stop_gradient(abs(y).max()))).sum()

        args, g = (o, x), jax.grad(loss, (0, 1))
        hvp = lambda *a: jax.jvp(g, a, args)[1]
        again = lambda *a: sum((v / (1 + abs(v).max())).sum() for v in g(*a))
        return {
            "vjp": g(*args),
            "jvp": jax.jvp(loss, args, args)[1],
            "hvp": hvp(*args),
            "reverse over reverse": jax.grad(again, (0, 1))(*args),
            "third": jax.jvp(hvp, args, args)[1],
        }

    run, seen = jax.jit(all_orders), np.zeros(4)
    value = VALUE.map(lambda v: v or 1.0) if name == "divide" else VALUE

    @seed(0)
    @settings(max_examples=60, deadline=None, database=None)
    @given(arrays(VALUE, 3), arrays(value, 7), arrays(st.integers(-1, 3), 7))
    def check(o, x, i):
        o, x, i = np.array(o, F), np.array(x, F), np.array(i, I)
        seen[:] += [1, 0 in x, len({*x}) < 7, len({*i} & {0, 1, 2}) < 3]
        bad = [k for k, v in run(o, x, i).items() if not _all_finite(v)]
        assert not bad, (bad, o, x, i)

    check()
    assert (seen >= 15).all() or name == "divide"  # zeros, ties, empty cells


def _all_finite(tree):
    return all(np.isfinite(v).all() for v in jax.tree.leaves(tree))


def test_equal_rows_and_long_segments():
    """A sum of many rounds; deviations must not keep its error."""
    for n, value in ((7, 0.1), (80_000, 5.1)):
        x, ids = jnp.full(n, value, F), np.zeros(n, I)
        assert not js.ops.segment_normalize(x, ids, 1).any()
        assert js.ops.segment_std(x, ids, 1)[0] == 0
        assert not jax.grad(lambda x: js.ops.segment_std(x, ids, 1)[0])(x).any()
    few = jnp.full(7, 0.1)
    std = lambda x: js.ops.segment_std(x, np.zeros(7, I), 1)[0]
    assert not jax.hessian(std)(few).any()
    x = np.random.default_rng(0).normal(1000, 1, 200_000).astype(F)
    exact, ids = x.astype(np.float64), np.zeros(len(x), I)
    np.testing.assert_allclose(js.ops.segment_std(x, ids, 1), exact.std(), rtol=1e-4)
    got = js.ops.segment_normalize(x, ids, 1)
    want = (exact - exact.mean()) / exact.std()
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


def test_quotients_of_any_magnitude():
    """By t / prod x in float64: dq/dx = -q / x, d2q/dx2 = 2 q / x**2."""
    zero = np.zeros((7, 1), I)
    f = lambda t, x: js.tf.tensor_scatter_nd_div(t[None], zero, x)[0]
    run = jax.jit(lambda t, x: (*jax.grad(f, (0, 1))(t, x), jax.hessian(f, 1)(t, x)))
    for t in (0.0, 1.0, 1e3):
        for x in ([1e-3] * 7, [1e-3] + [1e3] * 6, [1e3] * 7):
            x = np.array(x, F)
            product = np.prod(x.astype(np.float64))
            dt, dx, second = run(F(t), x)
            np.testing.assert_allclose(dt, 1 / product, rtol=1e-5)
            np.testing.assert_allclose(dx, -t / product / x, rtol=1e-5)
            want = t / product / np.outer(x, x).astype(np.float64) * (1 + np.eye(7))
            np.testing.assert_allclose(second, want, rtol=1e-4)


@pytest.mark.parametrize("op", BNNS)
def test_what_is_kept_has_derivative_one(op):
    """An output cell that receives nothing, whatever stands there."""
    f = lambda o: js.bnns.scatter_nd(op, jnp.ones(1), [[0]], o)

    @jax.jit
    def both(o):
        gradient = jax.grad(lambda o: f(o).sum())
        return jax.jvp(f, (o,), (jnp.ones(2),))[1], gradient(o)

    for value in (np.inf, -np.inf, np.nan):
        tangent, gradient = both(jnp.array([2.0, value], F))
        at_nan = np.isnan(value) and op in ("MAX", "MIN")  # rule 8: 0
        want = 0 if at_nan else 1
        assert float(tangent[1]) == float(gradient[1]) == want, value
        assert np.isfinite(gradient[0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_integer_means_of_many(dtype):
    """The count does not fit the dtype."""
    n = 300 if np.dtype(dtype).itemsize == 1 else 70_000
    u = np.zeros(n, dtype)
    u[0] = 100
    for fun in (
        lambda x, u: js.mint.scatter_reduce(x, 0, np.zeros(n, I), u, "mean"),
        lambda x, u: js.bnns.scatter_nd("mean", u, np.zeros((n, 1), I), x),
    ):
        assert fun(np.zeros(1, dtype), u).tolist() == [100 // (n + 1)]


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
    x, u = jnp.array([3.0, 5.0, 7.0, 9.0]), jnp.array([4.0, 2.0, 8.0, 0.5])
    for promise in ({}, dict(unique_indices=True)) if op != "mean" else ({},):
        fun = lambda x, i, u: funs[op](x, i, u, **promise)
        body = lambda x, i, u: jax.lax.psum(jnp.sin(fun(x, i, u)), "x")
        f = jax.shard_map(body, mesh=m, in_specs=(P(), P(), P("x")), out_specs=P())
        one = lambda x, u: sum(jnp.sin(fun(x, ids, v)) for v in (u[:2], u[2:]))
        got = jax.grad(lambda x: f(x, ids, u).sum())(x)
        np.testing.assert_allclose(got, jax.grad(lambda x: one(x, u).sum())(x), 1e-5)


def test_no_features():
    ids, none = np.zeros(3, I), jnp.ones((3, 0))
    for name in SEGMENT:
        fun = lambda x, f=getattr(js.ops, f"segment_{name}"): f(x, ids, 2).sum()
        assert jax.grad(fun)(none).shape == (3, 0)
        assert jax.hessian(fun)(none).shape == (3, 0, 3, 0)


# -- magnitudes ------------------------------------------------------------------------

SCALES = [1e-30, 1e-20, 1e-10, 1.0, 1e10, 1e20, 1e30]
DATA, IDS = np.array([1.0, 3.0, -2.0, 0.5, 0.25], F), np.array([0, 0, 0, 1, 1], I)


def l2(x):
    return js.bnns.scatter_nd("l2_norm", x, IDS[:, None], jnp.zeros(2))


def l2_exact(x):
    return [np.sqrt((x[IDS == k] ** 2).sum()) for k in range(2)]


def std_exact(x):
    return [x[IDS == k].std() for k in range(2)]


def differences(f, x, h=1e-4):
    """First and second derivatives in float64, by central differences."""
    at = lambda d: np.asarray(f(x + d))
    eye = np.eye(len(x)) * h
    first = np.stack([(at(e) - at(-e)) / (2 * h) for e in eye], -1)
    second = [
        [(at(a + b) - at(a - b) - at(b - a) + at(-a - b)) / (4 * h * h) for b in eye]
        for a in eye
    ]
    return first, np.moveaxis(np.array(second), -1, 0)


def jacobians(f):
    nests = {
        "value": f,
        "first": jax.jacrev(f),
        "first, forward": jax.jacfwd(f),
        "second": jax.hessian(f),
        "second, reverse": jax.jacrev(jax.jacrev(f)),
    }
    return jax.jit(lambda x: {name: g(x) for name, g in nests.items()})


@pytest.mark.parametrize("name, exact", [("l2", l2_exact), ("std", std_exact)])
def test_norms_of_any_magnitude(name, exact):
    """f(s x) = s f(x): the gradient has no s, the second derivative 1 / s."""
    f = jacobians(l2 if name == "l2" else lambda x: js.ops.segment_std(x, IDS, 2))
    x = DATA.astype(np.float64)
    first, second = differences(exact, x)
    for scale in SCALES:
        got = f(DATA * F(scale))
        np.testing.assert_allclose(got["value"] / F(scale), exact(x), rtol=1e-5)
        for name in ("first", "first, forward"):
            np.testing.assert_allclose(got[name], first, rtol=1e-4, atol=1e-5)
        for name in ("second", "second, reverse"):
            times_s = np.asarray(got[name], np.float64) * scale
            np.testing.assert_allclose(times_s, second, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("eps, scales", [(1e-37, SCALES[:2]), (1e-5, SCALES[3:])])
def test_normalize_of_any_magnitude(eps, scales):
    """Its gradient has 1 / s. `eps` stands beside the variance, which has s squared."""
    f = jacobians(lambda x: js.ops.segment_normalize(x, IDS, 2, eps=eps))

    def exact(x, scale):
        out = np.zeros(5)
        for k in range(2):
            at = IDS == k
            root = max(x[at].std(), np.sqrt(eps) / scale)
            out[at] = (x[at] - x[at].mean()) / root
        return out

    x = DATA.astype(np.float64)
    for scale in scales:
        first, second = differences(lambda x, s=scale: exact(x, s), x)
        got = f(DATA * F(scale))
        np.testing.assert_allclose(got["value"], exact(x, scale), rtol=1e-5, atol=1e-6)
        for name in ("first", "first, forward"):
            times_s = np.asarray(got[name], np.float64) * scale
            np.testing.assert_allclose(times_s, first, rtol=1e-4, atol=1e-5)
        if 1e-15 < scale < 1e15:  # elsewhere 1 / s**2 is no float32
            times = np.asarray(got["second"], np.float64) * scale**2
            np.testing.assert_allclose(times, second, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16])
@pytest.mark.parametrize(
    "name", ["mean", "variance", "std", "logsumexp", "softmax", "log_softmax", "prod"]
)
def test_one_rounding_in_half_precision(name, dtype):
    """Within 0.51 units in the last place of the result in exact arithmetic."""
    import oracle

    rng = np.random.default_rng(0)
    x = (rng.standard_normal(300) / 4 + 1).astype(dtype)
    ids = rng.integers(0, 5, 300).astype(I)
    if name == "prod":
        x = (1 + rng.choice([-1, 1], 300) / 64).astype(dtype)
        exact = oracle.scatter("rows", "multiply", np.ones(5), ids, x.astype(float))
    else:
        exact = oracle.segments(name, 5, ids, x.astype(float), float)
    got = getattr(js.ops, f"segment_{name}")(x, ids, 5)
    assert got.dtype == dtype
    ulp = np.asarray(jnp.finfo(dtype).eps, float) * 2.0 ** np.floor(
        np.log2(np.abs(exact) + 1e-30)
    )
    assert (abs(np.asarray(got).astype(float) - exact) <= 0.51 * ulp).all()
