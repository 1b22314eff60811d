"""Values, first and second derivatives beside PyTorch's, TensorFlow's and JAX's own.

Needs the extra `conformance`; the stage of that name in .ci/run sets
JSCATTER_CONFORMANCE=1. Where a peer differs, its answer is asserted too: the table of
docs/differences.md is read from here.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch

import jscatter as js

F = np.float32
RNG = np.random.default_rng(0)


def distinct(*shape):
    """No zeros, no ties: there the peers agree, or should."""
    n = int(np.prod(shape))
    return ((RNG.permutation(n) + 1) / n + 0.25).reshape(shape).astype(F)


X, U = distinct(4, 3), distinct(6, 3) + F(0.01)
ROWS = np.array([0, 2, 0, 3, 2, 2])
INDEX = RNG.integers(0, 4, (6, 3))
POINTS = np.array([[0, 1], [2, 2], [0, 1], [3, 0], [2, 0], [2, 2]])


def weights(shape):
    return (np.arange(np.prod(shape)).reshape(shape) % 5 + 1).astype(F)


def ours(fun, *args):
    """(value, gradients, Hessian-vector products with the arguments themselves)."""
    out = fun(*args)
    loss = lambda *a: (jnp.sin(fun(*a)) * weights(out.shape)).sum()
    gradient = jax.grad(loss, tuple(range(len(args))))
    return out, gradient(*args), jax.jvp(gradient, args, args)[1]


def by_torch(fun, *args, second=True):
    a = [torch.tensor(v, requires_grad=True) for v in args]
    out = fun(*a)
    loss = (torch.sin(out) * torch.tensor(weights(out.shape))).sum()
    first = torch.autograd.grad(loss, a, create_graph=True)
    numpy = lambda ts: tuple(t.detach().numpy() for t in ts)
    if not second:
        return out.detach().numpy(), numpy(first)
    dot = sum((g * v.detach()).sum() for g, v in zip(first, a))
    return out.detach().numpy(), numpy(first), numpy(torch.autograd.grad(dot, a))


def by_tensorflow(fun, *args):
    a = [tf.constant(v) for v in args]
    with tf.GradientTape() as outer:
        outer.watch(a)
        with tf.GradientTape() as inner:
            inner.watch(a)
            out = fun(*a)
            loss = tf.reduce_sum(tf.sin(out) * weights(out.shape))
        first = [tf.convert_to_tensor(g) for g in inner.gradient(loss, a)]
        dot = tf.add_n([tf.reduce_sum(g * v) for g, v in zip(first, args)])
    zero = tf.UnconnectedGradients.ZERO
    second = outer.gradient(dot, a, unconnected_gradients=zero)
    numpy = lambda ts: tuple(tf.convert_to_tensor(t).numpy() for t in ts)
    return out.numpy(), numpy(first), numpy(second)


def same(got, want):
    check = lambda g, w: np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)
    jax.tree.map(check, got, want)


# -- PyTorch ---------------------------------------------------------------------------

LONG = torch.tensor(INDEX), torch.tensor(ROWS)


def torch_cases():
    at, ids = LONG
    index, rows = jnp.asarray(INDEX), jnp.asarray(ROWS)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for self in (True, False):
            o = dict(include_self=self)
            yield (
                f"scatter_reduce {reduce} {self}",
                lambda x, u, r=reduce, o=o: js.mint.scatter_reduce(
                    x, 0, index, u, r, **o
                ),
                lambda x, u, r=reduce, o=o: x.scatter_reduce(0, at, u, r, **o),
            )
            if reduce != "sum":
                yield (
                    f"index_reduce {reduce} {self}",
                    lambda x, u, r=reduce, o=o: js.mint.index_reduce(
                        x, 0, rows, u, r, **o
                    ),
                    lambda x, u, r=reduce, o=o: x.index_reduce(0, ids, u, r, **o),
                )
    yield (
        "scatter_add",
        lambda x, u: js.mint.scatter_add(x, 0, index, u),
        lambda x, u: x.scatter_add(0, at, u),
    )
    yield (
        "index_add",
        lambda x, u: js.mint.index_add(x, 0, rows, u, alpha=2.5),
        lambda x, u: x.index_add(0, ids, u, alpha=2.5),
    )
    once = np.array([3, 1, 0])  # PyTorch's set is right where no index is twice
    yield (
        "index_copy",
        lambda x, u: js.mint.index_copy(x, 0, once, u[:3]),
        lambda x, u: x.index_copy(0, torch.tensor(once), u[:3]),
    )
    yield (
        "index_fill",  # indices that stand twice, too
        lambda x, u: js.mint.index_fill(x, 0, rows, u[0, 0]),
        lambda x, u: x.index_fill(0, ids, u[0, 0]),
    )
    yield (
        "gather",
        lambda x, u: js.mint.gather(x, 0, index) * u,
        lambda x, u: x.gather(0, at) * u,
    )
    yield (
        "index_select",
        lambda x, u: js.mint.index_select(x, 0, rows) * u,
        lambda x, u: x.index_select(0, ids) * u,
    )


TORCH = {name: rest for name, *rest in torch_cases()}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", TORCH)
def test_torch(name):
    fun, peer = TORCH[name]
    same(ours(fun, X, U), by_torch(peer, X, U))


# -- TensorFlow ------------------------------------------------------------------------


def tensorflow_cases():
    for name in ("sum", "prod", "min", "max", "mean", "sqrt_n"):
        fun = getattr(js.tf, f"unsorted_segment_{name}")
        peer = getattr(tf.math, f"unsorted_segment_{name}")
        finite = name in ("sum", "prod", "mean", "sqrt_n")
        n = 5 if finite else 4  # an empty minimum is finfo.max there
        ids = ROWS if finite else np.array([0, 1, 0, 3, 2, 2])
        yield (
            name,
            lambda u, f=fun, n=n, i=ids: f(u, i, n),
            lambda u, f=peer, n=n, i=ids: f(u, i, n),
            (U,),
        )
    for name in ("add", "sub", "max", "min"):
        fun = getattr(js.tf, f"tensor_scatter_nd_{name}")
        peer = getattr(tf, f"tensor_scatter_nd_{name}")
        yield (
            f"tensor_scatter_nd_{name}",
            lambda x, u, f=fun: f(x, POINTS, u),
            lambda x, u, f=peer: f(x, POINTS, u),
            (X, U[:, 0]),
        )
    yield (
        "tensor_scatter_nd_update",
        lambda x, u: js.tf.tensor_scatter_nd_update(x, POINTS[1:5], u),
        lambda x, u: tf.tensor_scatter_nd_update(x, POINTS[1:5], u),
        (X, U[1:5, 0]),
    )
    yield (
        "gather_nd",
        lambda x, u: js.tf.gather_nd(x, POINTS) * u,
        lambda x, u: tf.gather_nd(x, POINTS) * u,
        (X, U[:, 0]),
    )


TENSORFLOW = {name: rest for name, *rest in tensorflow_cases()}


@pytest.mark.parametrize("name", TENSORFLOW)
def test_tensorflow(name):
    fun, peer, args = TENSORFLOW[name]
    same(ours(fun, *args), by_tensorflow(peer, *args))


# -- JAX -------------------------------------------------------------------------------

JAX = {
    "sum": lambda u: jax.ops.segment_sum(u, ROWS, 5),
    "max": lambda u: jax.ops.segment_max(u, ROWS, 5)[jnp.array([0, 2, 3])],
    "min": lambda u: jax.ops.segment_min(u, ROWS, 5)[jnp.array([0, 2, 3])],
    "prod": lambda u: jax.ops.segment_prod(
        u[:3], jnp.array([2, 0, 3]), 5, unique_indices=True
    ),
}


@pytest.mark.parametrize("name", JAX)
def test_jax(name):
    pick = slice(None) if name == "sum" else np.array([0, 2, 3])
    fun = lambda u: getattr(js.ops, f"segment_{name}")(u, ROWS, 5)[pick]
    if name == "prod":  # its gradient wants unique indices
        fun = lambda u: js.ops.segment_prod(u[:3], np.array([2, 0, 3]), 5)
    same(ours(fun, U), ours(JAX[name], U))


# -- zeros, ties, dropped ids: where the peers agree -----------------------------------

# Cells with no, one and many zeros; ties of updates, and of updates with the target.
TIED_X = np.array([[2, 0, 1], [1, 2, 2], [0, 1, -1], [3, 3, 3]], F)
TIED_U = np.array(
    [[2, 0, 1], [0, 2, 2], [2, -1, 1], [3, 0, 0], [0, 0, 2], [-1, 2, 2]], F
)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_torch_at_zeros_and_ties(reduce, self):
    x = TIED_X if self else TIED_X + 9  # a target that is left out must not tie
    index, ids = LONG
    o = dict(include_self=self)
    got = ours(
        lambda x, u: js.mint.scatter_reduce(x, 0, INDEX, u, reduce, **o), x, TIED_U
    )
    peer = lambda x, u: x.scatter_reduce(0, index, u, reduce, **o)
    same(got[:2], by_torch(peer, x, TIED_U, second=False))
    if reduce == "sum":
        return
    got = ours(lambda x, u: js.mint.index_reduce(x, 0, ROWS, u, reduce, **o), x, TIED_U)
    peer = lambda x, u: x.index_reduce(0, ids, u, reduce, **o)
    same(got[:2], by_torch(peer, x, TIED_U, second=False))


DROPPED = np.array([0, 2, -1, 0, -7, 2])


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean", "sqrt_n"])
def test_tensorflow_drops_negative_ids(name):
    fun = getattr(js.tf, f"unsorted_segment_{name}")
    peer = getattr(tf.math, f"unsorted_segment_{name}")
    pick = [0, 2]  # TensorFlow's empty minimum is a finite number
    same(
        ours(lambda u: fun(u, DROPPED, 4)[jnp.array(pick)], TIED_U)[:2],
        by_tensorflow(lambda u: tf.gather(peer(u, DROPPED, 4), pick), TIED_U)[:2],
    )


@pytest.mark.parametrize("name", ["sum", "min", "max"])
def test_jax_drops_ids_beyond_the_end(name):
    ids = np.where(DROPPED < 0, 9, DROPPED)
    fun, peer = (getattr(m.ops, f"segment_{name}") for m in (js, jax))
    pick = jnp.array([0, 2])
    same(*(ours(lambda u, f=f: f(u, ids, 4)[pick], TIED_U) for f in (fun, peer)))


# Segments of equal length as rows of a matrix: what jax.nn and jax.numpy say.
BY_ROW = {
    "mean": lambda x: jnp.mean(x, 1),
    "variance": lambda x: jnp.var(x, 1),
    "variance of a sample": lambda x: jnp.var(x, 1, ddof=1),
    "std": lambda x: jnp.std(x, 1),
    "std of a sample": lambda x: jnp.std(x, 1, ddof=1),
    "logsumexp": lambda x: jax.nn.logsumexp(x, 1),
    "softmax": lambda x: jax.nn.softmax(x, 1),
    "log_softmax": lambda x: jax.nn.log_softmax(x, 1),
    "max": lambda x: jnp.max(x, 1),
    "min": lambda x: jnp.min(x, 1),
    "prod": lambda x: jnp.prod(x, 1),
    "argmax": lambda x: jnp.argmax(x, 1),
    "argmin": lambda x: jnp.argmin(x, 1),
}
MATRIX = np.array([[0, 0, 2, -1], [5, 5, 5, 4], [1, -1, 0, 3]], F)


@pytest.mark.parametrize("name", BY_ROW)
def test_rows_of_a_matrix(name):
    """With ids that are not sorted; also rows of -inf, where JAX has an answer."""
    order = RNG.permutation(12)
    ids, back = np.repeat(np.arange(3), 4)[order], np.argsort(order)
    segment = getattr(js.ops, f"segment_{name.split()[0]}")
    more = dict(ddof=1) if name.endswith("sample") else {}

    def fun(x):
        out = segment(x.reshape(12)[order], ids, 3, **more)
        return out[back].reshape(3, 4) if "softmax" in name else out

    if name.startswith("arg"):
        at = order[np.asarray(fun(MATRIX))] % 4
        rows = np.arange(3)
        np.testing.assert_array_equal(
            MATRIX[rows, at], MATRIX[rows, BY_ROW[name](MATRIX)]
        )
        return
    same(ours(fun, MATRIX), ours(BY_ROW[name], MATRIX))
    low = np.array([[-np.inf] * 4, [0, -np.inf, 1, 1], [np.inf, 0, 0, 0]], F)
    if name in ("max", "min", "logsumexp", "mean"):
        np.testing.assert_allclose(fun(low), BY_ROW[name](low), rtol=1e-6)


def test_enough_was_compared():
    assert len(TORCH) >= 23 and len(TENSORFLOW) >= 12 and len(JAX) >= 4
    assert len(BY_ROW) >= 13


# -- where they differ: the peer's answer, and the arithmetic --------------------------


def torch_gradient(fun, *args):
    a = [torch.tensor(v, dtype=torch.float32, requires_grad=True) for v in args]
    return [g.tolist() for g in torch.autograd.grad(fun(*a).sum(), a)]


def gradient(fun, *args):
    args = [jnp.asarray(v, F) for v in args]
    loss = lambda *a: fun(*a).sum()
    return [g.tolist() for g in jax.grad(loss, tuple(range(len(args))))(*args)]


def test_every_writer_of_a_set_gets_the_cotangent():
    """Only one of the two is in the result: the gradients must have sum 1, not 2."""
    args = [9.0, 9.0], [1.0, 2.0]
    twice = torch.tensor([0, 0])
    assert torch_gradient(lambda x, u: x.scatter(0, twice, u), *args) == [
        [0, 1],
        [1, 1],
    ]
    _, (_, du), _ = by_tensorflow(
        lambda x, u: tf.tensor_scatter_nd_update(x, [[0], [0]], u), *map(F, args)
    )
    assert du[0] != 0 and du[1] != 0
    got = gradient(lambda x, u: js.mint.scatter(x, 0, [0, 0], u), *args)
    assert got == [[0, 1], [0, 1]]


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_an_excluded_target_counts_in_torch():
    """out = max(u) whatever the target: d out / d u = 1, not 1/2."""
    args, zero = ([1.0, 1.0], [1.0]), torch.tensor([0])
    o = dict(include_self=False)
    for peer in (
        lambda x, u: x.scatter_reduce(0, zero, u, "amax", **o),
        lambda x, u: x.index_reduce(0, zero, u, "amax", **o),
    ):
        assert torch_gradient(peer, *args)[1] == [0.5]
    for fun in (
        lambda x, u: js.mint.scatter_reduce(x, 0, [0], u, "amax", **o),
        lambda x, u: js.mint.index_reduce(x, 0, [0], u, "amax", **o),
    ):
        assert gradient(fun, *args)[1] == [1]


def test_second_derivatives_of_products_at_zeros():
    """d2 (a b c) / da db = c = 3 at a = b = 0: PyTorch raises, TensorFlow says NaN."""
    zeros = np.array([0, 0, 3], F)
    ids = np.zeros(3, np.int64)
    product = lambda u: torch.ones(1).scatter_reduce(0, torch.tensor(ids), u, "prod")
    with pytest.raises(RuntimeError, match="Double backward is unsupported"):
        by_torch(product, zeros)
    _, _, (second,) = by_tensorflow(
        lambda u: tf.math.unsorted_segment_prod(u, ids, 1), zeros
    )
    assert np.isnan(second).any()
    hessian = jax.hessian(lambda u: js.ops.segment_prod(u, ids, 1)[0])(zeros)
    assert hessian.tolist() == [[0, 3, 0], [3, 0, 0], [0, 0, 0]]


def test_plain_jax_has_no_gradient_of_products():
    with pytest.raises(NotImplementedError, match="unique_indices"):
        jax.grad(lambda u: jax.ops.segment_prod(u, ROWS[:3], 4).sum())(U[:3])


def test_a_fill_that_takes_part():
    """Two equal entries share 1 as 1/2 and 1/2; a fill of -inf is nobody's."""
    low, ids = jnp.full(2, -jnp.inf), np.zeros(2, np.int32)
    theirs = jax.grad(lambda x: jax.ops.segment_max(x, ids, 1)[0])(low)
    np.testing.assert_allclose(theirs, [1 / 3, 1 / 3], rtol=1e-6)
    mine = jax.grad(lambda x: js.ops.segment_max(x, ids, 1)[0])(low)
    assert mine.tolist() == [0.5, 0.5]
    _, (theirs,), _ = by_tensorflow(
        lambda x: tf.math.unsorted_segment_max(x, ids, 1), np.ones(2, F)
    )
    np.testing.assert_allclose(theirs, np.cos(F(1)) / 2 * np.ones(2), rtol=1e-6)


