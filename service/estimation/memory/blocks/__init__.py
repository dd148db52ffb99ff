"""The model as a run trains it, and what each of its blocks keeps from its forward to its backward pass.

``coefficients`` has the words, ``modules`` the bytes per token of each module, ``block_kind`` puts them together for every kind of
block, ``trained_model`` adds what stands outside the blocks, ``kept`` turns coefficients into bytes on a rank.
"""
