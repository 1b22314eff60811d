"""Every public function in every index form: over devices, and exported.

What is special about one of them stands in test_sharding and test_lowering.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, FEWER, KEYS
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

QUICK = {"xla_backend_optimization_level": 0}  # for references
PLATFORMS = ("cpu", "tpu", "cuda")
COLLECTIVES = (
    "all-gather all-reduce all-to-all collective-permute reduce-scatter".split()
)


def mesh(*shape, kind=AxisType.Auto):
    return jax.make_mesh(
        shape, tuple("xy"[: len(shape)]), axis_types=(kind,) * len(shape)
    )


def same(got, want):
    check = lambda g, w: np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5)
    jax.tree.map(check, got, want)


def finite_sine(x):  # an empty cell of a minimum holds infinity
    return jnp.sin(jnp.where(jnp.isfinite(x), x, 0))


def by_two(case):
    """Two devices' ids and last float argument, stacked."""
    ids, last = case.arrays[1], case.args[-1]
    return np.stack([ids, np.flip(ids)]), np.stack([last, 1 + np.flip(last) / 2])


def over_devices(case, m, **options):
    """The sum over "x" of a function of ids and one argument that vary over "x"."""
    ids, _ = by_two(case)

    def body(first, ids, last):
        out = case.call(*case.filled((*first, last[0]), ids[0]))
        return lax.psum(finite_sine(out), "x")

    f = jax.shard_map(
        body, mesh=m, in_specs=(P(), P("x"), P("x")), out_specs=P(), **options
    )
    return lambda first, last, ids=ids: f(first, ids, last)


def on_one_device(case):
    def f(first, last):
        each = zip(by_two(case)[0], last)
        return sum(
            finite_sine(case.reference(*first, v, indices=ids)) for ids, v in each
        )

    return f


def values_and_gradients(f, every_way):
    """By both kinds of argument; of the first case of a reduction two orders."""

    def of(*args):
        loss = lambda *args: (f(*args) ** 2).sum()
        gradient = jax.grad(loss, (0, 1))
        if not every_way:
            return f(*args), gradient(*args)
        return f(*args), gradient(*args), jax.jvp(gradient, args, args)[1]

    return of


@pytest.mark.parametrize("key", KEYS)
def test_shard_map(key, every_way):
    """Replicated operand, sharded ids and updates; all axes manual, or one of two."""
    case = CASES[key]
    m = mesh(2, 2)
    ways = {
        "manual": over_devices(case, m),
        "unchecked": over_devices(case, m, check_vma=False),
        "partly manual": over_devices(case, m, axis_names={"x"}),
    }
    if not every_way:  # another spelling of the same
        ways = {"manual": ways["manual"]}
    args = case.args[:-1], by_two(case)[1]
    got = jax.jit(
        lambda *args: {
            way: values_and_gradients(f, every_way)(*args) for way, f in ways.items()
        }
    )(*args)
    reference = values_and_gradients(on_one_device(case), every_way)
    want = jax.jit(reference, compiler_options=QUICK)(*args)
    for result in got.values():
        same(result, want)


@pytest.mark.parametrize("key", FEWER)
def test_shard_map_on_an_explicit_mesh(key, every_way):
    case = CASES[key]
    m = mesh(2, kind=AxisType.Explicit)
    reference = values_and_gradients(on_one_device(case), every_way)
    want = jax.jit(reference, compiler_options=QUICK)
    ids, last = by_two(case)
    with jax.set_mesh(m):
        put = lambda v, *spec: jax.device_put(v, NamedSharding(m, P(*spec)))
        ids = put(ids, "x")
        f = over_devices(case, m)
        run = jax.jit(values_and_gradients(lambda *a: f(*a, ids), every_way))
        got = run(tuple(put(v) for v in case.args[:-1]), put(last, "x"))
    same(got, want(case.args[:-1], last))


@pytest.mark.parametrize("key", KEYS)
def test_a_sharded_batch_stays_where_it_is(key):
    """vmap over a sharded axis: right, on every device its part, and no collective."""
    check_sharded_batch(CASES[key], AxisType.Auto)


@pytest.mark.parametrize("key", FEWER)
def test_a_sharded_batch_on_an_explicit_mesh(key):
    check_sharded_batch(CASES[key], AxisType.Explicit)


def check_sharded_batch(case, kind):
    m = mesh(4, kind=kind)
    shifted = lambda v, k: np.roll(v, k, 0) if v.ndim else v
    each = [[shifted(v, k) for v in case.arrays] for k in range(4)]
    arrays = [np.stack(one) for one in zip(*each)]
    rows = NamedSharding(m, P("x"))
    with jax.set_mesh(m):
        put = [jax.device_put(a, rows) for a in arrays]
        f = jax.jit(jax.vmap(case.call))
        got, text = f(*put), f.lower(*put).compile().as_text()
    assert got.sharding.is_equivalent_to(rows, got.ndim)
    if kind == AxisType.Explicit:
        assert jax.typeof(got).sharding.spec[0] == "x"
    same(got, np.stack([case.loops(*one) for one in each]))
    assert not [c for c in COLLECTIVES if c in text]


def symbols(case):
    """The arrays' types with each size but the index vectors' replaced by a symbol."""
    shapes = [list(v.shape) for v in case.arrays]
    depth = [shapes[1].pop()] if case.form.startswith("nd") else []
    sizes = sorted({n for shape in shapes for n in shape})
    names = dict(zip(sizes, "abcdefgh"))
    # what the rules of an index smaller than its operand need to know
    order = [f"{names[m]} >= {names[n]} + 1" for n, m in itertools.pairwise(sizes)]
    known = jax.export.symbolic_shape(",".join(names.values()), constraints=order)
    dims = dict(zip(sizes, known))
    x, i, u = ([dims[n] for n in shape] for shape in shapes)
    arrays = zip((x, i + depth, u), case.arrays)
    return [jax.ShapeDtypeStruct(shape, v.dtype) for shape, v in arrays]


@pytest.mark.parametrize("key", KEYS)
def test_export_and_back(key, every_way):
    """For platforms that are not here, with sizes unknown, with gradients."""
    case = CASES[key]
    places = tuple(range(len(case.floats)))
    squared = lambda f: lambda *args: (finite_sine(f(*args)) ** 2).sum()

    def program(*arrays):
        arguments = case._replace(arrays=arrays)
        out = arguments.run(*arguments.args)
        return out, jax.grad(squared(arguments.run), places)(*arguments.args)

    export = jax.export.export(jax.jit(program), platforms=PLATFORMS)
    exported = export(*symbols(case)).serialize(vjp_order=1)
    back = jax.export.deserialize(exported)
    assert back.platforms == PLATFORMS
    out, gradients = back.call(*case.arrays)
    same(out, case.loops(*case.arrays))
    reference = jax.grad(squared(case.reference), places)
    want = jax.jit(reference, compiler_options=QUICK)(*case.args)
    same(gradients, want)
    if not every_way:
        return
    by_export = squared(lambda *args: back.call(*case.filled(args))[0])
    same(jax.jit(jax.grad(by_export, places))(*case.args), want)
