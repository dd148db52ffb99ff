"""Fitted data of the step-time model, written by ``python -m tests.benchmarks.fit_time --write``; do not edit by hand.

Rows: tests/cases/measured_public.jsonl and measured_vtrain.jsonl, each with its source; what an entry means is said in rates.py,
residual.py and interval.py, the priors of the fit in tests/benchmarks/fit_time.py."""

from __future__ import annotations

FITTED_ON = (
    "1409 measured step times of 13 sources: InternEvo, MT-NLG, Megatron-Bridge, Megatron-DeepSpeed, Qwen, "
    "TinyLlama, llm-foundry, maxtext, ms-swift, runs, torchtitan, torchtune, vTrain"
)
INPUTS = "72147eb7a3b0c2e8"  # digest of the rows, their counts and the priors (tests/benchmarks/fitted.py)

# Efficiencies, shares and latencies (name: value; prior and its standard deviation in the logarithm beside it).
COEFFICIENTS: dict[str, float] = {
    "matrix": 0.74929,  # prior 0.72, 0.15
    "matrix:ampere": 1.0865,  # prior 1, 0.15
    "matrix:hopper": 0.89537,  # prior 1, 0.15
    "matrix:blackwell": 0.87472,  # prior 1, 0.15
    "matrix:volta": 1.0004,  # prior 1, 0.1
    "matrix:tpu": 1.1732,  # prior 1, 0.1
    "matrix:ada": 1.1788,  # prior 1, 0.15
    "matrix:cdna2": 0.66,  # prior 0.66, 0.01
    "attention:cdna2": 0.7,  # prior 0.7, 0.01
    "matrix:cdna3": 0.47763,  # prior 0.66, 0.15
    "attention:cdna3": 0.62842,  # prior 0.7, 0.15
    "matrix:cdna4": 0.66,  # prior 0.66, 0.01
    "attention:cdna4": 0.7,  # prior 0.7, 0.01
    "matrix/fp8": 0.85089,  # prior 0.7, 0.2
    "matrix/fp8:hopper": 0.97276,  # prior 1, 0.15
    "matrix/fp8:blackwell": 1.3382,  # prior 1, 0.15
    "matrix/fp8:cdna3": 0.85737,  # prior 1, 0.15
    "expert": 0.65319,  # prior 0.6, 0.3
    "expert/fp8": 0.99733,  # prior 0.8, 0.2
    "matrix_bytes": 1.7457,  # prior 2, 0.5
    "attention": 0.39292,  # prior 0.5, 0.2
    "attention:ampere": 1.1103,  # prior 1, 0.25
    "attention:hopper": 0.62858,  # prior 1, 0.25
    "attention:blackwell": 1.1382,  # prior 1, 0.25
    "attention@llm_foundry": 0.73736,  # prior 1, 0.2
    "matrix@llm_foundry": 1.0002,  # prior 1, 0.1
    "elementwise@llm_foundry": 0.93052,  # prior 1, 0.2
    "kernel_host_seconds@llm_foundry": 1,  # prior 1, 0.3
    "data_exposed@llm_foundry": 1.0078,  # prior 1, 0.3
    "attention@fsdp_native": 0.757,  # prior 1, 0.2
    "matrix@fsdp_native": 0.99649,  # prior 1, 0.1
    "elementwise@fsdp_native": 1.199,  # prior 1, 0.2
    "kernel_host_seconds@fsdp_native": 1,  # prior 1, 0.3
    "data_exposed@fsdp_native": 0.97827,  # prior 1, 0.3
    "attention@hf_transformers": 1.1126,  # prior 1, 0.2
    "matrix@hf_transformers": 1.1084,  # prior 1, 0.1
    "elementwise@hf_transformers": 1.2905,  # prior 1, 0.2
    "kernel_host_seconds@hf_transformers": 0.81365,  # prior 1, 0.3
    "data_exposed@hf_transformers": 1,  # prior 1, 0.3
    "attention@deepspeed": 1.0556,  # prior 1, 0.2
    "matrix@deepspeed": 0.96437,  # prior 1, 0.1
    "elementwise@deepspeed": 0.56444,  # prior 1, 0.2
    "kernel_host_seconds@deepspeed": 1.2741,  # prior 1, 0.3
    "data_exposed@deepspeed": 1.0642,  # prior 1, 0.3
    "attention@megatron": 1.1987,  # prior 1, 0.2
    "matrix@megatron": 0.95618,  # prior 1, 0.1
    "elementwise@megatron": 1.0464,  # prior 1, 0.2
    "kernel_host_seconds@megatron": 1.1302,  # prior 1, 0.3
    "data_exposed@megatron": 1.0532,  # prior 1, 0.3
    "attention/eager": 0.46487,  # prior 0.4, 0.3
    "matrix@megatron+eager/none": 1.1176,  # prior 1, 0.15
    "matrix@megatron+eager/zero1": 0.82674,  # prior 1, 0.15
    "attention_bytes": 0.92236,  # prior 0.8, 0.3
    "elementwise": 0.41863,  # prior 0.6, 0.3
    "elementwise+compile": 2.2375,  # prior 1.6, 0.3
    "logits": 0.025663,  # prior 0.0625, 0.5
    "logits+fused_loss": 2.0592,  # prior 2, 0.3
    "kernel_seconds": 8.593e-06,  # prior 2e-06, 0.5
    "kernel_host_seconds": 3.3181e-05,  # prior 2.5e-05, 0.4
    "kernel_host_seconds:blackwell": 0.3,  # prior 0.3, 0.5
    "kernel_host_seconds+compile": 0.5,  # prior 0.5, 0.3
    "message_seconds": 6.7914e-06,  # prior 5e-06, 0.5
    "message_host_seconds": 8.8635e-06,  # prior 1e-05, 0.5
    "stage_message_seconds": 0.00044154,  # prior 0.0005, 0.7
    "step_seconds": 0.0056229,  # prior 0.005, 0.7
    "intra": 0.70412,  # prior 0.75, 0.1
    "inter": 0.61013,  # prior 0.6, 0.3
    "tensor_exposed": 1.0765,  # prior 1, 0.1
    "tensor_exposed+sequence_parallel": 0.6507,  # prior 0.7, 0.2
    "context_exposed": 0.50199,  # prior 0.5, 0.4
    "expert_exposed": 0.57231,  # prior 0.8, 0.4
    "sharding_exposed": 0.48438,  # prior 0.2, 0.5
    "sharding_cover": 0.71091,  # prior 0.7, 0.3
    "data_exposed": 0.66302,  # prior 0.6, 0.3
    "dequantized": 8.8845e10,  # prior 5e+10, 0.5
    "host_link": 2e10,  # prior 2e+10, 0.3
    "optimizer": 1.012,  # prior 0.7, 0.3
}

