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
    "matrix": 0.76204,  # prior 0.72, 0.15
    "matrix:ampere": 1.06,  # prior 1, 0.15
    "matrix:hopper": 0.8858,  # prior 1, 0.15
    "matrix:blackwell": 0.94216,  # prior 1, 0.15
    "matrix:volta": 0.98881,  # prior 1, 0.1
    "matrix:cdna3": 0.73334,  # prior 1, 0.15
    "matrix:tpu": 1.1706,  # prior 1, 0.1
    "matrix:ada": 1.1742,  # prior 1, 0.15
    "matrix/fp8": 0.89088,  # prior 0.7, 0.2
    "matrix/fp8:hopper": 0.954,  # prior 1, 0.15
    "matrix/fp8:blackwell": 1.3642,  # prior 1, 0.15
    "matrix/fp8:cdna3": 0.87998,  # prior 1, 0.15
    "expert": 0.67464,  # prior 0.6, 0.3
    "expert/fp8": 0.97432,  # prior 0.8, 0.2
    "matrix_bytes": 1.7272,  # prior 2, 0.5
    "attention": 0.37524,  # prior 0.5, 0.2
    "attention:ampere": 1.184,  # prior 1, 0.25
    "attention:hopper": 0.6682,  # prior 1, 0.25
    "attention:blackwell": 1.1284,  # prior 1, 0.25
    "attention:cdna3": 0.59294,  # prior 1, 0.25
    "attention@llm_foundry": 0.7248,  # prior 1, 0.2
    "matrix@llm_foundry": 1.011,  # prior 1, 0.1
    "elementwise@llm_foundry": 0.91793,  # prior 1, 0.2
    "kernel_host_seconds@llm_foundry": 1,  # prior 1, 0.3
    "data_exposed@llm_foundry": 1.012,  # prior 1, 0.3
    "attention@fsdp_native": 0.73733,  # prior 1, 0.2
    "matrix@fsdp_native": 1.012,  # prior 1, 0.1
    "elementwise@fsdp_native": 1.2192,  # prior 1, 0.2
    "kernel_host_seconds@fsdp_native": 1,  # prior 1, 0.3
    "data_exposed@fsdp_native": 0.98045,  # prior 1, 0.3
    "attention@hf_transformers": 1.1157,  # prior 1, 0.2
    "matrix@hf_transformers": 1.1122,  # prior 1, 0.1
    "elementwise@hf_transformers": 1.2933,  # prior 1, 0.2
    "kernel_host_seconds@hf_transformers": 0.81649,  # prior 1, 0.3
    "data_exposed@hf_transformers": 1,  # prior 1, 0.3
    "attention@deepspeed": 1.0548,  # prior 1, 0.2
    "matrix@deepspeed": 0.97217,  # prior 1, 0.1
    "elementwise@deepspeed": 0.56938,  # prior 1, 0.2
    "kernel_host_seconds@deepspeed": 1.2669,  # prior 1, 0.3
    "data_exposed@deepspeed": 1.0619,  # prior 1, 0.3
    "attention@megatron": 1.1933,  # prior 1, 0.2
    "matrix@megatron": 0.92702,  # prior 1, 0.1
    "elementwise@megatron": 1.0273,  # prior 1, 0.2
    "kernel_host_seconds@megatron": 1.1328,  # prior 1, 0.3
    "data_exposed@megatron": 1.033,  # prior 1, 0.3
    "attention/eager": 0.45867,  # prior 0.4, 0.3
    "matrix@megatron/none": 1.1612,  # prior 1, 0.15
    "matrix@megatron/zero1": 0.86908,  # prior 1, 0.15
    "attention_bytes": 0.91634,  # prior 0.8, 0.3
    "elementwise": 0.4127,  # prior 0.6, 0.3
    "elementwise+compile": 2.2038,  # prior 1.6, 0.3
    "logits": 0.027078,  # prior 0.0625, 0.5
    "logits+fused_loss": 2.0559,  # prior 2, 0.3
    "kernel_seconds": 8.2526e-06,  # prior 2e-06, 0.5
    "kernel_host_seconds": 3.3137e-05,  # prior 2.5e-05, 0.4
    "kernel_host_seconds:blackwell": 0.3,  # prior 0.3, 0.5
    "kernel_host_seconds+compile": 0.5,  # prior 0.5, 0.3
    "message_seconds": 6.8065e-06,  # prior 5e-06, 0.5
    "message_host_seconds": 8.8111e-06,  # prior 1e-05, 0.5
    "stage_message_seconds": 0.00043304,  # prior 0.0005, 0.7
    "step_seconds": 0.0057671,  # prior 0.005, 0.7
    "intra": 0.68813,  # prior 0.75, 0.1
    "inter": 0.63449,  # prior 0.6, 0.3
    "tensor_exposed": 1.0783,  # prior 1, 0.1
    "tensor_exposed+sequence_parallel": 0.64926,  # prior 0.7, 0.2
    "context_exposed": 0.50125,  # prior 0.5, 0.4
    "expert_exposed": 0.59322,  # prior 0.8, 0.4
    "sharding_exposed": 0.51808,  # prior 0.2, 0.5
    "sharding_cover": 0.70001,  # prior 0.7, 0.3
    "data_exposed": 0.65308,  # prior 0.6, 0.3
    "dequantized": 8.8427e+10,  # prior 5e+10, 0.5
    "host_link": 2e+10,  # prior 2e+10, 0.3
    "optimizer": 1.0195,  # prior 0.7, 0.3
}

