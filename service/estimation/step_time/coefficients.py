"""Fitted data of the step-time model, written by ``python -m tests.benchmarks.fit_time --write``; do not edit by hand.

Rows: tests/cases/measured_public.jsonl and measured_vtrain.jsonl, each with its source; what an entry means is said in rates.py,
residual.py and interval.py, the priors of the fit in tests/benchmarks/fit_time.py."""

from __future__ import annotations

FITTED_ON = (
    "1409 measured step times of 13 sources: InternEvo, MT-NLG, Megatron-Bridge, Megatron-DeepSpeed, Qwen, "
    "TinyLlama, llm-foundry, maxtext, ms-swift, runs, torchtitan, torchtune, vTrain"
)

# Efficiencies, shares and latencies (name: value; prior and its standard deviation in the logarithm beside it).
COEFFICIENTS: dict[str, float] = {
    "matrix": 0.75358,  # prior 0.72, 0.15
    "matrix:ampere": 1.0629,  # prior 1, 0.15
    "matrix:hopper": 0.88864,  # prior 1, 0.15
    "matrix:blackwell": 0.94096,  # prior 1, 0.15
    "matrix:volta": 0.98971,  # prior 1, 0.1
    "matrix:tpu": 1.1625,  # prior 1, 0.1
    "matrix:ada": 1.177,  # prior 1, 0.15
    "matrix:cdna2": 0.66,  # prior 0.66, 0.01
    "attention:cdna2": 0.7,  # prior 0.7, 0.01
    "matrix:cdna3": 0.48161,  # prior 0.66, 0.15
    "attention:cdna3": 0.62772,  # prior 0.7, 0.15
    "matrix:cdna4": 0.66,  # prior 0.66, 0.01
    "attention:cdna4": 0.7,  # prior 0.7, 0.01
    "matrix/fp8": 0.87444,  # prior 0.7, 0.2
    "matrix/fp8:hopper": 0.96075,  # prior 1, 0.15
    "matrix/fp8:blackwell": 1.3748,  # prior 1, 0.15
    "matrix/fp8:cdna3": 0.85806,  # prior 1, 0.15
    "expert": 0.68211,  # prior 0.6, 0.3
    "expert/fp8": 1.002,  # prior 0.8, 0.2
    "matrix_bytes": 1.8077,  # prior 2, 0.5
    "attention": 0.39352,  # prior 0.5, 0.2
    "attention:ampere": 1.1168,  # prior 1, 0.25
    "attention:hopper": 0.62771,  # prior 1, 0.25
    "attention:blackwell": 1.1355,  # prior 1, 0.25
    "attention@llm_foundry": 0.73333,  # prior 1, 0.2
    "matrix@llm_foundry": 1.0134,  # prior 1, 0.1
    "elementwise@llm_foundry": 0.9129,  # prior 1, 0.2
    "kernel_host_seconds@llm_foundry": 1,  # prior 1, 0.3
    "data_exposed@llm_foundry": 1.012,  # prior 1, 0.3
    "attention@fsdp_native": 0.75607,  # prior 1, 0.2
    "matrix@fsdp_native": 1.0086,  # prior 1, 0.1
    "elementwise@fsdp_native": 1.2134,  # prior 1, 0.2
    "kernel_host_seconds@fsdp_native": 1,  # prior 1, 0.3
    "data_exposed@fsdp_native": 0.98017,  # prior 1, 0.3
    "attention@hf_transformers": 1.1171,  # prior 1, 0.2
    "matrix@hf_transformers": 1.1135,  # prior 1, 0.1
    "elementwise@hf_transformers": 1.2865,  # prior 1, 0.2
    "kernel_host_seconds@hf_transformers": 0.81428,  # prior 1, 0.3
    "data_exposed@hf_transformers": 1,  # prior 1, 0.3
    "attention@deepspeed": 1.0568,  # prior 1, 0.2
    "matrix@deepspeed": 0.96997,  # prior 1, 0.1
    "elementwise@deepspeed": 0.5713,  # prior 1, 0.2
    "kernel_host_seconds@deepspeed": 1.2719,  # prior 1, 0.3
    "data_exposed@deepspeed": 1.0599,  # prior 1, 0.3
    "attention@megatron": 1.2024,  # prior 1, 0.2
    "matrix@megatron": 0.92469,  # prior 1, 0.1
    "elementwise@megatron": 1.0495,  # prior 1, 0.2
    "kernel_host_seconds@megatron": 1.1319,  # prior 1, 0.3
    "data_exposed@megatron": 1.0206,  # prior 1, 0.3
    "attention/eager": 0.45722,  # prior 0.4, 0.3
    "matrix@megatron/none": 1.1625,  # prior 1, 0.15
    "matrix@megatron/zero1": 0.8749,  # prior 1, 0.15
    "attention_bytes": 0.91221,  # prior 0.8, 0.3
    "elementwise": 0.42195,  # prior 0.6, 0.3
    "elementwise+compile": 2.2441,  # prior 1.6, 0.3
    "logits": 0.026603,  # prior 0.0625, 0.5
    "logits+fused_loss": 2.0589,  # prior 2, 0.3
    "kernel_seconds": 8.4321e-06,  # prior 2e-06, 0.5
    "kernel_host_seconds": 3.3179e-05,  # prior 2.5e-05, 0.4
    "kernel_host_seconds:blackwell": 0.3,  # prior 0.3, 0.5
    "kernel_host_seconds+compile": 0.5,  # prior 0.5, 0.3
    "message_seconds": 6.8512e-06,  # prior 5e-06, 0.5
    "message_host_seconds": 8.7999e-06,  # prior 1e-05, 0.5
    "stage_message_seconds": 0.00042344,  # prior 0.0005, 0.7
    "step_seconds": 0.0057225,  # prior 0.005, 0.7
    "intra": 0.6941,  # prior 0.75, 0.1
    "inter": 0.62709,  # prior 0.6, 0.3
    "tensor_exposed": 1.0842,  # prior 1, 0.1
    "tensor_exposed+sequence_parallel": 0.64773,  # prior 0.7, 0.2
    "context_exposed": 0.50235,  # prior 0.5, 0.4
    "expert_exposed": 0.57206,  # prior 0.8, 0.4
    "sharding_exposed": 0.51266,  # prior 0.2, 0.5
    "sharding_cover": 0.70516,  # prior 0.7, 0.3
    "data_exposed": 0.6438,  # prior 0.6, 0.3
    "dequantized": 8.8546e10,  # prior 5e+10, 0.5
    "host_link": 2e10,  # prior 2e+10, 0.3
    "optimizer": 1.0252,  # prior 0.7, 0.3
}