# Shrunk logarithmic weights of the features in residual.py.
RESIDUAL: dict[str, float] = {
    "all": -0.014866,
    "deepspeed ampere": 0.031127,
    "deepspeed ampere 16 bit": 0.031127,
    "deepspeed recompute full": 0.0096599,
    "deepspeed recompute none": 0.011091,
    "deepspeed zero1": 0.0045606,
    "deepspeed zero2": 0.12497,
    "deepspeed zero3": -0.0984,
    "experts": -0.061079,
    "experts 16 bit": -0.035372,
    "experts 8 bit": -0.025706,
    "family ada": -0.040772,
    "family ampere": 0.023258,
    "family blackwell": 0.069727,
    "family cdna3": 0.072885,
    "family hopper": -0.017919,
    "family tpu": -0.12841,
    "family volta": 0.0063701,
    "fsdp_native ada": -0.040772,
    "fsdp_native ada 16 bit": -0.040772,
    "fsdp_native ampere": -0.026184,
    "fsdp_native ampere 16 bit": -0.026184,
    "fsdp_native blackwell": 0,
    "fsdp_native blackwell 16 bit": 0,
    "fsdp_native blackwell 8 bit": 0,
    "fsdp_native cdna3": 0.072885,
    "fsdp_native cdna3 16 bit": 0.022966,
    "fsdp_native cdna3 8 bit": 0.04992,
    "fsdp_native hopper": 0.095142,
    "fsdp_native hopper 16 bit": 0.055973,
    "fsdp_native hopper 8 bit": 0.03917,
    "fsdp_native hybrid": 0,
    "fsdp_native none": -0.065163,
    "fsdp_native recompute full": -0.090307,
    "fsdp_native recompute none": 0.030167,
    "fsdp_native recompute selective": 0.041911,
    "fsdp_native tpu": -0.12841,
    "fsdp_native tpu 16 bit": -0.12841,
    "fsdp_native zero2": -0.0023778,
    "fsdp_native zero3": 0.040197,
    "hf_transformers ampere": 0.0020535,
    "hf_transformers ampere 16 bit": 0.0020535,
    "hf_transformers none": 0.0020535,
    "hf_transformers recompute full": 0.001369,
    "llm_foundry ampere": -0.0066639,
    "llm_foundry ampere 16 bit": -0.0066639,
    "llm_foundry hopper": 0.0078718,
    "llm_foundry hopper 16 bit": -0.0044829,
    "llm_foundry hopper 8 bit": 0.012355,
    "llm_foundry recompute full": -0.025563,
    "llm_foundry recompute none": 0.026368,
    "llm_foundry zero2": 0.0047681,
    "llm_foundry zero3": -0.0035602,
    "ln devices": 0.017092,
    "ln hidden": -0.035154,
    "ln parameters": -0.054241,
    "ln sequence": 0.0020041,
    "megatron ampere": 0.022926,
    "megatron ampere 16 bit": 0.022926,
    "megatron blackwell": 0.069727,
    "megatron blackwell 16 bit": 0.13604,
    "megatron blackwell 8 bit": -0.066316,
    "megatron hopper": -0.12093,
    "megatron hopper 16 bit": -0.0055423,
    "megatron hopper 8 bit": -0.11539,
    "megatron none": -0.058559,
    "megatron recompute full": 0.019215,
    "megatron recompute none": -0.026659,
    "megatron recompute selective": -0.0071629,
    "megatron volta": 0.0063701,
    "megatron volta 16 bit": 0.0063701,
    "megatron zero1": 0.0018493,
    "megatron zero3": 0.034799,
    "method lora": -0.035865,
    "method qlora": -0.0096918,
    "stack deepspeed": 0.031127,
    "stack fsdp_native": -0.027343,
    "stack hf_transformers": 0.0020535,
    "stack llm_foundry": 0.0012078,
    "stack megatron": -0.021911,
}

