"""The two primitives in general form: random dimension numbers against loops."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jscatter as js
from jscatter import _primitive, _scatter

OPTIONS = _scatter.Options()


def _sites(operand_shape, indices, updates_shape, dnums):
    """Yields (index into updates, index into operand or None where out of bounds)."""
    d = dnums
    window_dims = [
        i
        for i in range(len(operand_shape))
        if i not in d.inserted_window_dims and i not in d.operand_batching_dims
    ]
    for at in np.ndindex(*updates_shape):
        rows = [at[i] for i in range(len(at)) if i not in d.update_window_dims]
        start, size = [0] * len(operand_shape), [1] * len(operand_shape)
        for k, o in enumerate(d.scatter_dims_to_operand_dims):
            start[o] = int(indices[(*rows, k)])
        for o, w in zip(window_dims, d.update_window_dims):
            size[o] = updates_shape[w]
        for o, i in zip(d.operand_batching_dims, d.scatter_indices_batching_dims):
            start[o] = rows[i]
        bounds = zip(start, size, operand_shape)
        inside = all(0 <= s and s + z <= n for s, z, n in bounds)
        for o, w in zip(window_dims, d.update_window_dims):
            start[o] += at[w]
        yield at, tuple(start) if inside else None


def by_loops(operand, indices, updates, dnums):
    out = np.array(operand)
    for u, o in _sites(operand.shape, indices, updates.shape, dnums):
        if o is not None:
            out[o] += updates[u]
    return out


def gather_by_loops(operand, indices, updates_shape, dnums):
    out = np.zeros(updates_shape, operand.dtype)
    for u, o in _sites(operand.shape, indices, updates_shape, dnums):
        if o is not None:
            out[u] = operand[o]
    return out


def scatter_add(x, i, u, dnums, options=OPTIONS):
    return _primitive.scatter_add(x, i, u, dnums=dnums, options=options)


def gather(x, i, dnums, window, options=OPTIONS):
    return _primitive.gather(x, i, dnums=dnums, window=window, options=options)


def draw(rng):
    """Batching dims, inserted dims, partial and full windows, in any place."""
    ndim = int(rng.integers(1, 5))
    kinds = ["batch", "insert", "window", "window_indexed"]
    roles = [rng.choice(kinds) for _ in range(ndim)]
    if not any(r in ("insert", "window_indexed") for r in roles):
        roles[int(rng.integers(ndim))] = "insert"
    shape = tuple(int(rng.integers(1, 4)) for _ in range(ndim))
    of = lambda *names: [d for d in range(ndim) if roles[d] in names]
    batch, insert, window = of("batch"), of("insert"), of("window", "window_indexed")
    indexed = list(rng.permutation(of("insert", "window_indexed")))
    extra = int(rng.integers(0, 3))
    order = rng.permutation(len(batch) + extra)  # where batches stand in the indices
    rows = [0] * len(order)
    for k, d in enumerate(batch):
        rows[order[k]] = shape[d]
    for k in range(len(batch), len(order)):
        rows[order[k]] = int(rng.integers(1, 4))
    sizes = [
        shape[d] if roles[d] == "window" else int(rng.integers(1, shape[d] + 1))
        for d in window
    ]
    ranks = len(rows) + len(window)
    places = sorted(rng.choice(ranks, len(window), replace=False).tolist())
    dnums = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(places),
        inserted_window_dims=tuple(insert),
        scatter_dims_to_operand_dims=tuple(int(d) for d in indexed),
        operand_batching_dims=tuple(batch),
        scatter_indices_batching_dims=tuple(int(order[k]) for k in range(len(batch))),
    )
    it_rows, it_sizes = iter(rows), iter(sizes)
    updates_shape = tuple(
        next(it_sizes) if d in places else next(it_rows) for d in range(ranks)
    )
    indices = rng.integers(-1, 4, (*rows, len(indexed))).astype(np.int32)
    ints = lambda s: rng.integers(-9, 9, s).astype(np.float32)
    return ints(shape), indices, ints(updates_shape), dnums, tuple(sizes)


def seeds(few, many):
    return [
        pytest.param(s, marks=[] if s < few else [pytest.mark.full])
        for s in range(many)
    ]


@pytest.mark.parametrize("seed", seeds(10, 60))
def test_values_and_adjoint(seed):
    x, i, u, dnums, window = draw(np.random.default_rng(seed))
    add = jax.jit(lambda x, i, u: scatter_add(x, i, u, dnums))
    take = jax.jit(lambda x, i: gather(x, i, dnums, window))
    np.testing.assert_array_equal(add(x, i, u), by_loops(x, i, u, dnums))
    want = gather_by_loops(x, i, u.shape, dnums)
    np.testing.assert_array_equal(take(x, i), want)
    ct = np.random.default_rng(seed).integers(-9, 9, x.shape).astype(np.float32)
    gx, gu = jax.linear_transpose(lambda x, u: add(x, i, u), x, u)(ct)
    np.testing.assert_array_equal(gx, ct)
    np.testing.assert_array_equal(gu, gather_by_loops(ct, i, u.shape, dnums))
    (gx,) = jax.linear_transpose(lambda x: take(x, i), x)(u)
    np.testing.assert_array_equal(gx, by_loops(np.zeros_like(x), i, u, dnums))


def stack(arrays, axes, rng, n):
    """Each array with a batch of n on its axis (None: not batched)."""
    mixed = lambda x: rng.permutation(x.ravel()).reshape(x.shape)
    return [
        x if axis is None else np.stack([mixed(x) for _ in range(n)], axis)
        for x, axis in zip(arrays, axes)
    ]


def pick(batched, axes, b):
    return [x if a is None else np.take(x, b, a) for x, a in zip(batched, axes)]


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_vmap(seed):
    """Every subset of arguments, random axes (also -1), random out axis."""
    rng = np.random.default_rng(seed)
    x, i, u, dnums, window = draw(rng)
    n = 3
    add = lambda x, i, u: scatter_add(x, i, u, dnums)
    take = lambda x, i: gather(x, i, dnums, window)
    for mask in list(itertools.product((0, 1), repeat=3))[1:]:
        axes = [
            int(rng.integers(-1, a.ndim + 1)) if m else None
            for m, a in zip(mask, (x, i, u))
        ]
        batched = stack((x, i, u), axes, rng, n)
        out = int(rng.integers(0, x.ndim + 1))
        got = jax.jit(jax.vmap(add, axes, out))(*batched)
        want = [by_loops(*pick(batched, axes, b), dnums) for b in range(n)]
        np.testing.assert_array_equal(
            got, np.stack(want, out), err_msg=f"{axes} {dnums}"
        )
        if axes[0] is None and axes[1] is None:
            continue
        out = int(rng.integers(0, u.ndim + 1))
        got = jax.jit(jax.vmap(take, axes[:2], out))(*batched[:2])
        want = [
            gather_by_loops(*pick(batched[:2], axes[:2], b), u.shape, dnums)
            for b in range(n)
        ]
        np.testing.assert_array_equal(
            got, np.stack(want, out), err_msg=f"{axes} {dnums}"
        )


@pytest.mark.parametrize("seed", seeds(4, 30))
def test_vmap_of_vmap(seed):
    rng = np.random.default_rng(seed)
    x, i, u, dnums, _ = draw(rng)

    def some_axes(arrays, always):
        axes = [
            int(rng.integers(0, a.ndim + 1)) if rng.random() < 0.6 else None
            for a in arrays
        ]
        axes[always % 3] = 0
        return axes

    a1 = some_axes((x, i, u), seed)
    b1 = stack((x, i, u), a1, rng, 2)
    a2 = some_axes(b1, seed + 1)
    b2 = stack(b1, a2, rng, 3)
    inner = jax.vmap(lambda x, i, u: scatter_add(x, i, u, dnums), a1)
    got = jax.jit(jax.vmap(inner, a2))(*b2)
    outer = [pick(b2, a2, c) for c in range(3)]
    want = [[by_loops(*pick(o, a1, b), dnums) for b in range(2)] for o in outer]
    np.testing.assert_array_equal(got, np.array(want))


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_vmap_commutes_with_grad(seed):
    rng = np.random.default_rng(seed)
    x, i, u, dnums, _ = draw(rng)
    axes = [int(rng.integers(0, a.ndim + 1)) for a in (x, i, u)]
    batched = stack((x, i, u), axes, rng, 2)
    loss = lambda x, i, u: jnp.sin(scatter_add(x, i, u, dnums)).sum()
    got = jax.vmap(jax.grad(loss, (0, 2)), axes)(*batched)
    for b in range(2):
        xb, ib, ub = pick(batched, axes, b)
        ct = np.cos(by_loops(xb, ib, ub, dnums))
        np.testing.assert_allclose(got[0][b], ct, rtol=1e-5, atol=1e-6)
        want = gather_by_loops(ct, ib, u.shape, dnums)
        np.testing.assert_allclose(got[1][b], want, rtol=1e-5, atol=1e-6)


# -- the structure of what the rules make ----------------------------------------------


def equations(fun, *args):
    return jax.make_jaxpr(fun)(*args).jaxpr.eqns


def named(primitive, fun, *args):
    return [e for e in equations(fun, *args) if e.primitive is primitive]


def test_one_equation_dead_code_and_symbolic_zeros():
    x, i, u = jnp.zeros((4, 3)), jnp.zeros(6, int), jnp.ones((6, 3))
    f = lambda x, u: js.mint.index_add(x, 0, i, u)
    assert len(named(_primitive.scatter_add_p, f, x, u)) == 1
    dead = jax.jit(lambda x, u: (f(x, u), x)[1]).lower(x, u).as_text()
    assert "scatter" not in dead
    # d/d operand is the cotangent itself: no gather. d/d updates: one gather.
    names = lambda g, *a: str(jax.make_jaxpr(g)(*a))
    assert "gather[" not in names(jax.grad(lambda x: f(x, u).sum()), x)
    text = names(jax.grad(lambda u: f(x, u).sum()), u)
    assert text.count("jscatter_gather[") == 1
    # jvp in the operand alone hands the tangent through
    push = lambda x: jax.jvp(lambda x: f(x, u), (x,), (x,))[1]
    assert "scatter" not in jax.jit(push).lower(x).as_text()


def test_vmap_over_features_is_one_scatter_and_no_transpose():
    data, ids = jnp.ones((40, 7)), jnp.zeros(40, int)
    f = jax.vmap(lambda d: js.ops.segment_sum(d, ids, 5), 1, 1)
    assert "transpose" not in [e.primitive.name for e in equations(f, data)]
    (eqn,) = named(_primitive.scatter_add_p, f, data)
    assert eqn.outvars[0].aval.shape == (5, 7)
    assert eqn.params["dnums"].update_window_dims == (1,)
    text = jax.jit(f).lower(data).as_text()
    assert "transpose" not in text and text.count('"stablehlo.scatter"(') == 1


def test_gather_with_mapped_ids_does_not_copy_the_table():
    table, ids = jnp.ones((50, 4)), jnp.zeros((3, 6), int)
    take = lambda t: jax.vmap(lambda i: js.ops.take(t, i))(ids)
    (eqn,) = named(_primitive.gather_p, take, table)
    assert eqn.invars[0].aval.shape == (50, 4)
    # ... and its transpose is one scatter into one table
    gradient = jax.grad(lambda t: take(t).sum())
    (eqn,) = named(_primitive.scatter_add_p, gradient, table)
    assert eqn.outvars[0].aval.shape == (50, 4)


def test_promises_survive_only_where_they_hold():
    promised = _scatter.Options(indices_are_sorted=True, unique_indices=True)
    d = lax.ScatterDimensionNumbers((), (0,), (0,))
    f = lambda x, i, u: scatter_add(x, i, u, d, promised)
    x, i, u = jnp.zeros((3, 5)), jnp.zeros((3, 4, 1), int), jnp.zeros((3, 4))

    def options(fun, *args):
        ours = (_primitive.scatter_add_p, _primitive.gather_p)
        (eqn,) = [e for e in equations(fun, *args) if e.primitive in ours]
        return eqn.params["options"]

    assert options(jax.vmap(f), x, i, u) == promised
    last = options(jax.vmap(f, (0, 1, 1)), x, i.swapaxes(0, 1), u.T)
    assert not last.indices_are_sorted and last.unique_indices
    assert options(jax.vmap(f, (0, None, 0)), x, i[0], u) == promised
    g = jax.vmap(lambda x, i: gather(x, i, d, (), promised), (None, 0))
    assert options(g, x[0], i) == OPTIONS


def test_options_travel_and_print_what_was_asked_for():
    asked = _scatter.Options(
        accum_dtype=np.dtype("f4"), deterministic="exact", implementation="pallas"
    )
    assert repr(OPTIONS) == "()"
    assert "deterministic=exact" in repr(asked) and "unique" not in repr(asked)
    d = lax.ScatterDimensionNumbers((), (0,), (0,))
    x, i, u = jnp.zeros(5), jnp.zeros((4, 1), int), jnp.zeros(4)
    add = lambda u: scatter_add(x, i, u, d, asked)
    (eqn,) = named(_primitive.gather_p, lambda c: jax.linear_transpose(add, u)(c), x)
    assert eqn.params["options"] == dataclasses.replace(asked, implementation=None)
    take = lambda x: gather(x, i, d, (), asked)
    eqns = named(
        _primitive.scatter_add_p, lambda c: jax.linear_transpose(take, x)(c), u
    )
    eqns += named(_primitive.scatter_add_p, lambda u: jax.jvp(add, (u,), (u,)), u)
    eqns += named(_primitive.scatter_add_p, jax.vmap(add), jnp.stack([u, u]))
    assert len(eqns) == 4 and all(e.params["options"] == asked for e in eqns)
