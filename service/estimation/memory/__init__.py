"""Memory of one device: what it holds in each phase of a training step, and the three peaks that tools measure.

Four rooms, each of which imports only from those below it:

- ``peaks``: the worst moment of the worst pipeline stage, its figures with their intervals, and the items that describe them
- ``timeline``: the moments of a training step on one stage, and what is live in each
- ``device``: what one rank holds of the model: its stage, model states after sharding, gathered weights, host memory
- ``blocks``: the model as the run trains it, and what each of its blocks keeps from the forward to the backward pass

``estimate`` quotes one layout. ``figures`` gives the same figures for arrays of layouts and batches: every formula is plain
arithmetic that broadcasts over the fields of ``Layout`` and ``Batch``, so that a row of a search is its quote to the last bit.

Words and symbols of all rooms:

- h hidden size, f intermediate size of the MLP, V vocabulary, r rank of an adapter; a *width* is the bytes of one element
- t tensor, p pipeline, c context, d data, e expert parallel ranks (``placement`` says who holds what)
- m micro-batches a step; the *tokens* of one on one rank are its sequences (``micro_sequences``) x positions / c
- *kept*: what autograd keeps of a block from its forward to its backward pass; *coefficients* of it are bytes per token;
  *saved*: what a stage keeps so, of all micro-batches in flight, when its forward pass ends: ``memory.activations`` but for the head's
- *states*: weights, gradients, master weights and the optimizer's own; *own*: a rank's share of a stage before sharding
- *moment*: a point of the step at which most can be live; a *phase* (forward, backward, ...) has several of them
- *transient*: live for a moment only: gathered weights, casts, gradients inside a block, buffers
- *allocated* (live tensors) lies inside *reserved* (what PyTorch's allocator holds), and that inside *process* (what the driver sees)
- *late*: gradients that come after the peak; *cached*: reserved for another phase, given back where memory runs out
"""

from .peaks.estimate import MemoryEstimate, estimate
from .peaks.figures import Figures, figures

__all__ = ["Figures", "MemoryEstimate", "estimate", "figures"]
