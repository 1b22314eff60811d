"""Part 3: a graph network of two layers (Kipf and Welling, 2017) on the karate club.

From the clubs of four members it learns which club each of the others joined. The
functions that pass messages are arguments, so that one model serves plain JAX too.
"""

from __future__ import annotations

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import jscatter as js
from jscatter._commands import karate, plain

SEEDS, STEPS, RATE, WIDTH = 8, 100, 0.5, 16
LABELLED = (0, 4, 25, 33)  # the two leaders and one member of each side
LEAST_ACCURACY = 0.85

_first, _second = np.array(karate.EDGES).T
_all = np.arange(karate.NODES)
_senders = np.concatenate([_first, _second, _all])  # both ways, and each to itself
_receivers = np.concatenate([_second, _first, _all])
_club = np.array(karate.CLUB)
_known = np.isin(_all, LABELLED)


def run(report) -> None:
    """Trains every seed with jscatter and with plain JAX, and compares."""
    report.heading("A graph network on Zachary's karate club")
    report.line(
        f"{karate.NODES} members, {len(karate.EDGES)} friendships; the clubs of"
        f" {len(LABELLED)} members are known, {(~_known).sum()} are held out.\n"
        f"Two layers, {STEPS} steps, {SEEDS} seeds at once: jit, vmap, grad, scan."
    )
    params = jax.vmap(_init)(jax.random.split(jax.random.key(0), SEEDS))
    passing = {"take": js.ops.take, "segment_sum": js.ops.segment_sum}
    ours, theirs = partial(step, **passing), partial(step, **plain.PASSING)
    report.step("training with jscatter")
    trained, losses = jax.device_get(_train(ours, params))
    report.step("training with plain JAX")
    _, plain_losses = jax.device_get(_train(theirs, params))

    scores = np.asarray(jax.vmap(partial(logits, **passing))(trained))
    accuracy = (scores.argmax(-1) == _club)[:, ~_known].mean(1)
    header = ("seed", "first loss", "last loss", "plain JAX's", "held-out accuracy")
    rows = zip(losses[0], losses[-1], plain_losses[-1], accuracy)
    form = "{} {:.5f} {:.5f} {:.5f} {:.3f}"
    report.table(header, [form.format(i, *row).split() for i, row in enumerate(rows)])
    mean = accuracy.mean()
    report.line(f"held-out accuracy: min {accuracy.min():.3f}, mean {mean:.3f}")
    name = f"mean held-out accuracy is at least {LEAST_ACCURACY}"
    report.check_line(name, mean >= LEAST_ACCURACY)
    if jax.default_backend() == "cpu":
        same = np.abs(losses - plain_losses).max() <= 1e-5
        report.check_line("every loss is plain JAX's to 1e-5", same)
    else:  # elsewhere sums are taken in another order, and the steps add to that
        pairs = zip(jax.jit(ours)(params)[2], jax.jit(theirs)(params)[2])
        same = all(jnp.abs(a - b).max() <= 1e-5 * jnp.abs(b).max() for a, b in pairs)
        report.check_line("the first gradients are plain JAX's to 1e-5", same)
    jaxpr = str(jax.make_jaxpr(ours)(params))
    found = set(re.findall(r"= (\S*(?:scatter|gather)\S*)\[", jaxpr))
    name = "the step's only scatters and gathers are jscatter's"
    report.check_line(name, found == {"jscatter_scatter_add", "jscatter_gather"})


def logits(params, take, segment_sum):
    """Scores `[members, 2]`: P tanh(P X W1) W2, P = D^-1/2 (A + 1) D^-1/2, X = 1."""
    degrees = segment_sum(jnp.ones(len(_receivers)), _receivers, karate.NODES)
    scale = jax.lax.rsqrt(degrees)[:, None]

    def propagate(x):
        messages = take(x * scale, _senders)
        return segment_sum(messages, _receivers, karate.NODES) * scale

    # In full precision everywhere, so that only the scatters can differ.
    dot = partial(jnp.matmul, precision="highest")
    hidden = jnp.tanh(propagate(dot(jnp.eye(karate.NODES), params[0])))
    return propagate(dot(hidden, params[1]))


def _loss(params, take, segment_sum):
    log_p = jax.nn.log_softmax(logits(params, take, segment_sum))
    wanted = np.eye(2)[_club] * _known[:, None]  # a mask: plain indexing would gather
    return -jnp.sum(wanted * log_p) / len(LABELLED)


def step(params, take, segment_sum):
    """One step of gradient descent of every seed: (params, losses, gradients)."""
    gradient = jax.value_and_grad(partial(_loss, take=take, segment_sum=segment_sum))
    losses, gradients = jax.vmap(gradient)(params)
    params = jax.tree.map(lambda p, g: p - RATE * g, params, gradients)
    return params, losses, gradients


@partial(jax.jit, static_argnums=0)
def _train(descend, params):
    """(params, losses `[steps, seeds]`)."""
    return jax.lax.scan(lambda p, _: descend(p)[:2], params, length=STEPS)


def _init(key):
    keys, sizes = jax.random.split(key), ((karate.NODES, WIDTH), (WIDTH, 2))
    return [jax.random.normal(k, s) * np.sqrt(2 / sum(s)) for k, s in zip(keys, sizes)]