# 80 % bounds of measured / predicted, like runs left out of the fit, by cell.
SEEN: dict[str, tuple[float, float]] = {
    "deepspeed, ampere, 16 bit, full": (0.7475, 1.2782),
    "deepspeed, ampere, 16 bit, lora": (0.7583, 1.6647),
    "fsdp_native, ada, 16 bit, qlora": (0.7437, 1.2933),
    "fsdp_native, ampere, 16 bit, full": (0.8286, 1.2355),
    "fsdp_native, ampere, 16 bit, lora": (0.7723, 1.5966),
    "fsdp_native, ampere, 16 bit, qlora": (0.8118, 1.2933),
    "fsdp_native, cdna3, 16 bit, full": (0.8491, 1.5483),
    "fsdp_native, cdna3, 8 bit, full": (0.798, 1.6787),
    "fsdp_native, hopper, 16 bit, full": (0.8481, 1.2586),
    "fsdp_native, hopper, 8 bit, full": (0.8037, 1.5125),
    "fsdp_native, tpu, 16 bit, full": (0.5702, 1.3203),
    "hf_transformers, ampere, 16 bit, lora": (0.7722, 1.2134),
    "hf_transformers, ampere, 16 bit, qlora": (0.8438, 1.4421),
    "llm_foundry, ampere, 16 bit, full": (0.9512, 1.0906),
    "llm_foundry, hopper, 16 bit, full": (0.9512, 1.0575),
    "llm_foundry, hopper, 8 bit, full": (0.8229, 1.3044),
    "megatron, ampere, 16 bit, full": (0.9036, 1.1627),
    "megatron, blackwell, 16 bit, full": (0.8127, 1.5004),
    "megatron, blackwell, 8 bit, full": (0.8162, 1.2125),
    "megatron, hopper, 8 bit, full": (0.7932, 1.7245),
    "megatron, hopper, 8 bit, lora": (0.6216, 1.2622),
    "megatron, volta, 16 bit, full": (0.8491, 1.3151),
}