# Shrunk logarithmic weights of the features in residual.py.
RESIDUAL: dict[str, float] = {
    "all": -0.012844,
    "deepspeed ampere": 0.030606,
    "deepspeed ampere 16": 0.030606,
    "deepspeed recompute full": 0.0091872,
    "deepspeed recompute none": 0.011217,
    "deepspeed zero1": 0.004705,
    "deepspeed zero2": 0.12896,
    "deepspeed zero3": -0.10306,
    "experts": -0.058716,
    "experts 16": -0.038197,
    "experts 8": -0.020519,
    "family ada": -0.039045,
    "family ampere": 0.022113,
    "family blackwell": 0.068589,
    "family cdna3": 0.072998,
    "family hopper": -0.020723,
    "family tpu": -0.12722,
    "family volta": 0.010443,
    "fsdp_native ada": -0.039045,
    "fsdp_native ada 16": -0.039045,
    "fsdp_native ampere": -0.028115,
    "fsdp_native ampere 16": -0.028115,
    "fsdp_native blackwell": 0,
    "fsdp_native blackwell 16": 0,
    "fsdp_native blackwell 8": 0,
    "fsdp_native cdna3": 0.072998,
    "fsdp_native cdna3 16": 0.021196,
    "fsdp_native cdna3 8": 0.051802,
    "fsdp_native hopper": 0.094762,
    "fsdp_native hopper 16": 0.05112,
    "fsdp_native hopper 8": 0.043643,
    "fsdp_native hybrid": 0,
    "fsdp_native none": -0.062097,
    "fsdp_native recompute full": -0.083056,
    "fsdp_native recompute none": 0.033423,
    "fsdp_native recompute selective": 0.031887,
    "fsdp_native tpu": -0.12722,
    "fsdp_native tpu 16": -0.12722,
    "fsdp_native zero2": 0.0016053,
    "fsdp_native zero3": 0.033873,
    "hf_transformers ampere": 0.0015969,
    "hf_transformers ampere 16": 0.0015969,
    "hf_transformers none": 0.0015969,
    "hf_transformers recompute full": 0.0010646,
    "llm_foundry ampere": -0.0085504,
    "llm_foundry ampere 16": -0.0085504,
    "llm_foundry hopper": 0.011149,
    "llm_foundry hopper 16": -0.0041067,
    "llm_foundry hopper 8": 0.015256,
    "llm_foundry recompute full": -0.026315,
    "llm_foundry recompute none": 0.028047,
    "llm_foundry zero2": 0.0070594,
    "llm_foundry zero3": -0.0044606,
    "ln devices": 0.017085,
    "ln hidden": -0.036134,
    "ln parameters": -0.05347,
    "ln sequence": 0.00078074,
    "megatron ampere": 0.026575,
    "megatron ampere 16": 0.026575,
    "megatron blackwell": 0.068589,
    "megatron blackwell 16": 0.13068,
    "megatron blackwell 8": -0.062094,
    "megatron hopper": -0.12663,
    "megatron hopper 16": -0.01096,
    "megatron hopper 8": -0.11567,
    "megatron none": -0.074619,
    "megatron recompute full": 0.029719,
    "megatron recompute none": -0.036531,
    "megatron recompute selective": -0.0072071,
    "megatron volta": 0.010443,
    "megatron volta 16": 0.010443,
    "megatron zero1": -0.0094258,
    "megatron zero3": 0.063017,
    "method lora": -0.035022,
    "method qlora": -0.0082849,
    "stack deepspeed": 0.030606,
    "stack fsdp_native": -0.026618,
    "stack hf_transformers": 0.0015969,
    "stack llm_foundry": 0.0025988,
    "stack megatron": -0.021028,
}