def test_a_thousand_ties_in_bfloat16():
    """1/1000 each; JAX counts them in bfloat16, which stops at 256."""
    ones, ids = jnp.ones(1000, jnp.bfloat16), np.zeros(1000, np.int32)
    theirs = jax.grad(lambda x: jax.ops.segment_max(x, ids, 1)[0])(ones)
    mine = jax.grad(lambda x: js.ops.segment_max(x, ids, 1)[0])(ones)
    assert float(theirs[0]) == 1 / 256
    assert mine[0] == jnp.asarray(0.001, jnp.bfloat16)


def test_nan_in_a_maximum():
    """TensorFlow drops it, PyTorch differentiates it to NaN; ours: the rule is 0."""
    x, ids = np.array([np.nan, 1], F), np.zeros(2, np.int64)
    assert tf.math.unsorted_segment_max(x, ids, 1).numpy().tolist() == [1]
    peer = lambda u: torch.zeros(1).scatter_reduce(0, torch.tensor(ids), u, "amax")
    assert np.isnan(torch_gradient(peer, x)[0]).all()
    assert np.isnan(js.ops.segment_max(x, ids, 1)[0])
    assert gradient(lambda u: js.ops.segment_max(u, ids, 1), x) == [[0, 0]]


def test_an_empty_maximum():
    """The lowest float is -inf: TensorFlow gives the lowest finite one."""
    none, ids = np.zeros(0, F), np.zeros(0, np.int32)
    lowest = np.finfo(F).min
    assert tf.math.unsorted_segment_max(none, ids, 1).numpy()[0] == lowest
    assert js.tf.unsorted_segment_max(none, ids, 1)[0] == -np.inf
