"""Every transformation of every public function, in every index form.

In CI each transformation meets every function and every form at least once; the full
product is marked `full`.
"""

import contextlib

import cases
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from cases import CASES, FEWER, KEYS, ONCE, weighted
from jax import lax
from jax.test_util import check_grads


def same(got, want, tol=2e-5):
    def check(g, w):
        assert g.dtype == w.dtype, (g.dtype, w.dtype)
        np.testing.assert_allclose(g, w, rtol=tol, atol=tol)

    jax.tree.map(check, got, want)


def batch(args, axis=0):
    return [jnp.stack([a, 2 * a], axis) for a in args]


def all_of(args):
    return tuple(range(len(args)))


def without_jit(f, *a):
    with jax.disable_jit():
        return f(*a)


def scan(f, *a):
    step = lambda c, _: (c + 1, f(*(c * v for v in a)))
    return lax.scan(step, np.float32(1), None, 3)


def fori(f, *a):
    step = lambda k, c: c + f(*(k.astype(v.dtype) * v for v in a))
    return lax.fori_loop(np.int32(0), np.int32(3), step, f(*a))


def cond(f, *a):
    zero = lambda *a: jnp.zeros_like(f(*a))
    return lax.cond(a[0].sum() < 1e9, f, zero, *a)


def custom_vjp(f, *a):
    g = jax.custom_vjp(f)
    g.defvjp(lambda *a: jax.vjp(f, *a), lambda pull, ct: pull(ct))
    return jax.vjp(g, *a)[1](f(*a))


FORWARD = {
    "eager": lambda f, *a: f(*a),
    "jit": lambda f, *a: jax.jit(f)(*a),
    "disable_jit": without_jit,
    "eval_shape": lambda f, *a: jnp.zeros_like(jax.eval_shape(f, *a)),
    "vmap": lambda f, *a: jax.vmap(f)(*batch(a)),
    "vmap last": lambda f, *a: jax.vmap(f, -1, -1)(*batch(a, -1)),
    "vmap of vmap": lambda f, *a: jax.vmap(jax.vmap(f, -1))(*batch(batch(a, -1))),
    "vmap one argument": lambda f, *a: jax.vmap(lambda v: f(*a[:-1], v))(
        *batch(a[-1:])
    ),
    "vmap axis_name": lambda f, *a: jax.vmap(
        lambda *a: lax.psum(f(*a), "b"), axis_name="b"
    )(*batch(a)),
    "scan": scan,
    "fori": fori,
    "cond": cond,
    "checkpoint": lambda f, *a: jax.checkpoint(f)(*a),
    "map": lambda f, *a: lax.map(lambda a: f(*a), tuple(batch(a))),
}


def grad_scan(f, *a):
    def total(*a):
        step = lambda c, s: (c + weighted(f)(*(s * v for v in a)), None)
        return lax.scan(step, jnp.zeros((), a[0].dtype), 1 + jnp.arange(3, dtype="f4"))[
            0
        ]

    return jax.grad(total, all_of(a))(*a)


def third(f, *a):
    square = lambda *a: (jax.jvp(jax.grad(weighted(f)), a, a)[1] ** 2).sum()
    return jax.grad(square)(*a)


def grad_cond(f, *a):
    loss = lambda *a: lax.cond(
        a[0].sum() < 1e9, weighted(f), lambda *a: np.float32(0), *a
    )
    return jax.grad(loss)(*a)


DERIVATIVES = {
    "grad": lambda f, *a: jax.grad(weighted(f), all_of(a))(*a),
    "jit grad": lambda f, *a: jax.jit(jax.grad(weighted(f)))(*a),
    "jvp": lambda f, *a: jax.jvp(f, a, tuple(v + 1 for v in a)),
    "jvp of first": lambda f, *a: jax.jvp(lambda x: f(x, *a[1:]), a[:1], a[:1]),
    "linearize": lambda f, *a: (lambda y, push: (y, push(*a)))(*jax.linearize(f, *a)),
    "vjp": lambda f, *a: jax.vjp(f, *a)[1](f(*a)),
    "jacfwd": lambda f, *a: jax.jacfwd(f, all_of(a))(*a),
    "jacrev": lambda f, *a: jax.jacrev(f, all_of(a))(*a),
    "hessian": lambda f, *a: jax.hessian(weighted(f), len(a) - 1)(*a),
    "reverse over reverse": lambda f, *a: jax.jacrev(jax.grad(weighted(f), len(a) - 1))(
        *a
    ),
    "reverse over forward": lambda f, *a: jax.jacrev(jax.jacfwd(weighted(f)))(*a),
    "forward over forward": lambda f, *a: jax.jacfwd(jax.jacfwd(weighted(f)))(*a),
    "third order": third,
    "vmap of grad": lambda f, *a: jax.vmap(jax.grad(weighted(f)))(*batch(a)),
    "grad of vmap": lambda f, *a: jax.grad(weighted(jax.vmap(f)))(*batch(a)),
    "linear_transpose": lambda f, *a: jax.linear_transpose(f, *a)(f(*a)),
    "transpose of last": lambda f, *a: jax.linear_transpose(
        lambda v: f(*(0 * w for w in a[:-1]), v), a[-1]
    )(f(*a)),
    "grad of scan": grad_scan,
    "grad of cond": grad_cond,
    "grad of checkpoint": lambda f, *a: jax.grad(weighted(jax.checkpoint(f)))(*a),
    "custom_vjp": custom_vjp,
}


