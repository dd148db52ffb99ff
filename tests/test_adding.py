"""What it takes to add a stack, an optimizer, a recipe, a device, a model family or a reader: the files that change, and what is missed.

Each test edits a copy of the package as one who adds the thing would, and prices a run with it in a fresh interpreter.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import service

LLAMA = {
    "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16, "intermediate_size": 4096,
    "vocab_size": 32000, "hidden_act": "silu",
}  # fmt: skip
SPEC = {
    "model": {"hf_config": LLAMA}, "data": {"total_tokens": 10**8}, "sequence_length": 2048, "batch": {"micro_batch_size": 4},
    "hardware": {"device": "h100-sxm-80gb", "device_count": 8},
}  # fmt: skip
QUOTE = "import json, sys; from service.quotes.quoting import build; print(json.dumps([build(s)['items'] for s in json.load(sys.stdin)]))"
READ = """
import json, sys
from service.actuals.intake import complete, read_document
from service.actuals.schemas import Actuals
body = Actuals.model_validate(json.load(sys.stdin))
print(json.dumps([[value.code, value.value] for attempt in complete(read_document(body), body).attempts for value in attempt.values]))
"""
NEW_READER = """
from ..measurement import Attempt, Reading, Value

def read(document, hints):
    value = Value(code="time.wall_clock", value=60 * document["minutes"], method="newcomer")
    return Reading(attempts=(Attempt(source="newcomer", outcome="completed", attempt=1, values=(value,)),))