# 80 % bounds of measured / predicted, like runs left out of the fit, by cell.
SEEN: dict[str, tuple[float, float]] = {
    "deepspeed, ampere, 16 bit, full": (0.7389, 1.2782),
    "deepspeed, ampere, 16 bit, lora": (0.7511, 1.6829),
    "fsdp_native, ada, 16 bit, qlora": (0.7403, 1.2993),
    "fsdp_native, ampere, 16 bit, full": (0.8086, 1.2375),
    "fsdp_native, ampere, 16 bit, lora": (0.764, 1.6128),
    "fsdp_native, ampere, 16 bit, qlora": (0.8042, 1.2993),
    "fsdp_native, cdna3, 16 bit, full": (0.842, 1.5484),
    "fsdp_native, cdna3, 8 bit, full": (0.7853, 1.6904),
    "fsdp_native, hopper, 16 bit, full": (0.8273, 1.2577),
    "fsdp_native, hopper, 8 bit, full": (0.8058, 1.5112),
    "fsdp_native, tpu, 16 bit, full": (0.562, 1.3194),
    "hf_transformers, ampere, 16 bit, lora": (0.7667, 1.2189),
    "hf_transformers, ampere, 16 bit, qlora": (0.8393, 1.459),
    "llm_foundry, ampere, 16 bit, full": (0.9506, 1.0912),
    "llm_foundry, hopper, 16 bit, full": (0.9512, 1.0513),
    "llm_foundry, hopper, 8 bit, full": (0.8128, 1.3266),
    "megatron, ampere, 16 bit, full": (0.9034, 1.1583),
    "megatron, blackwell, 16 bit, full": (0.7905, 1.4684),
    "megatron, blackwell, 8 bit, full": (0.8058, 1.2215),
    "megatron, hopper, 8 bit, full": (0.7831, 1.7337),
    "megatron, hopper, 8 bit, lora": (0.6025, 1.2697),
    "megatron, volta, 16 bit, full": (0.842, 1.3222),
}

# The same with whole sources left out.
UNSEEN: tuple[float, float] = (0.7559, 1.5334)

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
