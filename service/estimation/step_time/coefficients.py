"""Fitted data of the step-time model, written by ``python -m tests.benchmarks.fit_time --write``; do not edit by hand.

Rows: tests/cases/measured_public.jsonl and measured_vtrain.jsonl, each with its source; what an entry means is said in rates.py,
residual.py and interval.py, the priors of the fit in tests/benchmarks/fit_time.py."""

from __future__ import annotations

FITTED_ON = "1409 measured step times of 13 sources: InternEvo, MT-NLG, Megatron-Bridge, Megatron-DeepSpeed, Qwen, TinyLlama, llm-foundry, maxtext, ms-swift, runs, torchtitan, torchtune, vTrain"

# Efficiencies, shares and latencies (name: value; prior and its standard deviation in the logarithm beside it).
COEFFICIENTS: dict[str, float] = {
    "matrix": 0.69797,  # prior 0.72, 0.15
    "matrix:ampere": 1.0561,  # prior 1, 0.15
    "matrix:hopper": 0.91611,  # prior 1, 0.15
    "matrix:blackwell": 0.90759,  # prior 1, 0.15
    "matrix:volta": 0.96228,  # prior 1, 0.1
    "matrix:cdna3": 0.6978,  # prior 1, 0.15
    "matrix:tpu": 1.1836,  # prior 1, 0.1
    "matrix:ada": 1.1903,  # prior 1, 0.15
    "matrix/fp8": 0.86227,  # prior 0.7, 0.2
    "matrix/fp8:hopper": 0.95323,  # prior 1, 0.15
    "matrix/fp8:blackwell": 1.3766,  # prior 1, 0.15
    "matrix/fp8:cdna3": 0.85678,  # prior 1, 0.15
    "expert": 0.64733,  # prior 0.6, 0.3
    "expert/fp8": 1.0036,  # prior 0.8, 0.2
    "matrix_bytes": 1.7354,  # prior 2, 0.5
    "attention": 0.39934,  # prior 0.5, 0.2
    "attention:ampere": 1.1914,  # prior 1, 0.25
    "attention:hopper": 0.64682,  # prior 1, 0.25
    "attention:blackwell": 1.1684,  # prior 1, 0.25
    "attention:cdna3": 0.66508,  # prior 1, 0.25
    "attention@llm_foundry": 0.69373,  # prior 1, 0.2
    "elementwise@llm_foundry": 1.1159,  # prior 1, 0.2
    "kernel_host_seconds@llm_foundry": 1,  # prior 1, 0.3
    "data_exposed@llm_foundry": 1.0145,  # prior 1, 0.3
    "attention@fsdp_native": 0.7428,  # prior 1, 0.2
    "elementwise@fsdp_native": 1.2472,  # prior 1, 0.2
    "kernel_host_seconds@fsdp_native": 1,  # prior 1, 0.3
    "data_exposed@fsdp_native": 0.97547,  # prior 1, 0.3
    "attention@hf_transformers": 1.2048,  # prior 1, 0.2
    "elementwise@hf_transformers": 1.409,  # prior 1, 0.2
    "kernel_host_seconds@hf_transformers": 0.79722,  # prior 1, 0.3
    "data_exposed@hf_transformers": 1,  # prior 1, 0.3
    "attention@deepspeed": 1.067,  # prior 1, 0.2
    "elementwise@deepspeed": 0.56922,  # prior 1, 0.2
    "kernel_host_seconds@deepspeed": 1.2799,  # prior 1, 0.3
    "data_exposed@deepspeed": 1.0335,  # prior 1, 0.3
    "attention@megatron": 1.2057,  # prior 1, 0.2
    "elementwise@megatron": 0.77244,  # prior 1, 0.2
    "kernel_host_seconds@megatron": 1.1414,  # prior 1, 0.3
    "data_exposed@megatron": 1.0708,  # prior 1, 0.3
    "attention/eager": 0.36923,  # prior 0.4, 0.3
    "attention_bytes": 0.93644,  # prior 0.8, 0.3
    "elementwise": 0.43522,  # prior 0.6, 0.3
    "elementwise+compile": 2.3388,  # prior 1.6, 0.3
    "logits": 0.028109,  # prior 0.0625, 0.5
    "logits+fused_loss": 2.0708,  # prior 2, 0.3
    "kernel_seconds": 4.5689e-06,  # prior 2e-06, 0.5
    "kernel_host_seconds": 3.2865e-05,  # prior 2.5e-05, 0.4
    "kernel_host_seconds:blackwell": 0.3,  # prior 0.3, 0.5
    "kernel_host_seconds+compile": 0.5,  # prior 0.5, 0.3
    "message_seconds": 5.9739e-06,  # prior 5e-06, 0.5
    "message_host_seconds": 9.5391e-06,  # prior 1e-05, 0.5
    "stage_message_seconds": 0.00036136,  # prior 0.0005, 0.7
    "step_seconds": 0.0048752,  # prior 0.005, 0.7
    "intra": 0.65286,  # prior 0.75, 0.1
    "inter": 0.70202,  # prior 0.6, 0.3
    "tensor_exposed": 1.1417,  # prior 1, 0.1
    "tensor_exposed+sequence_parallel": 0.62404,  # prior 0.7, 0.2
    "context_exposed": 0.50349,  # prior 0.5, 0.4
    "expert_exposed": 0.62464,  # prior 0.8, 0.4
    "sharding_exposed": 0.43801,  # prior 0.2, 0.5
    "sharding_cover": 0.73738,  # prior 0.7, 0.3
    "data_exposed": 0.6571,  # prior 0.6, 0.3
    "dequantized": 8.4839e10,  # prior 5e+10, 0.5
    "host_link": 2e10,  # prior 2e+10, 0.3
    "optimizer": 1.0164,  # prior 0.7, 0.3
}

