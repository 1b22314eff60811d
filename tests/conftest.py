"""Eight CPU devices; strict promotion, which the library must not lean on."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="the full product of cases")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full"):
        full = [item for item in items if item.get_closest_marker("full")]
        items[:] = [item for item in items if item not in full]
        config.hook.pytest_deselected(items=full)


# These mean something only in a process with JAX_ENABLE_X64=1.
collect_ignore = [] if jax.config.jax_enable_x64 else ["test_x64.py"]