# Shrunk logarithmic weights of the features in residual.py.
RESIDUAL: dict[str, float] = {
    "all": -0.00080622,
    "deepspeed ampere": 0.029663,
    "deepspeed ampere 16": 0.029663,
    "deepspeed recompute full": 0.0079307,
    "deepspeed recompute none": 0.011845,
    "deepspeed zero1": 0.0069946,
    "deepspeed zero2": 0.12786,
    "deepspeed zero3": -0.1052,
    "experts": -0.055387,
    "experts 16": -0.042316,
    "experts 8": -0.01307,
    "family ada": -0.042534,
    "family ampere": 0.012983,
    "family blackwell": 0.063846,
    "family cdna3": 0.12211,
    "family hopper": -0.033594,
    "family tpu": -0.13302,
    "family volta": 0.0093983,
    "fsdp_native ada": -0.042534,
    "fsdp_native ada 16": -0.042534,
    "fsdp_native ampere": -0.034051,
    "fsdp_native ampere 16": -0.034051,
    "fsdp_native blackwell": 0,
    "fsdp_native blackwell 16": 0,
    "fsdp_native blackwell 8": 0,
    "fsdp_native cdna3": 0.12211,
    "fsdp_native cdna3 16": 0.057414,
    "fsdp_native cdna3 8": 0.064697,
    "fsdp_native hopper": 0.075891,
    "fsdp_native hopper 16": 0.040962,
    "fsdp_native hopper 8": 0.034929,
    "fsdp_native hybrid": 0,
    "fsdp_native none": -0.065002,
    "fsdp_native recompute full": -0.086735,
    "fsdp_native recompute none": 0.028658,
    "fsdp_native recompute selective": 0.050343,
    "fsdp_native tpu": -0.13302,
    "fsdp_native tpu 16": -0.13302,
    "fsdp_native zero2": 0.0078163,
    "fsdp_native zero3": 0.045585,
    "hf_transformers ampere": 0.001337,
    "hf_transformers ampere 16": 0.001337,
    "hf_transformers none": 0.001337,
    "hf_transformers recompute full": 0.00089132,
    "llm_foundry ampere": -0.010126,
    "llm_foundry ampere 16": -0.010126,
    "llm_foundry hopper": 0.012753,
    "llm_foundry hopper 16": -0.0043317,
    "llm_foundry hopper 8": 0.017085,
    "llm_foundry recompute full": -0.025417,
    "llm_foundry recompute none": 0.027168,
    "llm_foundry zero2": 0.0074386,
    "llm_foundry zero3": -0.0048113,
    "ln devices": 0.012998,
    "ln hidden": -0.036986,
    "ln parameters": -0.049972,
    "ln sequence": 0.0010568,
    "megatron ampere": 0.02616,
    "megatron ampere 16": 0.02616,
    "megatron blackwell": 0.063846,
    "megatron blackwell 16": 0.12718,
    "megatron blackwell 8": -0.06333,
    "megatron hopper": -0.12224,
    "megatron hopper 16": -0.011055,
    "megatron hopper 8": -0.11118,
    "megatron none": -0.074859,
    "megatron recompute full": 0.028747,
    "megatron recompute none": -0.036754,
    "megatron recompute selective": -0.007216,
    "megatron volta": 0.0093983,
    "megatron volta 16": 0.0093983,
    "megatron zero1": -0.0088423,
    "megatron zero3": 0.060868,
    "method lora": -0.040313,
    "method qlora": -0.013374,
    "stack deepspeed": 0.029663,
    "stack fsdp_native": -0.0116,
    "stack hf_transformers": 0.001337,
    "stack llm_foundry": 0.0026273,
    "stack megatron": -0.022834,
}

# 80 % bounds of measured / predicted, like runs left out of the fit, by cell.
SEEN: dict[str, tuple[float, float]] = {
    "deepspeed, ampere, 16 bit, full": (0.7712, 1.1884),
    "deepspeed, ampere, 16 bit, lora": (0.7452, 1.717),
    "fsdp_native, ada, 16 bit, qlora": (0.7121, 1.1858),
    "fsdp_native, ampere, 16 bit, full": (0.8139, 1.1829),
    "fsdp_native, ampere, 16 bit, lora": (0.8743, 1.1858),
    "fsdp_native, ampere, 16 bit, qlora": (0.8519, 1.1858),
    "fsdp_native, cdna3, 16 bit, full": (0.8743, 2.0174),
    "fsdp_native, cdna3, 8 bit, full": (0.8743, 2.0174),
    "fsdp_native, hopper, 16 bit, full": (0.8181, 1.2759),
    "fsdp_native, hopper, 8 bit, full": (0.7901, 1.4606),
    "fsdp_native, tpu, 16 bit, full": (0.5595, 1.2865),
    "hf_transformers, ampere, 16 bit, lora": (0.7717, 1.0862),
    "hf_transformers, ampere, 16 bit, qlora": (0.8689, 1.2759),
    "llm_foundry, ampere, 16 bit, full": (0.9504, 1.1309),
    "llm_foundry, hopper, 16 bit, full": (0.9433, 1.0821),
    "llm_foundry, hopper, 8 bit, full": (0.8948, 1.1567),
    "megatron, ampere, 16 bit, full": (0.9049, 1.1663),
    "megatron, blackwell, 16 bit, full": (0.7888, 1.4606),
    "megatron, blackwell, 8 bit, full": (0.8085, 1.2116),
    "megatron, hopper, 8 bit, full": (0.8122, 1.3023),
    "megatron, hopper, 8 bit, lora": (0.5595, 1.1858),
    "megatron, volta, 16 bit, full": (0.8743, 1.1858),
}

# The same with whole sources left out.
UNSEEN: tuple[float, float] = (0.7469, 1.5328)

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
