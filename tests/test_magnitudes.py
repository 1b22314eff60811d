"""Derivatives that are numbers, and right, whatever the values and however many."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import BNNS, SEGMENT
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import jscatter as js

F, I = np.float32, np.int32
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
        yield name, lambda o, x, i, n=name: js.bnns.scatter_nd(n, x, i[:, None], o)
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
    few = jnp.full(7, 0.1, F)
    std = lambda x: js.ops.segment_std(x, np.zeros(7, I), 1)[0]
    assert not jax.hessian(std)(few).any()
    x = np.random.default_rng(0).normal(1000, 1, 200_000).astype(F)
    exact, ids = x.astype(np.float64), np.zeros(len(x), I)
    np.testing.assert_allclose(js.ops.segment_std(x, ids, 1), exact.std(), rtol=1e-4)
    got = js.ops.segment_normalize(x, ids, 1)
    want = (exact - exact.mean()) / exact.std()
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


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


# -- magnitudes ------------------------------------------------------------------------

SCALES = [1e-30, 1e-20, 1e-18, 1e-10, 1.0, 1e10, 1e15, 1e20, 1e30]
DATA, IDS = np.array([1.0, 3.0, -2.0, 0.5, 0.25], F), np.array([0, 0, 0, 1, 1], I)


def l2(x):
    return js.bnns.scatter_nd("l2_norm", x, IDS[:, None], jnp.zeros(2, F))


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


@pytest.mark.parametrize("eps, scales", [(1e-37, SCALES[:4]), (1e-5, SCALES[4:])])
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
        for name in ("second", "second, reverse"):
            if 1e-19 < scale < 1e16:
                times = np.asarray(got[name], np.float64) * scale**2
                np.testing.assert_allclose(times, second, rtol=1e-3, atol=1e-4)
            elif scale > 1:  # 1 / s**2 is flushed to 0, which is all that is left
                np.testing.assert_allclose(got[name], 0, atol=1e-35)
            else:  # or it is infinite, of the right sign
                large = abs(second) > 1e-2
                assert (np.asarray(got[name])[large] * second[large] == np.inf).all()


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
