"""`python -m jscatter`: it runs, says what it should, and its exit status is right."""

import collections
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from jscatter._commands import graph_network, karate, main, seeds

QUICK = ("What runs here", "The examples of the documents")
FULL = (*QUICK, "karate club", "Three hot workloads")


def _run(*args):
    root = pathlib.Path(__file__).parents[1]
    command = (sys.executable, *args)
    return subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=600
    )


@pytest.mark.parametrize(
    "args, parts, checks", [(["--quick"], QUICK, 25), ([], FULL, 31)]
)
def test_runs_as_a_command(args, parts, checks):
    start = time.perf_counter()
    done = _run("-m", "jscatter", *args)
    print(f"{time.perf_counter() - start:.1f} s; a minute is the aim")  # no assertion
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("jscatter ")
    assert [part for part in FULL if part in done.stdout] == list(parts)
    assert f"All {checks} checks hold." in done.stdout
    assert "FAILED" not in done.stdout
    steps = done.stdout.split("Next:")[1]
    assert len(re.findall(r"^  python -", steps, re.M)) == 3


def test_next_steps_run():
    commands = re.findall(r"python -c '(.*)'", main._NEXT)
    assert len(commands) == 2
    for command in commands:
        done = _run("-c", command)
        assert done.returncode == 0 and done.stdout, done.stderr


def test_a_check_that_fails(monkeypatch, capsys):
    wrong = seeds.EXAMPLES[3]._replace(expected=np.arange(8, dtype=np.int32))
    monkeypatch.setattr(seeds, "EXAMPLES", (wrong,))
    assert main.main(["--quick"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"1 of \d+ checks FAILED:\n  TensorFlow 1: tf.scatter_nd", out)
    assert "checks hold" not in out


def test_the_exit_status_of_a_check_that_fails():
    code = """if True:
        import runpy, sys
        import numpy as np
        from jscatter._commands import seeds
        wrong = seeds.EXAMPLES[3]._replace(expected=np.zeros(8, np.int32))
        seeds.EXAMPLES = (wrong,)
        sys.argv = ["jscatter", "--quick"]
        runpy.run_module("jscatter", run_name="__main__")
    """
    done = _run("-c", code)
    assert done.returncode == 1 and "checks FAILED" in done.stdout, done.stderr


def test_the_network_notices_a_wrong_sum(monkeypatch):
    wrong = graph_network.plain.PASSING | {"segment_sum": lambda x, ids, n: x[:n]}
    monkeypatch.setattr(graph_network.plain, "PASSING", wrong)
    monkeypatch.setattr(graph_network, "STEPS", 3)
    report = main.Report(2)
    graph_network.run(report)
    assert any("plain JAX's to 1e-5" in name for name in report.failed)


def test_plain_text_says_the_same(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "400")  # no cell is wrapped

    def lines():
        assert main.main(["--quick"]) == 0
        out = capsys.readouterr().out.splitlines()
        words = [re.sub(r"[│┃\s]+", " ", line).strip() for line in out]
        return [w for w in words if re.match(r"\w", w)]  # no rulers, no progress

    rich = lines()
    monkeypatch.setitem(sys.modules, "rich", None)
    assert lines() == rich
    assert sum(w.endswith(" ok") for w in rich) == 24


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        main.main(["--help"])
    assert stop.value.code == 0
    assert "--quick" in capsys.readouterr().out


def test_import_leaves_the_commands_out():
    code = "import sys, jscatter; sys.exit('jscatter._commands' in sys.modules)"
    assert _run("-c", code).returncode == 0


def test_karate_club():
    assert karate.NODES == len(karate.CLUB) == 34
    assert len(karate.EDGES) == len(set(karate.EDGES)) == 78
    assert all(0 <= a < b < 34 for a, b in karate.EDGES)
    degrees = collections.Counter(n for edge in karate.EDGES for n in edge)
    assert degrees[0] == 16 and degrees[33] == 17 and len(degrees) == 34
    assert collections.Counter(karate.CLUB) == {0: 17, 1: 17}
    assert karate.CLUB[0] != karate.CLUB[33]
