"""Every example and statement of the four documents that the spellings come from.

Values are the documents' own. Where we depart from a statement, the test says so.
"""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest

import jscatter as js

# -- BNNSScatterND ---------------------------------------------------------------------

BNNS = {  # indices, gathered values, the scattered descriptor's 3 x 2 x 2 values
    "a scalar index scatters a 2-D slice": (
        np.array([1], np.int32),
        np.array([[20.0, 21.0], [22.0, 23.0]], np.float32),
        [[[0, 0], [0, 0]], [[20, 21], [22, 23]], [[0, 0], [0, 0]]],
    ),
    "a 2-D index scatters a 1-D slice": (
        np.array([[1, 0]], np.int32),
        np.array([[20.0, 21.0]], np.float32),
        [[[0, 0], [0, 0]], [[20, 21], [0, 0]], [[0, 0], [0, 0]]],
    ),
    "a 3-D index scatters a single element": (
        np.array([[[1, 1, 1]]], np.int32),
        np.array([[23.0]], np.float32),
        [[[0, 0], [0, 0]], [[0, 0], [0, 23]], [[0, 0], [0, 0]]],
    ),
}


@pytest.mark.parametrize("name", BNNS)
def test_bnns_examples(name):
    indices, values, want = BNNS[name]
    zeros = np.zeros((3, 2, 2), np.float32)
    none = js.bnns.ReduceFunction.NONE
    got = js.bnns.scatter_nd(none, values, indices, zeros, None)
    np.testing.assert_array_equal(got, want)
    got = js.bnns.scatter_nd(
        op=none, input=values, indices=indices, output=zeros, filter_params=None
    )
    np.testing.assert_array_equal(got, want)
    # "BNNSScatterND is the inverse of BNNSGatherND"
    np.testing.assert_array_equal(js.bnns.gather_nd(got, indices), values)
    np.testing.assert_array_equal(js.bnns.gather_nd(input=got, indices=indices), values)


def test_bnns_reduction_meets_existing_values():
    """'combines scattered values with existing output values'."""
    output, indices = np.full((2,), 3.0, np.float32), np.array([[1], [1]])
    values = np.array([2.0, 5.0], np.float32)
    for op, want in {"sum": 10, "product": 30, "max": 5, "min": 2}.items():
        got = js.bnns.scatter_nd(op, values, indices, output)
        np.testing.assert_array_equal(got, [3, want])


def test_bnns_any_value_where_the_order_is_not_defined():
    got = js.bnns.scatter_nd("NONE", [1.0, 2.0], [[0], [0]], [9.0, 9.0])
    assert got[0] in (1, 2) and got[1] == 9


def test_bnns_numbers_are_apples():
    names = "MAX MIN ARG_MAX ARG_MIN MEAN MEAN_NON_ZERO SUM SUM_SQUARE SUM_LOG L1_NORM"
    names += " LOGICAL_OR LOGICAL_AND L2_NORM LOG_SUM_EXP PRODUCT NONE LOG_SUM"
    for number, name in enumerate(names.split()):
        assert js.bnns.ReduceFunction[name] == number
    assert js.bnns.ReduceFunction.ANY == 10 and js.bnns.ReduceFunction.ALL == 11
    got = js.bnns.scatter_nd(6, [1.0], [[0]], [2.0])  # a number, too
    assert got.tolist() == [3]


def test_bnns_departures():
    """No status code, no write in place, no filter parameters."""
    output = np.zeros(2, np.float32)
    got = js.bnns.scatter_nd("sum", [1.0], [[0]], output)
    assert got.tolist() == [1, 0] and output.tolist() == [0, 0]
    with pytest.raises(TypeError, match="filter_params"):
        js.bnns.scatter_nd("sum", [1.0], [[0]], output, {"n_threads": 2})


# -- tf.scatter_nd (both versions of the document) -------------------------------------

