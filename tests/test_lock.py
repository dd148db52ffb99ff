"""The lock files hold what pyproject.toml asks for, every file by its hash, and name no registry."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("requirements.lock", PROJECT["project"]["dependencies"]),
        ("requirements-dev.lock", PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["dev"]),
    ],
)
def test_the_lock_holds_what_is_asked_for(lock: str, wanted: list[str]) -> None:
    versions = locked(lock)
    for text in wanted:
        requirement = Requirement(text)
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), text


def test_both_locks_hold_the_same_versions() -> None:
    assert locked("requirements.lock").items() <= locked("requirements-dev.lock").items()


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_everything_is_pinned_by_hash(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    for entry in re.split(r"\n(?=\S)", text.strip()):
        assert "--hash=sha256:" in entry, entry[:100]