# Shrunk logarithmic weights of the features in residual.py.
RESIDUAL: dict[str, float] = {
    "all": -0.010713,
    "deepspeed ampere": 0.032168,
    "deepspeed ampere 16": 0.032168,
    "deepspeed recompute full": 0.016147,
    "deepspeed recompute none": 0.0052985,
    "deepspeed zero1": -0.0091748,
    "deepspeed zero2": 0.13488,
    "deepspeed zero3": -0.093538,
    "experts": -0.07465,
    "experts 16": -0.042952,
    "experts 8": -0.031699,
    "family ada": -0.043608,
    "family ampere": 0.0091271,
    "family blackwell": 0.049607,
    "family cdna3": 0.12047,
    "family hopper": -0.022982,
    "family tpu": -0.13395,
    "family volta": 0.010625,
    "fsdp_native ada": -0.043608,
    "fsdp_native ada 16": -0.043608,
    "fsdp_native ampere": -0.046407,
    "fsdp_native ampere 16": -0.046407,
    "fsdp_native blackwell": 0,
    "fsdp_native blackwell 16": 0,
    "fsdp_native blackwell 8": 0,
    "fsdp_native cdna3": 0.12047,
    "fsdp_native cdna3 16": 0.056151,
    "fsdp_native cdna3 8": 0.064322,
    "fsdp_native hopper": 0.080327,
    "fsdp_native hopper 16": 0.035164,
    "fsdp_native hopper 8": 0.045163,
    "fsdp_native hybrid": 0,
    "fsdp_native none": -0.085815,
    "fsdp_native recompute full": -0.079398,
    "fsdp_native recompute none": 0.021226,
    "fsdp_native recompute selective": 0.042726,
    "fsdp_native tpu": -0.13395,
    "fsdp_native tpu 16": -0.13395,
    "fsdp_native zero2": 0.013415,
    "fsdp_native zero3": 0.04923,
    "hf_transformers ampere": -0.0027312,
    "hf_transformers ampere 16": -0.0027312,
    "hf_transformers none": -0.0027312,
    "hf_transformers recompute full": -0.0018208,
    "llm_foundry ampere": -0.017536,
    "llm_foundry ampere 16": -0.017536,
    "llm_foundry hopper": 0.014782,
    "llm_foundry hopper 16": -0.0054093,
    "llm_foundry hopper 8": 0.020191,
    "llm_foundry recompute full": -0.039051,
    "llm_foundry recompute none": 0.037215,
    "llm_foundry zero2": 0.010024,
    "llm_foundry zero3": -0.012777,
    "ln devices": 0.0031533,
    "ln hidden": -0.066393,
    "ln parameters": -0.094549,
    "ln sequence": 0.016342,
    "megatron ampere": 0.043633,
    "megatron ampere 16": 0.043633,
    "megatron blackwell": 0.049607,
    "megatron blackwell 16": 0.12919,
    "megatron blackwell 8": -0.07958,
    "megatron hopper": -0.11809,
    "megatron hopper 16": -0.0077296,
    "megatron hopper 8": -0.11036,
    "megatron none": -0.17108,
    "megatron recompute full": 0.040371,
    "megatron recompute none": -0.042663,
    "megatron recompute selective": -0.007192,
    "megatron volta": 0.010625,
    "megatron volta 16": 0.010625,
    "megatron zero1": 0.095826,
    "megatron zero3": 0.061028,
    "method lora": -0.02605,
    "method qlora": 0.005621,
    "stack deepspeed": 0.032168,
    "stack fsdp_native": -0.02317,
    "stack hf_transformers": -0.0027312,
    "stack llm_foundry": -0.0027537,
    "stack megatron": -0.014227,
}