SLICES = [[[5] * 4, [6] * 4, [7] * 4, [8] * 4]] * 2
ZEROS = [[0] * 4] * 4
TF = {
    "elements": (
        [[4], [3], [1], [7]],
        [9, 10, 11, 12],
        [8],
        [0, 11, 0, 10, 9, 0, 0, 12],
    ),
    "slices, version 1": (
        [[0], [2]],
        SLICES,
        [4, 4, 4],
        [SLICES[0], ZEROS, SLICES[0], ZEROS],
    ),
    "slices, version 2.13": (
        [[1], [3]],
        SLICES,
        [4, 4, 4],
        [ZEROS, SLICES[0], ZEROS, SLICES[0]],
    ),
}


@pytest.mark.parametrize("name", TF)
@pytest.mark.parametrize("as_array", [list, np.array, jnp.array])
def test_tf_examples(name, as_array):
    indices, updates, shape, want = TF[name]
    args = [as_array(v) for v in (indices, updates, shape)]
    np.testing.assert_array_equal(js.tf.scatter_nd(*args), want)
    names = ("indices", "updates", "shape")
    named = dict(zip(names, args), name=None)
    np.testing.assert_array_equal(js.tf.scatter_nd(**named), want)
    np.testing.assert_array_equal(js.tf.scatter_nd(*args, "here"), want)
    # "identical to tensor_scatter_nd_add(tf.zeros(shape, values.dtype), indices,
    # values)"
    zeros = np.zeros(shape, np.int32)
    got = js.tf.tensor_scatter_nd_add(zeros, np.array(indices), np.array(updates, "i4"))
    np.testing.assert_array_equal(got, want)
    assert js.tf.tensor_scatter_add is js.tf.tensor_scatter_nd_add


