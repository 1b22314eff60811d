"""`jax.ops.segment_*` replaced by ours before a client is imported, and counted.

A pytest plugin (`-p plugin`) and a module for scripts. JSCATTER_CLIENT=jscatter
replaces; "jax" counts JAX's own. JSCATTER_RESULTS names a file for what was seen.
"""

import collections
import json
import os
import sys
import types

import jax
import jax.extend.backend
import jax.lib
import jax.ops

NAMES = [f"segment_{name}" for name in ("sum", "prod", "min", "max")]
calls = collections.Counter()
outcomes = {}


def install():
    if os.environ["JSCATTER_CLIENT"] == "jscatter":
        import jscatter

        source = jscatter.ops
    else:
        source = jax.ops
    for name in NAMES:
        setattr(jax.ops, name, _counted(name, getattr(source, name)))
    # jraph 0.0.6 asks for what JAX has moved.
    bridge = types.ModuleType("jax.lib.xla_bridge")
    vars(bridge)["get_backend"] = jax.extend.backend.get_backend
    sys.modules[bridge.__name__] = jax.lib.xla_bridge = bridge


def _counted(name, function):
    def call(*args, **kwargs):
        calls[name] += 1
        return function(*args, **kwargs)

    return call


def save(**more):
    with open(os.environ["JSCATTER_RESULTS"], "w") as file:
        json.dump({"calls": calls, "outcomes": outcomes, **more}, file)


install()


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.nodeid.split("::", 1)[1]] = report.outcome


def pytest_sessionfinish():
    save()
