"""Eight CPU devices; strict promotion, which the library must not lean on."""

import collections
import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="the full product of cases")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full"):
        full = [item for item in items if item.get_closest_marker("full")]
        items[:] = [item for item in items if item not in full]
        config.hook.pytest_deselected(items=full)


@pytest.fixture
def every_way(key, pytestconfig):
    """Whether a case meets all that a test has: one of a rule does, and all nightly."""
    import cases  # after the settings above

    return key in cases.RULE_KEYS or pytestconfig.getoption("--full")


def pytest_terminal_summary(terminalreporter):
    """Minutes of work per file, so that a file that grows is seen."""
    seconds = collections.Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration"):
                seconds[report.nodeid.split("::")[0]] += report.duration
    for name, s in seconds.most_common():
        if s > 6:
            terminalreporter.write_line(f"{s / 60:5.1f} min of work in {name}")


# These mean something only in a process with JAX_ENABLE_X64=1.
collect_ignore = [] if jax.config.jax_enable_x64 else ["test_x64.py"]
# These need other frameworks; see .ci/run.
if not os.environ.get("JSCATTER_CONFORMANCE"):
    collect_ignore.append("conformance")
# These run packages that use JAX's segment functions; likewise. Two are no tests.
collect_ignore += ["clients/plugin.py", "clients/karate.py"]
if not os.environ.get("JSCATTER_CLIENTS"):
    collect_ignore.append("clients")