def test_tf_duplicates_are_summed():
    assert js.tf.scatter_nd([[1], [1]], [3, 4], [3]).tolist() == [0, 7, 0]


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_tf_gather_is_the_inverse_where_indices_are_distinct(depth):
    """gather_nd(scatter_nd(i, u, s), i) == u, for every K."""
    rng = np.random.default_rng(depth)
    shape = (3, 4, 2)
    n = int(np.prod(shape[:depth]))
    cells = np.array(list(np.ndindex(*shape[:depth])), np.int32).reshape(n, depth)
    indices = rng.permutation(cells)[: max(1, len(cells) // 2)]
    updates = rng.standard_normal((len(indices), *shape[depth:])).astype(np.float32)
    got = js.tf.gather_nd(js.tf.scatter_nd(indices, updates, shape), indices)
    np.testing.assert_array_equal(got, updates)


def test_tf_departures():
    """An index outside: TensorFlow raises on CPU, ignores on GPU; we drop everywhere.

    indices: every integer dtype, not int16, int32 and int64 alone. shape: any integers,
    not only those of the indices' dtype. A rank-1 index vector and K = 0 are legal.
    Strings, which TensorFlow fills with "", are a TypeError.
    """
    assert js.tf.scatter_nd([[0], [8], [-1]], [1, 2, 3], [2]).tolist() == [1, 0]
    assert js.tf.gather_nd([5, 6], [[0], [2], [-1]]).tolist() == [5, 0, 0]
    small = np.array([[1]], np.uint8)
    assert js.tf.scatter_nd(small, [7], np.array([2], np.int64)).tolist() == [0, 7]
    assert js.tf.scatter_nd([1], 7, [2]).tolist() == [0, 7]
    assert js.tf.scatter_nd(np.zeros((2, 0), int), [3, 4], []).tolist() == 7
    with pytest.raises(TypeError, match="JAX has no strings"):
        js.tf.scatter_nd([[0]], ["a"], [1])


# -- mindspore.mint.scatter_add --------------------------------------------------------

SRC = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32)
MINT = {
    "row": (
        np.array([[1, 2, 3, 4, 5]], np.float32),
        1,
        np.array([[2, 4]], np.int64),
        np.array([[8, 8]], np.float32),
        [[1, 2, 11, 4, 13]],
    ),
    "dim 0": (
        np.zeros((5, 5), np.float32),
        0,
        np.array([[0, 0, 0], [2, 2, 2], [4, 4, 4]], np.int64),
        SRC,
        [[1, 2, 3, 0, 0], [0] * 5, [4, 5, 6, 0, 0], [0] * 5, [7, 8, 9, 0, 0]],
    ),
    "dim 1": (
        np.zeros((5, 5), np.float32),
        1,
        np.array([[0, 2, 4], [0, 2, 4], [0, 2, 4]], np.int64),
        SRC,
        [[1, 0, 2, 0, 3], [4, 0, 5, 0, 6], [7, 0, 8, 0, 9], [0] * 5, [0] * 5],
    ),
}


@pytest.mark.parametrize("name", MINT)
def test_mint_examples(name):
    input, dim, index, src, want = MINT[name]
    got = js.mint.scatter_add(input=input, dim=dim, index=index, src=src)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(js.mint.scatter_add(input, dim, index, src), want)
    lists = (input.tolist(), dim, index.tolist(), src.tolist())
    np.testing.assert_array_equal(js.mint.scatter_add(*lists), want)
    assert got.shape == input.shape and got.dtype == input.dtype


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_mint_formula_for_rank_3(dim):
    """input[index[i][j][k]][j][k] += src[i][j][k] for dim 0, and so on."""
    rng = np.random.default_rng(0)
    input = rng.integers(-9, 9, (3, 3, 3)).astype(np.float32)
    index = rng.integers(0, 3, (2, 2, 2)).astype(np.int32)
    src = rng.integers(-9, 9, (3, 2, 2)).astype(np.float32)
    want = input.copy()
    for i, j, k in np.ndindex(2, 2, 2):
        to = [i, j, k]
        to[dim] = index[i, j, k]
        want[tuple(to)] += src[i, j, k]
    np.testing.assert_array_equal(js.mint.scatter_add(input, dim, index, src), want)


@pytest.mark.parametrize(
    "error, change, text",
    [
        (TypeError, {"index": np.zeros((1, 2), np.int16)}, "int32 or int64"),
        (TypeError, {"index": np.zeros((1, 2), np.uint32)}, "int32 or int64"),
        (TypeError, {"index": np.zeros((1, 2), np.float32)}, "int32 or int64"),
        (ValueError, {"input": np.float32(0)}, "`input` must have rank 1"),
        (ValueError, {"index": np.int32(0)}, "`index` must have rank 1"),
        (ValueError, {"src": np.float32(0)}, "`src` must have rank 1"),
        (ValueError, {"input": np.zeros(5, np.float32)}, "the same rank"),
        (ValueError, {"index": np.zeros(2, np.int32)}, "the same rank"),
        (ValueError, {"src": np.zeros((1, 2, 1), np.float32)}, "the same rank"),
        (ValueError, {"index": np.zeros((2, 2), np.int32)}, "at most"),
        (
            ValueError,
            {"index": np.zeros((2, 2), np.int32), "src": np.zeros((2, 2), np.float32)},
            r"`index.shape\[0\]` must be at most `input.shape\[0\]`",
        ),
        (
            ValueError,
            {"src": np.zeros((1, 1), np.float32)},
            r"`index.shape\[1\]` must be at most `src.shape\[1\]`",
        ),
        (ValueError, {"dim": 2}, r"`dim` must be in \[-2, 2\)"),
        (ValueError, {"dim": -3}, r"`dim` must be in \[-2, 2\)"),
    ],
)
def test_mint_raises(error, change, text):
    input, dim, index, src, _ = MINT["row"]
    args = {"input": input, "dim": dim, "index": index, "src": src} | change
    with pytest.raises(error, match=f"^mint.scatter_add: .*{text}"):
        js.mint.scatter_add(**args)


def test_mint_departures():
    """`dim` is required although the document prints a default of 0.

    Out of bounds is undefined in MindSpore; we drop. `src` must have the input's dtype.
    """
    parameter = inspect.signature(js.mint.scatter_add).parameters["dim"]
    assert parameter.default is inspect.Parameter.empty
    got = js.mint.scatter_add([1, 2], 0, [5, -1, 1], [10, 10, 10])
    assert got.tolist() == [1, 12]
    with pytest.raises(TypeError, match="`src` must have the dtype of `input`"):
        js.mint.scatter_add(np.zeros(2, np.float32), 0, [0], np.zeros(1, np.int32))
