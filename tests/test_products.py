"""Products and quotients: derivatives of every order against exact arithmetic."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jscatter as js

F, I = np.float32, np.int32


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


def test_products_over_devices_are_exact():
    """The sum over two devices of a product of what each holds, to the third order."""
    m = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    P = jax.P
    body = lambda t, x, ids: jax.lax.psum(by_rows(t, x, ids), "x")
    specs = dict(in_specs=(P(), P("x"), P("x")), out_specs=P())
    whole = jax.shard_map(body, mesh=m, **specs)
    f = lambda v, ids: whole(v[:ROWS], v[ROWS:], ids)
    fwd, rev = jax.jacfwd, jax.jacrev
    nests = {1: rev(f), 2: rev(rev(f)), 3: fwd(fwd(rev(f)))}
    all_of_them = jax.jit(lambda *a: {k: g(*a) for k, g in nests.items()})
    for name, (x, ids) in PRODUCTS.items():
        x, ids = np.array(x, F), np.array(ids, I)
        on = [np.where(np.arange(6) // 3 == d, ids, -1) for d in range(2)]
        for order, got in all_of_them(np.concatenate([T, x]), ids).items():
            want = sum(partials(T, x, i, ROWS, order) for i in on)
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
    x, u = jnp.array([6.0, 1.0], F), jnp.array([2.0, -3.0, 5.0], F)
    ids = np.array([[0], [0], [7]], I)
    f = lambda x, u: js.tf.tensor_scatter_nd_div(x, ids, u)
    assert f(x, u).tolist() == [-1, 1]
    dx, du = jax.jacrev(f, (0, 1))(x, u)
    np.testing.assert_allclose(dx, [[-1 / 6, 0], [0, 1]], rtol=1e-6)
    np.testing.assert_allclose(du, [[0.5, -1 / 3, 0], [0, 0, 0]], rtol=1e-6)


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


@pytest.mark.parametrize("op", ["multiply", "max", "min", "set"])
def test_without_a_derivative_it_is_one_scatter(op):
    """No sort and no loop: what derivatives need costs nothing where there is none."""
    funs = {
        "multiply": js.tf.tensor_scatter_nd_mul,
        "max": js.tf.tensor_scatter_nd_max,
        "min": js.tf.tensor_scatter_nd_min,
        "set": js.tf.tensor_scatter_nd_update,
    }
    args = jnp.ones((9, 2), F), np.zeros((5, 1), I), jnp.ones((5, 2), F)
    text = jax.jit(funs[op]).lower(*args).as_text()
    assert text.count('"stablehlo.scatter"(') == 1
    assert not [t for t in ("sort", "while", "gather", "case") if f".{t}" in text]