# 80 % bounds of measured / predicted, like runs left out of the fit, by cell.
SEEN: dict[str, tuple[float, float]] = {
    "deepspeed, ampere, 16 bit, full": (0.7668, 1.1687),
    "deepspeed, ampere, 16 bit, lora": (0.7462, 1.7627),
    "fsdp_native, ada, 16 bit, qlora": (0.7216, 1.1851),
    "fsdp_native, ampere, 16 bit, full": (0.8422, 1.1754),
    "fsdp_native, ampere, 16 bit, lora": (0.8693, 1.1851),
    "fsdp_native, ampere, 16 bit, qlora": (0.8693, 1.1851),
    "fsdp_native, cdna3, 16 bit, full": (0.8693, 1.9419),
    "fsdp_native, cdna3, 8 bit, full": (0.8693, 1.9419),
    "fsdp_native, hopper, 16 bit, full": (0.8184, 1.2554),
    "fsdp_native, hopper, 8 bit, full": (0.8184, 1.4841),
    "fsdp_native, tpu, 16 bit, full": (0.5631, 1.3112),
    "hf_transformers, ampere, 16 bit, lora": (0.8002, 1.1264),
    "hf_transformers, ampere, 16 bit, qlora": (0.8946, 1.2554),
    "llm_foundry, ampere, 16 bit, full": (0.9415, 1.0957),
    "llm_foundry, hopper, 16 bit, full": (0.938, 1.0957),
    "llm_foundry, hopper, 8 bit, full": (0.8925, 1.1466),
    "megatron, ampere, 16 bit, full": (0.8786, 1.1482),
    "megatron, blackwell, 16 bit, full": (0.8029, 1.4624),
    "megatron, blackwell, 8 bit, full": (0.826, 1.1915),
    "megatron, hopper, 8 bit, full": (0.8245, 1.2926),
    "megatron, hopper, 8 bit, lora": (0.5631, 1.1851),
    "megatron, volta, 16 bit, full": (0.8693, 1.1851),
}

# The same with whole sources left out.
UNSEEN: tuple[float, float] = (0.7282, 1.6387)

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
