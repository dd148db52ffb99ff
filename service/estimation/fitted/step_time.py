"""Fitted data of the step-time model, written by ``python -m tests.benchmarks.fit_time --write``; do not edit by hand.

Rows: tests/cases/measured_public.jsonl and measured_vtrain.jsonl, each with its source; what an entry means is said in rates.py,
residual.py and interval.py, the priors of the fit in tests/benchmarks/fit_time.py."""

from __future__ import annotations

FITTED_ON = (
    "1409 measured step times of 13 sources: InternEvo, MT-NLG, Megatron-Bridge, Megatron-DeepSpeed, Qwen, "
    "TinyLlama, llm-foundry, maxtext, ms-swift, runs, torchtitan, torchtune, vTrain"
)
INPUTS = "9dc8775f8d86cdeb"  # digest of the rows and priors (tests/benchmarks/fitted.py)

# Efficiencies, shares and latencies (name: value; prior and its standard deviation in the logarithm beside it).
COEFFICIENTS: dict[str, float] = {
    "matrix": 0.7516,  # prior 0.72, 0.15
    "matrix:ampere": 1.0851,  # prior 1, 0.15
    "matrix:hopper": 0.89695,  # prior 1, 0.15
    "matrix:blackwell": 0.87277,  # prior 1, 0.15
    "matrix:volta": 0.99975,  # prior 1, 0.1
    "matrix:tpu": 1.1727,  # prior 1, 0.1
    "matrix:ada": 1.1783,  # prior 1, 0.15
    "matrix:cdna2": 0.66,  # prior 0.66, 0.01
    "attention:cdna2": 0.7,  # prior 0.7, 0.01
    "matrix:cdna3": 0.48172,  # prior 0.66, 0.15
    "attention:cdna3": 0.62928,  # prior 0.7, 0.15
    "matrix:cdna4": 0.66,  # prior 0.66, 0.01
    "attention:cdna4": 0.7,  # prior 0.7, 0.01
    "matrix/fp8": 0.85199,  # prior 0.7, 0.2
    "matrix/fp8:hopper": 0.97259,  # prior 1, 0.15
    "matrix/fp8:blackwell": 1.3382,  # prior 1, 0.15
    "matrix/fp8:cdna3": 0.85814,  # prior 1, 0.15
    "expert": 0.64815,  # prior 0.6, 0.3
    "expert/fp8": 0.99983,  # prior 0.8, 0.2
    "matrix_bytes": 1.7301,  # prior 2, 0.5
    "attention": 0.393,  # prior 0.5, 0.2
    "attention:ampere": 1.1105,  # prior 1, 0.25
    "attention:hopper": 0.62851,  # prior 1, 0.25
    "attention:blackwell": 1.134,  # prior 1, 0.25
    "attention@llm_foundry": 0.73739,  # prior 1, 0.2
    "matrix@llm_foundry": 0.99754,  # prior 1, 0.1
    "elementwise@llm_foundry": 0.92824,  # prior 1, 0.2
    "kernel_host_seconds@llm_foundry": 1,  # prior 1, 0.3
    "data_exposed@llm_foundry": 1.009,  # prior 1, 0.3
    "attention@fsdp_native": 0.75776,  # prior 1, 0.2
    "matrix@fsdp_native": 1.0006,  # prior 1, 0.1
    "elementwise@fsdp_native": 1.2091,  # prior 1, 0.2
    "kernel_host_seconds@fsdp_native": 1,  # prior 1, 0.3
    "data_exposed@fsdp_native": 0.97842,  # prior 1, 0.3
    "attention@hf_transformers": 1.1145,  # prior 1, 0.2
    "matrix@hf_transformers": 1.1081,  # prior 1, 0.1
    "elementwise@hf_transformers": 1.2904,  # prior 1, 0.2
    "kernel_host_seconds@hf_transformers": 0.81571,  # prior 1, 0.3
    "data_exposed@hf_transformers": 1,  # prior 1, 0.3
    "attention@deepspeed": 1.0566,  # prior 1, 0.2
    "matrix@deepspeed": 0.96481,  # prior 1, 0.1
    "elementwise@deepspeed": 0.56004,  # prior 1, 0.2
    "kernel_host_seconds@deepspeed": 1.2684,  # prior 1, 0.3
    "data_exposed@deepspeed": 1.063,  # prior 1, 0.3
    "attention@megatron": 1.1945,  # prior 1, 0.2
    "matrix@megatron": 0.95519,  # prior 1, 0.1
    "elementwise@megatron": 1.0469,  # prior 1, 0.2
    "kernel_host_seconds@megatron": 1.132,  # prior 1, 0.3
    "data_exposed@megatron": 1.0457,  # prior 1, 0.3
    "attention/eager": 0.46444,  # prior 0.4, 0.3
    "matrix@megatron+eager/none": 1.1157,  # prior 1, 0.15
    "matrix@megatron+eager/zero1": 0.82651,  # prior 1, 0.15
    "attention_bytes": 0.91996,  # prior 0.8, 0.3
    "elementwise": 0.41673,  # prior 0.6, 0.3
    "elementwise+compile": 2.2608,  # prior 1.6, 0.3
    "logits": 0.026093,  # prior 0.0625, 0.5
    "logits+fused_loss": 2.0563,  # prior 2, 0.3
    "kernel_seconds": 8.5316e-06,  # prior 2e-06, 0.5
    "kernel_host_seconds": 3.3149e-05,  # prior 2.5e-05, 0.4
    "kernel_host_seconds:blackwell": 0.3,  # prior 0.3, 0.5
    "kernel_host_seconds+compile": 0.5,  # prior 0.5, 0.3
    "message_seconds": 6.8112e-06,  # prior 5e-06, 0.5
    "message_host_seconds": 8.841e-06,  # prior 1e-05, 0.5
    "stage_message_seconds": 0.00043726,  # prior 0.0005, 0.7
    "step_seconds": 0.0056501,  # prior 0.005, 0.7
    "intra": 0.70283,  # prior 0.75, 0.1
    "inter": 0.61969,  # prior 0.6, 0.3
    "tensor_exposed": 1.0783,  # prior 1, 0.1
    "tensor_exposed+sequence_parallel": 0.65661,  # prior 0.7, 0.2
    "context_exposed": 0.50252,  # prior 0.5, 0.4
    "expert_exposed": 0.56707,  # prior 0.8, 0.4
    "sharding_exposed": 0.47346,  # prior 0.2, 0.5
    "sharding_cover": 0.72796,  # prior 0.7, 0.3
    "data_exposed": 0.65844,  # prior 0.6, 0.3
    "dequantized": 8.8778e10,  # prior 5e+10, 0.5
    "host_link": 2e10,  # prior 2e+10, 0.3
    "optimizer": 1.0187,  # prior 0.7, 0.3
}