"""


class House:
    """A copy of the package that is edited, and the files that were."""

    def __init__(self, root: Path) -> None:
        self.root, self.touched = root, set[str]()
        shutil.copytree(Path(service.__file__).parent, root / "service", ignore=shutil.ignore_patterns("__pycache__"))

    def edit(self, path: str, change: Callable[[str], str]) -> None:
        file = self.root / "service" / path
        before = file.read_text("utf-8") if file.exists() else ""
        after = change(before)
        assert after != before, path
        file.write_text(after, "utf-8")
        self.touched.add(path)

    def run(self, program: str, document: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-B", "-c", program]
        return subprocess.run(command, cwd=self.root, input=json.dumps(document), capture_output=True, text=True, check=False)

    def figures(self, *changes: dict[str, Any]) -> list[dict[str, Any]]:
        """Expected values by code, of one quote a change to the spec."""
        done = self.run(QUOTE, [SPEC | change for change in changes])
        assert done.returncode == 0, done.stderr
        return [{item["code"]: item["expected"] for item in items} for items in json.loads(done.stdout)]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def after(mark: str, added: str) -> Callable[[str], str]:
    """The edit that puts a line behind the one that holds the mark."""
    return lambda text: re.sub(rf"(?m)^.*{re.escape(mark)}.*\n", lambda found: found[0] + added + "\n", text, count=1)


def test_a_stack_is_its_file_and_its_line_in_the_index(house: House) -> None:
    record = 'NEWCOMER = replace(HUGGING_FACE, title="Newcomer", overheads=replace(HUGGING_FACE.overheads, framework_bytes=3e9))'
    imports = "from dataclasses import replace\n\nfrom .hugging_face import HUGGING_FACE\n\n"
    house.edit("estimation/stacks/newcomer.py", lambda _: imports + record + "\n")
    house.edit("estimation/stacks/__init__.py", after("from .megatron import MEGATRON", "from .newcomer import NEWCOMER"))
    house.edit("estimation/stacks/__init__.py", after('"megatron": MEGATRON', '        "newcomer": NEWCOMER,'))
    known, new = house.figures(*({"software": {"stack": stack}} for stack in ("hf_transformers", "newcomer")))
    assert new["memory.framework"] == 3e9 != known["memory.framework"]
    assert new["time.step"] > 0
    assert len(house.touched) <= 3


def test_an_optimizer_is_one_entry(house: House) -> None:
    house.edit("estimation/optimizers.py", after('"sgd_momentum": _plain', '        "newcomer": _plain(3, foreach=True),'))
    known, new = house.figures(*({"optimizer": {"name": name}} for name in ("sgd_momentum", "newcomer")))
    assert new["memory.optimizer_states"] == pytest.approx(3 * known["memory.optimizer_states"])
    assert len(house.touched) == 1


def test_a_recipe_is_one_entry(house: House) -> None:
    house.edit("estimation/recipes.py", after('"fp8_mixed": _mixed', '        "newcomer": _mixed("bf16", 16, _HIGHEST),'))
    known, new = house.figures(*({"precision": {"recipe": recipe}} for recipe in ("bf16_mixed", "newcomer")))
    assert new == known
    assert len(house.touched) == 1


def test_a_device_is_one_record(house: House) -> None:
    def add(text: str) -> str:
        catalog = json.loads(text)
        known = next(record for record in catalog["devices"] if record["name"] == "h100-sxm-80gb")
        catalog["devices"].append({**known, "name": "newcomer", "hbm_bytes_per_second": 2 * known["hbm_bytes_per_second"]})
        return json.dumps(catalog)

    house.edit("catalog/data/devices.json", add)
    known, new = house.figures(*({"hardware": {"device": device, "device_count": 8}} for device in ("h100-sxm-80gb", "newcomer")))
    assert 0 < new["time.step"] < known["time.step"]
    assert new["memory.peak_process"] == known["memory.peak_process"]
    assert len(house.touched) == 1


def test_a_model_family_is_one_reader_in_the_file_of_its_kind(house: House) -> None:
    reader = (
        "\n\ndef newcomer(f: Fields) -> Architecture:\n    model = READERS['llama'](f)\n"
        '    layers = tuple(replace(layer, norm="rms_scale_plus_one") for layer in model.layers)\n'
        "    return replace(model, layers=layers)\n\n\nREADERS['newcomer'] = newcomer\n"
    )
    house.edit("specs/hf_config/llama_like.py", lambda text: text + reader)
    known, new = house.figures(*({"model": {"hf_config": LLAMA | {"model_type": name}}} for name in ("llama", "newcomer")))
    assert new["memory.model_states"] == known["memory.model_states"]
    assert new["memory.activations"] > known["memory.activations"]
    assert len(house.touched) == 1


def test_a_reader_is_its_file_and_its_line_in_the_index(house: House) -> None:
    house.edit("actuals/readers/newcomer.py", lambda _: NEW_READER)
    house.edit("actuals/readers/__init__.py", after("    megatron_log,", "    newcomer,"))
    house.edit("actuals/readers/__init__.py", after('    "megatron_log",', '    "newcomer",'))
    house.edit("actuals/readers/__init__.py", after('    "megatron_log": megatron_log.read', '    "newcomer": newcomer.read,'))
    done = house.run(READ, {"format": "newcomer", "document": {"minutes": 5}})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["time.wall_clock", 300]]
    assert len(house.touched) <= 2


def test_a_reader_that_the_index_lacks_is_no_format(house: House) -> None:
    house.edit("actuals/readers/newcomer.py", lambda _: NEW_READER)
    done = house.run(READ, {"format": "newcomer", "document": {"minutes": 5}})
    assert done.returncode != 0
    assert "ValidationError" in done.stderr and "format" in done.stderr


def test_a_format_without_its_reader_stops_the_service_at_once(house: House) -> None:
    house.edit("actuals/readers/__init__.py", after('    "megatron_log",', '    "newcomer",'))
    done = house.run("import service.actuals.readers", None)
    assert done.returncode != 0
    assert "newcomer" in done.stderr


@pytest.mark.parametrize(
    ("path", "fact"),
    [
        ("estimation/stacks/llm_foundry.py", "default_sharding"),
        ("estimation/stacks/megatron.py", "selective"),
        ("estimation/optimizers.py", "table_state_bytes"),
        ("estimation/recipes.py", "highest_mfu"),
    ],
)
def test_a_record_without_one_of_its_facts_stops_the_service_at_once(house: House, path: str, fact: str) -> None:
    house.edit(path, lambda text: re.sub(rf"(?m)^ +{fact}=.*,\n", "", text, count=1))
    done = house.run(QUOTE, [SPEC])
    assert done.returncode != 0
    assert f"missing 1 required keyword-only argument: '{fact}'" in done.stderr
