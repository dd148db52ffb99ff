"""The moments of a training step on one pipeline stage, and what is live in each.

``micro_batch`` has the tensors that every stage has alike, ``stage_step`` what all moments of a stage share; ``moments``, ``experts``
and ``position_bias`` have the moments one by one, ``beside_step`` those beside the step, ``timeline`` all of them in their order.
"""
