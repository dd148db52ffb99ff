"""Measures a training step's peaks with PyTorch itself, on fake CUDA tensors: one row of tests/cases/oracle_step.jsonl.

    PYTHONPATH=. VENV/bin/python tests/benchmarks/oracle_step.py mixtral-8x7b --train lora --vocabulary 1024 [--live]

VENV holds torch 2.13.0 (its CPU build), transformers 5.24.0 and peft 0.21.2; a C++ compiler is needed. No tensor has memory:
a model of any size is measured in seconds. A dispatch mode adds up the storages that operators make and drops them when
Python and autograd do; ``--live`` prints those of each peak with the operator and the module that made them. The rows of
causal language models, T5 and ViT in tests/cases/oracle.jsonl come out to the byte, but for one operator: the CPU build has no CUDA
kernel for ``silu_backward``, so that autograd takes its composite form there, a tensor for every step of the formula, where
a GPU makes one. Here it counts as the one kernel.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import gc
import importlib.util
import json
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import Any

CASES = Path(__file__).parents[1] / "cases"
DEPTHS = ("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers")
DEVICE = "cuda:0"


def load_stub() -> None:
    """Builds and loads the CUDA device that does nothing; before ``import torch``, which looks once."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    torch = Path(spec.origin).parent
    built = Path(tempfile.mkdtemp()) / "cuda.so"
    includes = [f"-I{torch / 'include'}", f"-I{torch / 'include/torch/csrc/api/include'}"]
    source = Path(__file__).with_name("oracle_cuda.cpp")
    libraries = [f"-L{torch / 'lib'}", "-ltorch_cpu", "-lc10"]
    subprocess.run(["g++", "-shared", "-fPIC", "-std=c++20", *includes, str(source), "-o", str(built), *libraries], check=True)
    for library in (torch / "lib/libc10.so", torch / "lib/libtorch_cpu.so", built):
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, **options: Any) -> Any:
    """The kernel that ``scaled_dot_product_attention`` takes on a GPU: flash for 16 bits without a mask, else memory-efficient."""
    import torch

    aten, causal, scale = torch.ops.aten, options.get("is_causal", False), options.get("scale")
    assert dropout_p == 0.0
    if torch.is_autocast_enabled("cuda"):
        query, key, value = (x.to(torch.bfloat16) for x in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(torch.bfloat16)
    if query.dtype != torch.float32 and attn_mask is None and query.shape[-1] == value.shape[-1] <= 256:
        return aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal, False, scale=scale)[0]
    if options.get("enable_gqa") and query.shape[1] != key.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    if attn_mask is not None:  # as ``preprocess_mask`` does: the mask's gradient has the batch's size
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    statistics = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
    return aten._scaled_dot_product_efficient_attention(query, key, value, attn_mask, statistics, 0.0, causal, scale=scale)[0]


def tracker() -> Any:
    """A mode that knows the live storages of the fake device and the most there were in each phase."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Tracker(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.live: dict[int, tuple[int, str]] = {}
            self.total, self.phase, self.modules = 0, "start", [""]
            self.peaks: dict[str, tuple[int, dict[int, tuple[int, str]]]] = {}

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            for tensor in tree_leaves(result):
                if isinstance(tensor, torch.Tensor) and tensor.device.type == "cuda":
                    self.add(tensor, f"{self.phase} {func} {tuple(tensor.shape)} {tensor.dtype} {self.modules[-1]}")
            return result

        def add(self, tensor: Any, origin: str) -> None:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self.live:
                return
            self.live[key] = (storage.nbytes(), origin)
            self.total += storage.nbytes()
            weakref.finalize(storage, self.drop, key)
            if self.total > self.peaks.get(self.phase, (0, {}))[0]:
                self.peaks[self.phase] = (self.total, dict(self.live))

        def drop(self, key: int) -> None:
            self.total -= self.live.pop(key)[0]

        def begin(self, phase: str) -> None:
            self.phase = phase
            self.peaks[phase] = (self.total, dict(self.live))

    return Tracker()


def config(name: str, depth: int | None, vocabulary: int | None) -> Any:
    """The model's configuration, cut to some blocks and to a vocabulary."""
    from transformers import AutoConfig

    values = dict(json.loads((CASES / "oracle_configs.json").read_text("utf-8"))[name]["full"])
    values.update({key: depth for key in DEPTHS if key in values and depth is not None})
    if values.get("layer_types") and depth is not None:
        values["layer_types"] = values["layer_types"][:depth]
    if vocabulary is not None:
        values["vocab_size"] = vocabulary
    return AutoConfig.for_model(values.pop("model_type"), **values)


def adapted(model: Any, row: dict[str, Any]) -> Any:
    """The model with adapters, on all linear layers unless some are named; made on the device, as fake tensors cannot be moved in place.

    PEFT makes them as wide as the base, and then in 32 bits where that is 16-bit, unless told not to (``autocast_adapter_dtype``).
    """
    import peft
    import torch

    move, place = torch.nn.Module.to, peft.tuners.tuners_utils.BaseTunerLayer._move_adapter_to_device_of_base_layer
    half, usual = row.get("adapters") == "bf16", torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if half else usual)
    torch.nn.Module.to = lambda self, *_, **__: self
    peft.tuners.tuners_utils.BaseTunerLayer._move_adapter_to_device_of_base_layer = lambda *_, **__: None
    try:
        with torch.device(DEVICE):
            wanted = peft.LoraConfig(
                r=16, lora_alpha=32, target_modules=row["targets"] or "all-linear", lora_dropout=row.get("lora_dropout") or 0.0
            )
            return peft.get_peft_model(model, wanted, autocast_adapter_dtype=not half)
    finally:
        torch.set_default_dtype(usual)
        torch.nn.Module.to = move
        peft.tuners.tuners_utils.BaseTunerLayer._move_adapter_to_device_of_base_layer = place