# The same with whole sources left out.
UNSEEN: tuple[float, float] = (0.7726, 1.5156)

# Sizes that a cell's runs cover, as powers of two.
RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "deepspeed, ampere, 16 bit, full": {"parameters": (32.77, 33.78), "sequence_length": (11.00, 13.00), "devices": (3.00, 10.00)},
    "deepspeed, ampere, 16 bit, lora": {"parameters": (32.85, 36.07), "sequence_length": (8.00, 13.00), "devices": (2.00, 2.00)},
    "fsdp_native, ada, 16 bit, qlora": {"parameters": (32.90, 32.90), "sequence_length": (11.00, 11.00), "devices": (0.00, 0.00)},
    "fsdp_native, ampere, 16 bit, full": {"parameters": (30.03, 32.65), "sequence_length": (11.00, 12.00), "devices": (0.00, 7.00)},
    "fsdp_native, ampere, 16 bit, lora": {"parameters": (31.58, 31.58), "sequence_length": (12.00, 12.00), "devices": (0.00, 0.00)},
    "fsdp_native, ampere, 16 bit, qlora": {"parameters": (31.58, 31.58), "sequence_length": (12.00, 12.00), "devices": (0.00, 0.00)},
    "fsdp_native, cdna3, 16 bit, full": {"parameters": (32.90, 32.90), "sequence_length": (13.00, 13.00), "devices": (3.00, 3.00)},
    "fsdp_native, cdna3, 8 bit, full": {"parameters": (32.90, 32.90), "sequence_length": (13.00, 13.00), "devices": (3.00, 3.00)},
    "fsdp_native, hopper, 16 bit, full": {"parameters": (26.89, 36.04), "sequence_length": (10.00, 13.00), "devices": (3.00, 8.00)},
    "fsdp_native, hopper, 8 bit, full": {"parameters": (32.90, 38.56), "sequence_length": (12.00, 18.00), "devices": (3.00, 9.00)},
    "fsdp_native, tpu, 16 bit, full": {"parameters": (32.90, 37.03), "sequence_length": (12.00, 13.00), "devices": (8.00, 8.00)},
    "hf_transformers, ampere, 16 bit, lora": {"parameters": (32.85, 33.72), "sequence_length": (8.00, 13.00), "devices": (0.00, 0.00)},
    "hf_transformers, ampere, 16 bit, qlora": {"parameters": (30.77, 33.72), "sequence_length": (8.00, 13.00), "devices": (0.00, 0.00)},
    "llm_foundry, ampere, 16 bit, full": {"parameters": (26.89, 34.80), "sequence_length": (9.00, 16.00), "devices": (3.00, 7.00)},
    "llm_foundry, hopper, 16 bit, full": {"parameters": (29.50, 34.81), "sequence_length": (9.00, 16.00), "devices": (3.00, 9.00)},
    "llm_foundry, hopper, 8 bit, full": {"parameters": (31.30, 31.35), "sequence_length": (9.00, 15.00), "devices": (3.00, 3.00)},
    "megatron, ampere, 16 bit, full": {"parameters": (27.60, 38.95), "sequence_length": (10.00, 11.00), "devices": (1.00, 11.71)},
    "megatron, blackwell, 16 bit, full": {"parameters": (36.77, 39.29), "sequence_length": (12.00, 13.00), "devices": (6.00, 8.00)},
    "megatron, blackwell, 8 bit, full": {"parameters": (32.90, 39.29), "sequence_length": (12.00, 13.00), "devices": (3.00, 8.00)},
    "megatron, hopper, 8 bit, full": {"parameters": (34.83, 37.77), "sequence_length": (12.00, 12.00), "devices": (4.00, 8.00)},
    "megatron, hopper, 8 bit, lora": {"parameters": (36.04, 36.04), "sequence_length": (12.00, 12.00), "devices": (3.00, 3.00)},
    "megatron, volta, 16 bit, full": {"parameters": (35.60, 35.60), "sequence_length": (10.00, 10.00), "devices": (6.00, 6.00)},
}
