"""The house rules that a machine can check: layers, sizes of files, what is listed where."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import fastcell

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CODE = [
    path
    for pattern in ("*.py", "csrc/*", "fastcell/**/*.py*", "tests/**/*.py", "bench/*.py")
    for path in ROOT.glob(pattern)
    if path.suffix in {".py", ".pyi", ".cpp", ".h", ".def"}
]
TEXTS = [*CODE, *(ROOT / name for name in ("README.md", "Makefile", "pyproject.toml", ".ci/run"))]
MOST_LINES = 400


def name_of(path):
    return str(path.relative_to(ROOT))


def test_imports_point_one_way():
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed: pip install fastcell[dev]")
    run = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def test_a_file_fits_in_a_head():
    lines = {name_of(path): len(path.read_text().splitlines()) for path in CODE}
    assert not {name: n for name, n in lines.items() if n > MOST_LINES}


def test_text_speaks_of_no_machine():
    """Neither absolute paths of a developer's machine nor folders outside the repository."""
    outside = re.compile(r"(?<![\w.\]])/(?:work|root|home|opt|Users)/\w|\.\./shared")
    found = {name_of(path): outside.findall(path.read_text()) for path in TEXTS}
    assert not {name: places for name, places in found.items() if places}


def test_every_source_is_built():
    build = (ROOT / "setup.py").read_text()
    sources = {name_of(path) for path in (ROOT / "csrc").glob("*.cpp")}
    assert sources == set(re.findall(r'"(csrc/\w+\.cpp)"', build))


def test_every_package_is_installed():
    folders = [path.parent for path in (ROOT / "fastcell").rglob("__init__.py")]
    packages = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert packages == set(PROJECT["tool"]["setuptools"]["packages"])


def test_the_lock_fits_the_requirements():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [
        *PROJECT["project"]["dependencies"],
        *PROJECT["build-system"]["requires"],
        # Ray is installed by those who have machines for it; its tests skip without.
        *(each for name, extra in extras.items() if name != "ray" for each in extra),
    ]
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(pins[requirement.name]), requirement


def test_the_lock_leaves_cuda_to_torch():
    assert "nvidia" not in (ROOT / "requirements.txt").read_text()


def test_one_version():
    assert fastcell.__version__ == PROJECT["project"]["version"] == version("fastcell")


def test_every_public_name_is_there():
    for name in fastcell.__all__:
        assert getattr(fastcell, name) is not None


def test_import_is_light():
    code = "import sys, fastcell; fastcell.space, fastcell.library; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