def measure(row: dict[str, Any], live: bool = False) -> dict[str, Any]:
    """The row with its measured bytes."""
    import torch
    import transformers
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch.nn.functional.scaled_dot_product_attention = attention
    transformers.PreTrainedModel.initialize_weights = lambda *_: None  # it would look into the values
    transformers.masking_utils.find_packed_sequence_indices = lambda *_: None  # it would look into the positions
    torch.cuda.is_bf16_supported = lambda *_, **__: True
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    kernels = torch.library.Library("aten", "IMPL", "CUDA")
    kernels.impl("silu_backward", lambda *_: None)  # that there is a kernel; fake tensors never call it
    half, lora = row["mode"] == "bf16" or row.get("base") == "bf16", row["train"] == "lora"
    with FakeTensorMode(allow_non_fake_inputs=True), tracker() as known:
        with torch.device(DEVICE):
            shape = config(row["model"], row["depth"], row["vocab_size"])
            dtype = torch.bfloat16 if half else torch.float32
            kind = json.loads((CASES / "oracle_configs.json").read_text("utf-8"))[row["model"]]["auto_class"]
            model = getattr(transformers, kind).from_config(shape, attn_implementation=row["attn"], dtype=dtype)
        model.config.use_cache = False
        model.train()
        if lora:
            model = adapted(model, row)
        if row["input_grads"]:
            model.enable_input_require_grads()
        if row["gckpt"]:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        for name, module in model.named_modules():
            module.register_forward_pre_hook(lambda *_, name=name: known.modules.append(name))
            module.register_forward_hook(lambda *_: [known.modules.pop(), None][1])
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, foreach=row["opt"] == "foreach" or None, fused=row["opt"] == "fused" or None)
        if hasattr(shape, "image_size"):
            inputs = {"pixel_values": torch.zeros(row["b"], shape.num_channels, shape.image_size, shape.image_size, device=DEVICE)}
            labels = torch.zeros(row["b"], dtype=torch.long, device=DEVICE)
        else:
            inputs = {"input_ids": torch.zeros(row["b"], row["s"], dtype=torch.long, device=DEVICE)}
            labels = torch.zeros(row["b"], row.get("decoder") or row["s"], dtype=torch.long, device=DEVICE)
        gc.collect()
        known.begin("forward")
        with torch.autocast("cuda", torch.bfloat16, enabled=row["mode"] == "bf16_autocast"):
            loss = model(**inputs, labels=labels).loss
        known.modules = [""]
        known.begin("backward")
        loss.backward()
        known.begin("optimizer")
        optimizer.step()
        known.begin("end")
        sizes = {
            "param_bytes": sum(p.numel() * p.element_size() for p in model.parameters()),
            "grad_bytes": sum(p.numel() * p.element_size() for p in trained),
            "optim_bytes": sum(2 * p.numel() * p.element_size() for p in trained),
        }
    for phase in ("forward", "backward", "optimizer"):
        total, tensors = known.peaks[phase]
        sizes[f"peak_{phase}"] = total
        if live:
            print(f"{phase}: {total:,}")
            by_origin = collections.Counter[str]()
            for size, origin in tensors.values():
                by_origin["weights and inputs" if origin.startswith("start") else origin] += size
            print(*(f"{size:18,} {origin}" for origin, size in by_origin.most_common(40)), sep="\n")
    return {**row, **sizes}


def main() -> None:
    """One row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--mode", default="bf16", choices=("bf16", "bf16_autocast", "fp32"))
    parser.add_argument("--base", choices=("bf16",), help="16-bit weights under autocast")
    parser.add_argument("--adapters", choices=("bf16",), help="as wide as a 16-bit base, where PEFT would make them 32-bit")
    parser.add_argument("--lora-dropout", type=float)
    parser.add_argument("--attention", default="sdpa", choices=("sdpa", "eager"))
    parser.add_argument("--train", default="full", choices=("full", "lora"))
    parser.add_argument("--optimizer", default="foreach", choices=("foreach", "fused"))
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--decoder", type=int, help="the length of an encoder-decoder's targets, where it is another")
    parser.add_argument("--vocabulary", type=int, help="a small one lets the moments show that logits hide")
    parser.add_argument("--targets", help="names of the modules that get adapters, commas between; all linear ones by default")
    parser.add_argument("--live", action="store_true")
    a = parser.parse_args()
    load_stub()
    row = {
        "kind": "step",
        "model": a.model,
        "b": a.batch,
        "s": a.length,
        **({} if a.decoder is None else {"decoder": a.decoder}),
        "mode": a.mode,
        "attn": a.attention,
        "depth": a.depth,
        "vocab_size": a.vocabulary,
        "gckpt": "nonreentrant" if a.checkpointing else None,
        "train": a.train,
        "targets": a.targets.split(",") if a.targets else None,
        "opt": a.optimizer,
        "keep_outputs": False,
        "input_grads": a.train == "lora" and a.checkpointing,
    }
    # Said where they are not as the mode has them, so that older rows stand as they are.
    row.update({key: value for key, value in (("base", a.base), ("adapters", a.adapters), ("lora_dropout", a.lora_dropout)) if value})
    print(json.dumps(measure(row, a.live)))


if __name__ == "__main__":
    main()