# Shrunk logarithmic weights of the features in residual.py.
RESIDUAL: dict[str, float] = {
    "all": -0.014466,
    "deepspeed ampere": 0.030728,
    "deepspeed ampere 16 bit": 0.030728,
    "deepspeed recompute full": 0.0093825,
    "deepspeed recompute none": 0.011103,
    "deepspeed zero1": 0.0047554,
    "deepspeed zero2": 0.1238,
    "deepspeed zero3": -0.097831,
    "experts": -0.057792,
    "experts 16 bit": -0.034257,
    "experts 8 bit": -0.023535,
    "family ada": -0.040071,
    "family ampere": 0.023742,
    "family blackwell": 0.068734,
    "family cdna3": 0.071286,
    "family hopper": -0.017356,
    "family tpu": -0.12727,
    "family volta": 0.0064719,
    "fsdp_native ada": -0.040071,
    "fsdp_native ada 16 bit": -0.040071,
    "fsdp_native ampere": -0.02413,
    "fsdp_native ampere 16 bit": -0.02413,
    "fsdp_native blackwell": 0,
    "fsdp_native blackwell 16 bit": 0,
    "fsdp_native blackwell 8 bit": 0,
    "fsdp_native cdna3": 0.071286,
    "fsdp_native cdna3 16 bit": 0.021443,
    "fsdp_native cdna3 8 bit": 0.049843,
    "fsdp_native hopper": 0.092703,
    "fsdp_native hopper 16 bit": 0.051645,
    "fsdp_native hopper 8 bit": 0.041059,
    "fsdp_native hybrid": 0,
    "fsdp_native none": -0.062933,
    "fsdp_native recompute full": -0.08423,
    "fsdp_native recompute none": 0.034897,
    "fsdp_native recompute selective": 0.031011,
    "fsdp_native tpu": -0.12727,
    "fsdp_native tpu 16 bit": -0.12727,
    "fsdp_native zero2": -0.00083739,
    "fsdp_native zero3": 0.036287,
    "hf_transformers ampere": 0.0020516,
    "hf_transformers ampere 16 bit": 0.0020516,
    "hf_transformers none": 0.0020516,
    "hf_transformers recompute full": 0.0013677,
    "llm_foundry ampere": -0.0072903,
    "llm_foundry ampere 16 bit": -0.0072903,
    "llm_foundry hopper": 0.0085283,
    "llm_foundry hopper 16 bit": -0.0039223,
    "llm_foundry hopper 8 bit": 0.012451,
    "llm_foundry recompute full": -0.025126,
    "llm_foundry recompute none": 0.025952,
    "llm_foundry zero2": 0.0047808,
    "llm_foundry zero3": -0.0035429,
    "ln devices": 0.018426,
    "ln hidden": -0.036546,
    "ln parameters": -0.053928,
    "ln sequence": 0.0015791,
    "megatron ampere": 0.022382,
    "megatron ampere 16 bit": 0.022382,
    "megatron blackwell": 0.068734,
    "megatron blackwell 16 bit": 0.13708,
    "megatron blackwell 8 bit": -0.068349,
    "megatron hopper": -0.11859,
    "megatron hopper 16 bit": -0.0055655,
    "megatron hopper 8 bit": -0.11302,
    "megatron none": -0.058946,
    "megatron recompute full": 0.018857,
    "megatron recompute none": -0.025694,
    "megatron recompute selective": -0.0071628,
    "megatron volta": 0.0064719,
    "megatron volta 16 bit": 0.0064719,
    "megatron zero1": 0.00067284,
    "megatron zero3": 0.037273,
    "method lora": -0.035913,
    "method qlora": -0.0095412,
    "stack deepspeed": 0.030728,
    "stack fsdp_native": -0.027483,
    "stack hf_transformers": 0.0020516,
    "stack llm_foundry": 0.001238,
    "stack megatron": -0.021,
}

