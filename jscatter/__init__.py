"""One scatter for JAX, in the spellings that people know.

`jscatter.tf` (TensorFlow), `jscatter.mint` (MindSpore mint, PyTorch), `jscatter.bnns`
(Apple), `jscatter.ops` (JAX) and `jscatter.pyg` (PyG) are names for the same few
operations; those of `tf`, `mint` and `ops` also stand here.
"""

from jscatter import bnns as bnns
from jscatter import mint as mint
from jscatter import ops as ops
from jscatter import pyg as pyg
from jscatter import tf as tf
from jscatter._call import Options as Options
from jscatter._explain import explain as explain
from jscatter.mint import gather as gather
from jscatter.mint import index_add as index_add
from jscatter.mint import index_copy as index_copy
from jscatter.mint import index_fill as index_fill
from jscatter.mint import index_reduce as index_reduce
from jscatter.mint import index_select as index_select
from jscatter.mint import scatter as scatter
from jscatter.mint import scatter_add as scatter_add
from jscatter.mint import scatter_reduce as scatter_reduce
from jscatter.ops import segment_all as segment_all
from jscatter.ops import segment_any as segment_any
from jscatter.ops import segment_argmax as segment_argmax
from jscatter.ops import segment_argmin as segment_argmin
from jscatter.ops import segment_count as segment_count
from jscatter.ops import segment_log_softmax as segment_log_softmax
from jscatter.ops import segment_logsumexp as segment_logsumexp
from jscatter.ops import segment_max as segment_max
from jscatter.ops import segment_max_or_constant as segment_max_or_constant
from jscatter.ops import segment_mean as segment_mean
from jscatter.ops import segment_min as segment_min
from jscatter.ops import segment_min_or_constant as segment_min_or_constant
from jscatter.ops import segment_normalize as segment_normalize
from jscatter.ops import segment_prod as segment_prod
from jscatter.ops import segment_softmax as segment_softmax
from jscatter.ops import segment_std as segment_std
from jscatter.ops import segment_sum as segment_sum
from jscatter.ops import segment_variance as segment_variance
from jscatter.ops import take as take
from jscatter.tf import gather_nd as gather_nd
from jscatter.tf import scatter_nd as scatter_nd
from jscatter.tf import tensor_scatter_add as tensor_scatter_add
from jscatter.tf import tensor_scatter_div as tensor_scatter_div
from jscatter.tf import tensor_scatter_max as tensor_scatter_max
from jscatter.tf import tensor_scatter_min as tensor_scatter_min
from jscatter.tf import tensor_scatter_mul as tensor_scatter_mul
from jscatter.tf import tensor_scatter_nd_add as tensor_scatter_nd_add
from jscatter.tf import tensor_scatter_nd_div as tensor_scatter_nd_div
from jscatter.tf import tensor_scatter_nd_max as tensor_scatter_nd_max
from jscatter.tf import tensor_scatter_nd_min as tensor_scatter_nd_min
from jscatter.tf import tensor_scatter_nd_mul as tensor_scatter_nd_mul
from jscatter.tf import tensor_scatter_nd_sub as tensor_scatter_nd_sub
from jscatter.tf import tensor_scatter_nd_update as tensor_scatter_nd_update
from jscatter.tf import tensor_scatter_sub as tensor_scatter_sub
from jscatter.tf import tensor_scatter_update as tensor_scatter_update

__version__ = "0.1.0"
