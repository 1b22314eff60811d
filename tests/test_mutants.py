"""Faults that are put in on purpose: for each a test that must fail.

First the library with one line of it wrong, then plain JAX under our names, where plain
JAX has another answer. Without the fault each test passes.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import plain_jax
import pytest
import test_derivatives
import test_magnitudes
import test_numerics
import test_products
import test_seeds
import test_spellings

import jscatter as js
from jscatter import _call, _canonical, _primitive, _reduce, _scatter, _xla
from jscatter._reduce import (
    _cells,
    _exponential,
    _extremum,
    _moments,
    _product,
    _winner,
)

F, I = np.float32, np.int32


@pytest.fixture(autouse=True)
def fresh():
    """No trace of the right library, nor of the wrong one."""
    jax.clear_caches()
    yield
    jax.clear_caches()


def wrong_resolve(scatter, *, wrap, clip, _right=_canonical.resolve):
    return _right(scatter, wrap=True, clip=clip)


def no_clip(scatter, *, wrap, clip, _right=_canonical.resolve):
    return _right(scatter, wrap=wrap, clip=False)


def without_the_last(shape, ids, dim=0, _right=_canonical.rows):
    place = _right(shape, ids, dim)
    if place.indices.ndim != 2 or not place.indices.shape[0]:
        return place
    return place._replace(indices=place.indices.at[-1].set(-1))


def by_dividing(cells, x):
    out = _product.product(cells, cells.full(1, x), x)
    return cells.take(out) / x


def first_wins(cells, _right=_winner._winners):
    """The row numbers counted from the end."""
    numbers = _extremum.row_numbers
    backwards = lambda c, u: 10**6 - numbers(c, u)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_winner, "row_numbers", backwards)
        return _right(cells)


def unscaled(cells, operand, updates):
    return jnp.sqrt(cells.add(operand**2, cells.kept(updates) ** 2))


def in_its_own_dtype(options, dtype):
    return options


def half_counts(count, x):
    """As far as adding ones in bfloat16 comes."""
    return jnp.clip(count, 1, 256).astype(x.dtype)


def target_counts(
    op, cells, operand, updates, include_self=True, _right=_extremum.extremum
):
    return _right(op, cells, operand, updates)


def nan_fill(operand, indices, *, dnums, window, options, _right=_primitive.gather):
    out = _right(operand, indices, dnums=dnums, window=window, options=options)
    inside = _scatter.in_bounds(
        _scatter.Scatter(indices, dnums, operand.shape, out.shape)
    )
    return jnp.where(inside, out, jnp.asarray(jnp.nan, out.dtype))


def unshifted(cells, updates, operand=None):
    x = cells.kept(updates)
    return x, operand, cells.full(0, x)


def promised(call, place, _right=_call._primitive_options):
    out = _right(call, place)
    o = call.options
    return dataclasses.replace(out, unique_indices=o.unique_indices)


# name: (object, attribute, what stands there instead, the test that must fail)
MUTANTS = {
    "wraps what must be dropped": (
        _canonical,
        "resolve",
        wrong_resolve,
        test_spellings.test_counts,
    ),
    "does not clip": (
        _canonical,
        "resolve",
        no_clip,
        test_derivatives.test_clipped_rows_take_part,
    ),
    "drops the last update": (
        _canonical,
        "rows",
        without_the_last,
        test_spellings.test_truth_of_numbers,
    ),
    "NaN leaks out of dropped rows": (
        _cells.Cells,
        "kept",
        lambda self, updates, fill=0: updates,
        lambda: test_derivatives.test_a_dropped_row_leaks_nothing("variance"),
    ),
    "arithmetic in the indices' narrow type": (
        _canonical,
        "widen",
        lambda indices: indices,
        test_spellings.test_more_buckets_than_a_narrow_id_can_number,
    ),
    "no cast to varying": (
        _xla,
        "common_varying",
        lambda function, *arrays: arrays,
        lambda: test_derivatives.test_a_replicated_target_with_varying_updates("set"),
    ),
    "sums in half precision": (
        _cells,
        "accumulating",
        in_its_own_dtype,
        lambda: test_numerics.test_sums_of_5000_ones(jnp.bfloat16),
    ),
    "ties are not shared": (
        _extremum,
        "divisor",
        lambda count, x: jnp.ones_like(x),
        test_derivatives.test_segments_of_equal_infinities_share,
    ),
    "ties are counted in bfloat16": (
        _extremum,
        "divisor",
        half_counts,
        lambda: test_derivatives.test_a_thousand_ties_in_half_precision(jnp.bfloat16),
    ),
    "an excluded target counts": (
        _reduce,
        "extremum",
        target_counts,
        lambda: test_derivatives.test_ties_share_evenly("amax", False),
    ),
    "the first one wins": (
        _winner,
        "_winners",
        first_wins,
        test_derivatives.test_the_last_one_wins_in_value_and_gradient,
    ),
    "products are differentiated by dividing": (
        _product,
        "_leave_one_out",
        by_dividing,
        lambda: test_products.test_products_are_exact("rows"),
    ),
    "norms are not scaled": (
        _moments,
        "norm",
        unscaled,
        lambda: test_magnitudes.test_norms_of_any_magnitude(
            "std", test_magnitudes.std_exact
        ),
    ),
    "exponentials are not shifted": (
        _exponential,
        "_shifted",
        unshifted,
        test_derivatives.test_exponentials_at_infinity,
    ),
    "narrow floats are moved as numbers": (
        _xla,
        "_bits",
        lambda x: x,
        lambda: test_numerics.test_set_and_gather_move_bits("float8_e5m2"),
    ),
    "gathers read NaN outside": (
        _primitive,
        "gather",
        nan_fill,
        test_numerics.test_empty_gathers,
    ),
    "a promise outlives a clip": (
        _call,
        "_primitive_options",
        promised,
        test_numerics.test_promises_are_about_the_indices_as_given,
    ),
}


def passes(test):
    try:
        test()
    except BaseException as error:  # pytest.fail and failed raises() too
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_found(name, monkeypatch):
    of, attribute, fault, test = MUTANTS[name]
    assert passes(test)
    jax.clear_caches()
    monkeypatch.setattr(of, attribute, fault)
    assert not passes(test)


# Where plain JAX has another answer, or none.
PLAIN = {
    "sums stop at 256": lambda: test_numerics.test_sums_of_5000_ones(jnp.bfloat16),
    "and so do gradients": lambda: test_numerics.test_gradients_of_gathers_of_5000_ones(
        jnp.bfloat16
    ),
    "-1 wraps (TensorFlow)": test_seeds.test_tf_departures,
    "-1 wraps (PyTorch's names)": lambda: test_numerics.test_dropped_rows_leak_nothing(
        np.inf
    ),
    "NaN outside": test_numerics.test_empty_gathers,
    "wide indices alias": lambda: test_numerics.test_wide_numpy_indices_never_alias(
        2**32 + 1
    ),
    "no gradient of products": lambda: test_products.test_products_are_exact(
        "segments"
    ),
    "a fill shares the gradient": (
        test_derivatives.test_segments_of_equal_infinities_share
    ),
    "0 / 0 where a segment is empty": lambda: (
        test_derivatives.test_empty_and_single_segments("mean")
    ),
    "no derivative of std at 0": test_magnitudes.test_equal_rows_and_long_segments,
    "inf - inf in a softmax": test_derivatives.test_exponentials_at_infinity,
    "dropped rows leak": lambda: test_derivatives.test_a_dropped_row_leaks_nothing(
        "std"
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PLAIN)
def test_plain_jax_is_told_apart(name, monkeypatch):
    assert passes(PLAIN[name])
    jax.clear_caches()
    for module in (js.tf, js.mint, js.ops):
        of = getattr(plain_jax, module.__name__.split(".")[1].upper())
        for function in of:
            monkeypatch.setattr(module, function.__name__, function)
    assert not passes(PLAIN[name])