# 80 % bounds of measured / predicted, like runs left out of the fit, by cell.
SEEN: dict[str, tuple[float, float]] = {
    "deepspeed, ampere, 16 bit, full": (0.7488, 1.2739),
    "deepspeed, ampere, 16 bit, lora": (0.7588, 1.6647),
    "fsdp_native, ada, 16 bit, qlora": (0.7468, 1.2954),
    "fsdp_native, ampere, 16 bit, full": (0.8217, 1.2381),
    "fsdp_native, ampere, 16 bit, lora": (0.7733, 1.598),
    "fsdp_native, ampere, 16 bit, qlora": (0.8138, 1.2954),
    "fsdp_native, cdna3, 16 bit, full": (0.8503, 1.5414),
    "fsdp_native, cdna3, 8 bit, full": (0.7997, 1.6766),
    "fsdp_native, hopper, 16 bit, full": (0.8379, 1.2598),
    "fsdp_native, hopper, 8 bit, full": (0.8057, 1.5274),
    "fsdp_native, tpu, 16 bit, full": (0.5721, 1.3299),
    "hf_transformers, ampere, 16 bit, lora": (0.7728, 1.2148),
    "hf_transformers, ampere, 16 bit, qlora": (0.8443, 1.4432),
    "llm_foundry, ampere, 16 bit, full": (0.9512, 1.0889),
    "llm_foundry, hopper, 16 bit, full": (0.9512, 1.0563),
    "llm_foundry, hopper, 8 bit, full": (0.8216, 1.3081),
    "megatron, ampere, 16 bit, full": (0.9038, 1.1619),
    "megatron, blackwell, 16 bit, full": (0.8097, 1.4944),
    "megatron, blackwell, 8 bit, full": (0.8158, 1.214),
    "megatron, hopper, 8 bit, full": (0.7937, 1.7196),
    "megatron, hopper, 8 bit, lora": (0.6223, 1.2644),
    "megatron, volta, 16 bit, full": (0.8503, 1.3173),
}

# The same with whole sources left out.
UNSEEN: tuple[float, float] = (0.775, 1.5207)

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