ALL = FORWARD | DERIVATIVES
# For what is composed of rules that meet them all.
FEW = set("eager jit vmap scan cond checkpoint jvp hessian".split())
FEW |= {"disable_jit", "vmap last", "jit grad", "vmap of grad"}
EAGERLY = {"eager", "disable_jit", "grad"}


@pytest.mark.parametrize("form", [f for f in cases.FORMS if f != "nd one vector"])
def test_every_form_meets_what_goes_wrong(form):
    """Cells met twice, updates that are dropped, cells that receive nothing."""
    kind, dim, x, i, u = cases.FORMS[form]
    cells = oracle.received(kind, x, i, u, dim=dim).values()
    sites = [to for _, to in oracle.sites(kind, x.shape, i, dim)]
    assert sum(len(got) > 1 for got in cells) >= min(2, x.size)
    if form not in ("nd K=0", "nd rank 0"):  # there every update is the whole operand
        assert None in sites
        assert any(not got for got in cells)


@pytest.mark.parametrize("key", KEYS)
def test_every_transformation(key, every_way):
    """All in one compilation, which takes a third of the time of one for each.

    If that fails, they run one by one, so that the report names those that are wrong.
    """
    case = CASES[key]
    kinds = ALL
    if not case.linear or case.op in (
        "set",
        "fill",
    ):  # a rule of its own: not transposed at once
        kinds = {k: f for k, f in kinds.items() if "transpose" not in k}
        if not every_way:
            kinds = {k: f for k, f in kinds.items() if k in FORWARD or k in FEW}
    plain = kinds | {"disable_jit": ALL["eager"]}
    every = lambda fun, kinds: lambda *a: {k: f(fun, *a) for k, f in kinds.items()}
    # The references are matmuls: XLA need not think hard about them.
    quick = {"xla_backend_optimization_level": 0}
    references = jax.jit(every(case.reference, plain), compiler_options=quick)
    want = references(*case.args)

    def check(kinds):
        compiled = {k: f for k, f in kinds.items() if k not in EAGERLY}
        options = None if every_way else quick
        run = jax.jit(every(case.run, compiled), compiler_options=options)
        got = run(*case.args)
        for kind in kinds.keys() & EAGERLY:
            got[kind] = kinds[kind](case.run, *case.args)
        same(got, {kind: want[kind] for kind in kinds})

    try:
        check(kinds)
    except Exception:
        failed = {}
        for kind, transform in kinds.items():
            try:
                check({kind: transform})
            except Exception as error:
                failed[kind] = f"{type(error).__name__}: {str(error)[:300]}"
        assert not failed
        raise


@pytest.mark.parametrize("key", ["tf.scatter_nd nd", "mint.gather along short"])
def test_finite_differences(key):
    case = CASES[key]
    sine = lambda *a: jnp.sin(case.run(*a))
    check_grads(sine, case.args, 2, ("fwd", "rev"), 3e-2, 3e-2)


@pytest.mark.parametrize("key", KEYS)
def test_vmap_of_each_argument(key, every_way, pytestconfig):
    """Every subset of (operand, indices, updates), each with an axis of its own."""
    case = CASES[key]
    places = (0, 1, -1)
    rng = np.random.default_rng(len(key))
    used = [k in (1, *case.floats) for k in range(3)]
    got, want, calls = {}, {}, {}
    masks = list(np.ndindex(2, 2, 2))[1:]
    if not every_way:
        masks = [(0, 1, 0), (0, 0, 1), (1, 1, 1)]
    for mask in masks:
        if any(m and not u for m, u in zip(mask, used)):
            continue
        for _ in range(3 if pytestconfig.getoption("--full") else 1):
            axes = [
                rng.choice(places[: 1 + min(v.ndim, 2)]).item() if m else None
                for m, v in zip(mask, case.arrays)
            ]
            args = [
                v if a is None else np.stack([v, np.flip(v)], a)
                for v, a in zip(case.arrays, axes)
            ]
            each = [
                [v if a is None else np.take(v, b, a) for v, a in zip(args, axes)]
                for b in range(2)
            ]
            out = [case.loops(*one) for one in each]
            out_axis = rng.choice(places[: 1 + min(out[0].ndim, 2)]).item()
            which = f"in {axes}, out {out_axis}"
            calls[which] = jax.vmap(case.call, axes, out_axis), args
            want[which] = np.stack(out, out_axis)
    got = jax.jit(lambda all_args: {k: calls[k][0](*a) for k, a in all_args.items()})(
        {k: args for k, (_, args) in calls.items()}
    )
    for which in calls:
        np.testing.assert_allclose(got[which], want[which], 2e-5, 2e-5, err_msg=which)


@pytest.mark.parametrize("key", FEWER)
def test_strict_modes_and_internal_checks(key):
    case = CASES[key]
    with jax.enable_checks(True):
        jax.vmap(case.run)(*batch(case.args))
        jax.hessian(weighted(case.run), len(case.args) - 1)(*case.args)


@contextlib.contextmanager
def counting_traces():
    from jscatter import _call

    before = _call.compiled._cache_size()
    counts = []
    yield counts
    counts.append(_call.compiled._cache_size() - before)


@pytest.mark.parametrize("key", sorted(ONCE))
def test_second_calls_do_not_retrace(key):
    case = CASES[key]
    case.run(*case.args)
    with counting_traces() as counts:
        for k in range(3):
            case.run(*(k * v for v in case.args))
    assert counts == [0]
