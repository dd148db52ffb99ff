"""The pure core: a run in, the items of its budget out. It knows nothing of HTTP, databases, clocks or the fields of a spec.

``estimate`` is the table of contents of a quote. Each topic first computes figures (frozen numbers, or arrays over the layouts of
a search), then describes them as items; nothing changes an item after it is made.

    run, architecture       what is trained, on what, and how: plain numbers
    parameters, flops       what the model holds, and what a token costs in it
    tokens                  what is read, learnt from and padded
    compute                 FLOPs of the whole run in every convention (recomputation: what checkpointing repeats)
    placement               who holds what: every group of ranks
    stacks/                 what is true of a software stack, one record each (optimizers, recipes: the same of those)
    step_time/              the predicted time of one optimizer step
    speed                   the time of all steps: given, predicted, or a prior
    wall_clock/             the whole job: launch, saves, tests, stalls, interruptions
    memory/                 what a device holds at its peak
    storage                 checkpoints, data and logs on disk
    post_training           rollouts and passes beside the updates (generation: decoding)
    reserves, cost          what is set aside, and money at given rates
    hours_off_device        processors and people
    scaling*                where a run stands against the laws of loss
    correction              what own measurements make of a figure, and how an item says so
    warnings/               what to know before trusting the quote; every code with its meaning
    items, item_sums        a named quantity, and wholes that are their parts
    spread                  an amount with its interval, and how intervals add up
    numeric                 arithmetic that serves one quote and a search alike
    fitted/                 numbers fitted on measured runs, generated

Symbols that formulas of several topics share (a room with more of its own lists them in its docstring):

    N   active parameters: those that one token meets
    D   input tokens of the whole run
    s   positions of a sequence
    T   seconds between two saves of a checkpoint
    C   seconds that the devices stand still for one save
    R   seconds to detect an interruption, restart and load
    M   seconds between two interruptions of the whole job
"""
