"""Packages written against `jax.ops` run on jscatter unchanged.

Each runs twice, on JAX's own segment functions and on ours; the results are the same,
and the calls are counted. Needs the extra `clients`; the stage of that name in .ci/run
sets JSCATTER_CLIENTS=1. jax-md runs in .ci/nightly.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).parent
PYTEST = ["-m", "pytest", "-p", "plugin", "-q", "-n0", "-o", "addopts="]
# jraph's other tests fail on a JAX without `tree_map`.
SEGMENTS = "segment or softmax or aggregat or variance or normal or ModelsTest"
JRAPH = ["jraph._src.utils_test", "jraph._src.models_test", "-k", SEGMENTS]
KERAS = ["keras.src.ops.math_test", "-k", "segment"]
# name: (what to run, the least number of tests that pass)
SUITES = {
    "jraph": ([*PYTEST, "--pyargs", *JRAPH], 50),
    "keras": ([*PYTEST, "--pyargs", *KERAS], 20),
}
if sources := os.environ.get("JSCATTER_JAX_MD"):  # its tests are in its sdist only
    files = [f"{sources}/tests/{name}_test.py" for name in ("partition", "smap")]
    SUITES["jax-md"] = ([*PYTEST, *files], 150)


def results(client, command, folder):
    """What plugin.py saw."""
    path = folder / f"{client}.json"
    environment = os.environ | {
        "JSCATTER_CLIENT": client,
        "JSCATTER_RESULTS": str(path),
        "PYTHONPATH": str(HERE),
        "KERAS_BACKEND": "jax",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "",
    }
    done = subprocess.run(
        [sys.executable, *command],
        env=environment,
        cwd=folder,  # no configuration of ours
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(path.read_text())


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_passes_on_both(name, tmp_path):
    command, least = SUITES[name]
    plain, ours = (results(c, command, tmp_path) for c in ("jax", "jscatter"))
    assert plain["outcomes"] == ours["outcomes"]
    assert list(ours["outcomes"].values()).count("passed") >= least
    assert "failed" not in ours["outcomes"].values()
    assert ours["calls"] == plain["calls"] and sum(ours["calls"].values()) >= 15
    print(f"\n{name}: {len(ours['outcomes'])} tests, {ours['calls']}")


def test_jraphx_trains_alike(tmp_path):
    plain, ours = (
        results(c, [str(HERE / "karate.py")], tmp_path) for c in ("jax", "jscatter")
    )
    assert plain["calls"] == ours["calls"]
    assert ours["calls"]["segment_sum"] >= 3 and ours["calls"]["segment_max"] >= 2
    np.testing.assert_allclose(ours["losses"], plain["losses"], rtol=1e-4, atol=1e-5)
    assert ours["losses"][-1] < 0.05 < ours["losses"][0]
    assert ours["accuracy"] == plain["accuracy"] >= 0.9
