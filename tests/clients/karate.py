"""A graph network of jraphx, trained on networkx' karate club. Saves its losses."""

# isort: off
import plugin  # first: jraphx takes segment_sum when it is imported

# isort: on
import jax
import jax.numpy as jnp
import networkx
import numpy as np
import optax
from flax import nnx
from jraphx.nn.conv import GATConv, GCNConv, SAGEConv

STEPS = 60


class Network(nnx.Module):
    """Three kinds of message passing: sums, a softmax of edges, maxima."""

    def __init__(self, rngs):
        self.first = GCNConv(34, 16, rngs=rngs)
        self.second = GATConv(16, 8, heads=2, rngs=rngs)
        self.third = SAGEConv(16, 2, aggr="max", rngs=rngs)

    def __call__(self, x, edges):
        x = jax.nn.relu(self.first(x, edges))
        x = jax.nn.relu(self.second(x, edges))
        return self.third(x, edges)


def main():
    graph = networkx.karate_club_graph()
    pairs = np.array([*graph.edges, *(e[::-1] for e in graph.edges)], np.int32)
    edges = jnp.asarray(pairs.T)
    clubs = [graph.nodes[n]["club"] == "Officer" for n in graph.nodes]
    labels = jnp.asarray(clubs, jnp.int32)
    train = jnp.array([0, 33, 5, 26])

    model = Network(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(0.02), wrt=nnx.Param)
    x = jnp.eye(34)

    def loss(model):
        logits = model(x, edges)[train]
        each = optax.softmax_cross_entropy_with_integer_labels(logits, labels[train])
        return each.mean()

    @nnx.jit
    def step(model, optimizer):
        value, gradient = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradient)
        return value

    losses = [float(step(model, optimizer)) for _ in range(STEPS)]
    right = (model(x, edges).argmax(1) == labels).mean()
    plugin.save(losses=losses, accuracy=float(right))


main()
