"""Who may call what, what an import loads, what a program holds."""

import ast
import inspect
import pathlib
import re
import subprocess
import sys

import cases
import jax
import pytest
from cases import CASES

from jscatter import _call

ROOT = pathlib.Path(__file__).parent.parent
FILES = sorted((ROOT / "jscatter").rglob("*.py"))
NAMES = [str(f.relative_to(ROOT / "jscatter")) for f in FILES]
OWN = re.compile(
    r"\blax\.(scatter|gather)|^jax\.ops\b"
    r"|^(jnp|jax\.numpy)\.(take|put|choose|apply_along_axis)"
)


def dotted(node, aliases) -> str:
    """a.b.c for such a node, imported names in full; x.at[...].add becomes x.at.add."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value, aliases)}.{node.attr}"
    if isinstance(node, ast.Subscript):
        return dotted(node.value, aliases) + "[]"
    return ""


def offences(source: str, refs: bool = False) -> list[str]:
    """Calls and uses of JAX's own scatters and gathers in a source text."""
    aliases, found = {}, []
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {a.asname: a.name for a in node.names if a.asname}
        elif isinstance(node, ast.ImportFrom):
            full = {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            aliases |= full
            found += [name for name in full.values() if OWN.search(name)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = dotted(node, aliases)
            if OWN.search(name) or (not refs and ".at[]." in name):
                found.append(name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_only_one_file_calls_jax_own_scatters(name):
    if name in ("_xla.py", "_commands/plain.py"):
        assert offences((ROOT / "jscatter" / name).read_text())  # it is what it is for
    else:
        source = (ROOT / "jscatter" / name).read_text()
        assert not offences(source, refs=name.startswith("pallas"))


@pytest.mark.parametrize(
    "source",
    [
        "lax.scatter_add(x, i, u, d)",
        "jax.lax.gather(x, i, d, s)",
        "jax.ops.segment_sum(x, i)",
        "x.at[i].add(u)",
        "x.at[i, ...].set(u)",
        "f = lax.scatter",
        "from jax.lax import scatter_add",
        "y.z.at[i].get()",
        "x.at[i].power(2)",
        "x.at[i].subtract(u)",
        "from jax import ops",
        "from jax.ops import segment_sum as s",
        "from jax import lax as L; L.scatter_add(x, i, u, d)",
        "import jax.lax as L; f = L.gather",
        "import jax as j; j.ops.segment_max(x, i)",
        "from jax.numpy import take_along_axis",
        "import jax.numpy as n; n.take(x, i)",
    ],
)
def test_the_guard_sees(source):
    assert offences(source)


def test_only_the_primitives_touch_what_jax_may_change():
    """No compatibility is promised for jax.extend and jax.interpreters."""
    for name, file in zip(NAMES, FILES):
        internals = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                internals.add(node.module)
            elif isinstance(node, ast.Import):
                internals |= {alias.name for alias in node.names}
        internals = {".".join(m.split(".")[:2]) for m in internals}
        internals &= {"jax._src", "jax.extend", "jax.interpreters", "jax.experimental"}
        allowed = {  # checkify is public, and loaded where it is asked for
            "_primitive.py": {"jax.extend", "jax.interpreters"},
            "_checks.py": {"jax.experimental"},
        }
        assert internals == allowed.get(name, set()), name


def test_files_can_be_read_in_one_sitting():
    long = [n for n, f in zip(NAMES, FILES) if len(f.read_text().splitlines()) > 450]
    assert not long


def test_import_is_light():
    """chex and Pallas cost 70 to 110 ms and more: imported where they are used."""
    code = """if True:
        import sys, time
        import jax, jax.numpy
        before = time.process_time()
        import jscatter
        print(f"added CPU time: {1000 * (time.process_time() - before):.0f} ms")
        heavy = {"chex", "jax.experimental.pallas", "jscatter.pallas"}
        heavy |= {"jscatter._commands", "rich"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
        backends = jax._src.xla_bridge._backends
        assert not backends, "an import must not start a device"
    """
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    print(done.stdout)


def test_the_cases_meet_every_public_function():
    import jscatter as js

    met = {name.split()[0] for name in cases.FUNCTIONS}
    for module in (js.tf, js.mint, js.ops, js.bnns, js.pyg):
        of = module.__name__.split(".")[1]
        public = {
            f"{of}.{value.__name__}"  # an alias has the name of what it stands for
            for name, value in vars(module).items()
            if inspect.isfunction(value) and not name.startswith("_")
            if value.__module__.startswith(module.__name__)
        }
        assert public == {name for name in met if name.startswith(f"{of}.")}


def test_top_level_names_stand_once():
    import jscatter as js

    for module in (js.tf, js.mint, js.ops):
        public = [
            n
            for n, v in vars(module).items()
            if inspect.isfunction(v) and v.__module__.startswith(module.__name__)
        ]
        assert len(public) > 5
        for name in public:
            if not name.startswith(("_", "unsorted_segment_")):
                assert getattr(js, name) is getattr(module, name)
    assert not hasattr(js, "ReduceFunction")


def test_aliases():
    import jscatter as js

    for op in "add sub mul div min max update".split():
        alias = getattr(js.tf, f"tensor_scatter_{op}")
        assert alias is getattr(js.tf, f"tensor_scatter_nd_{op}")


def test_segments_have_the_signature_of_jax_ops():
    """Every argument at its place; and each reaches what it is for."""
    import jax.numpy as jnp

    import jscatter as js

    for name in "sum prod min max mean".split():
        ours = inspect.signature(getattr(js.ops, f"segment_{name}")).parameters
        if name != "mean":
            theirs = inspect.signature(getattr(jax.ops, f"segment_{name}")).parameters
            *named, rest = ours.values()
            assert rest.kind is rest.VAR_KEYWORD
            assert [(p.name, p.default) for p in named] == [
                (p.name, p.default) for p in theirs.values()
            ]
        fun = getattr(js.ops, f"segment_{name}")
        text = lambda *tail: (
            jax.jit(lambda d, i: fun(d, i, 4, *tail))
            .lower(jnp.ones(3), jnp.arange(3))
            .as_text()
        )
        assert "indices_are_sorted = true" in text(True)
        assert "unique_indices = true" not in text(True)
        assert "unique_indices = true" in text(False, True)
        assert "indices_are_sorted = true" not in text(False, True)
        clipped = fun(jnp.full(1, 2.0), jnp.array([9]), 4, False, False, None, "clip")
        assert clipped[3] == 2


# -- what programs hold ----------------------------------------------------------------


def primitives(jaxpr):
    """Names of every equation, looking into nested jaxprs."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for value in eqn.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from primitives(inner)


def scatters(fun, *args):
    found = primitives(jax.make_jaxpr(fun)(*args).jaxpr)
    return [n for n in found if "scatter" in n or "gather" in n]


LAX = {
    "multiply",
    "divide",
    "min",
    "max",
    "set",
    "fill",
}  # the rest is made of our primitives
TRUTH = {"any", "all"}
FLAT = TRUTH | {"arg_max", "arg_min", "argmax", "argmin", "count"}  # no derivative


@pytest.mark.parametrize("key", cases.ONCE)
def test_programs_hold_our_primitives(key):
    case = CASES[key]
    found = scatters(case.run, *case.args)
    ours = [n for n in found if n.startswith("jscatter_")]
    alone = case.name.endswith("alone")  # counts what a cell receives
    if case.op in LAX | TRUTH:
        counts = alone or (case.op in TRUTH and case.name.startswith("bnns"))
        assert len(found) - len(ours) == 1 and len(ours) == counts
    else:
        assert ours
        # extrema and their positions, which are not differentiated, are lax scatters
        assert set(found) - set(ours) <= {"scatter-max", "scatter-min"}
        if case.linear:
            twice = case.op == "mean" or alone or case.form == "csr"
            assert len(found) == (2 if twice else 1)
    derivatives = (
        jax.grad(cases.weighted(case.run), len(case.args) - 1),
        lambda *a: jax.jvp(case.run, a, a),
    )
    for f in derivatives:
        found = scatters(f, *case.args)
        own = {n for n in found if not n.startswith("jscatter_")}
        assert case.op in FLAT or len(own) < len(set(found))
        # values, winners, largest entries
        assert own <= {"scatter", "scatter-mul", "scatter-min", "scatter-max"}


def test_one_trace_per_signature():
    """Positional and keyword calls share it, and so do None, "drop" and "fill"."""
    import jax.numpy as jnp

    import jscatter as js

    x, i, u = jnp.zeros((7, 3)), jnp.zeros(5, int), jnp.ones((5, 3))
    js.mint.index_add(x, 0, i, u)
    before = _call.compiled._cache_size()
    js.mint.index_add(input=x, dim=0, index=i, source=u)
    js.mint.index_add(x, 0, index=i, source=u, mode=None)
    js.mint.index_add(x, 0, i, u, mode="fill", wrap_negative_indices=False)
    js.mint.index_add(x, -2, i, u)  # another dim as written: one more trace
    assert _call.compiled._cache_size() == before + 1
