"""Builds the extension `fastcell._C` with ninja; everything else is in pyproject.toml.

One shared library from the sources listed here, compiled in parallel and only where changed. No
torch and no probing of the machine: the sources pick the instruction set at run time.
"""

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import ninja
import pybind11
from ninja.ninja_syntax import Writer
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent
SANITIZE = os.environ.get("FASTCELL_SANITIZE", "")
"""Sanitizers to build with, such as address,undefined; see `make sanitize`."""

ONCE = [
    "csrc/space.cpp",
    "csrc/canon.cpp",
    "csrc/bindings.cpp",
    "csrc/bind_canon.cpp",
    "csrc/bind_forest.cpp",
    "csrc/bind_scan.cpp",
    "csrc/decode.cpp",
    "csrc/dispatch.cpp",
    "csrc/packed.cpp",
    "csrc/plan.cpp",
    "csrc/scan_program.cpp",
]
PER_INSTRUCTION_SET = ["csrc/scan.cpp"]
INSTRUCTION_SETS = {
    "portable": ["-DFASTCELL_VECTOR_BYTES=16"],
    "avx2": ["-DFASTCELL_VECTOR_BYTES=32", "-mavx2", "-mfma"],
    "avx512": [
        "-DFASTCELL_VECTOR_BYTES=64",
        "-mavx512f",
        "-mavx512dq",
        "-mavx512vl",
        "-mavx512bw",
        "-mfma",
    ],
}

COMPILER = os.environ.get("CXX", "g++")
FLAGS = ["-std=c++17", "-O3", "-g0", "-fPIC", "-fvisibility=hidden", "-fopenmp"]
WARNINGS = ["-Wall", "-Wextra", "-Wno-psabi"]
INCLUDES = [f"-I{pybind11.get_include()}", f"-I{sysconfig.get_path('include')}"]
INSTRUMENTED = [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all", "-O1", "-g1"]


class NinjaBuild(build_ext):
    """Writes build.ninja for the extension and runs it."""

    def build_extension(self, ext: Extension) -> None:
        # One place per interpreter and kind, so that an editable install too builds what changed.
        kind = f"{sys.implementation.cache_tag}-{SANITIZE or 'release'}"
        build_dir = ROOT / "build" / kind
        build_dir.mkdir(parents=True, exist_ok=True)
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        with (build_dir / "build.ninja").open("w") as stream:
            write_rules(Writer(stream), target)
        command = [Path(ninja.BIN_DIR) / "ninja", "-C", build_dir, "--quiet"]
        if subprocess.run(command).returncode:
            raise CompileError(
                f"{ext.name} needs a C++17 compiler with OpenMP; '{COMPILER}' failed, as said"
                " above: install g++, or name another compiler in CXX"
            )


def write_rules(writer: Writer, target: Path) -> None:
    """The whole build: an object per source and instruction set, one link."""
    instrumented = INSTRUMENTED if SANITIZE else []
    writer.variable("flags", [*FLAGS, *WARNINGS, *INCLUDES, *instrumented])
    compile_command = f"{COMPILER} $flags $extra -MMD -MF $out.d -c $in -o $out"
    writer.rule("compile", compile_command, depfile="$out.d", deps="gcc", description="CXX $out")
    writer.rule("link", f"{COMPILER} $flags -shared $in -o $out", description="LINK $out")
    objects = []
    for name, source, extra in compilations():
        writer.build(name, "compile", str(ROOT / source), variables={"extra": extra})
        objects.append(name)
    writer.build(str(target), "link", objects)


def compilations() -> list[tuple[str, str, list[str]]]:
    """Every object as (object file, source, extra flags)."""
    objects = [(f"{Path(source).stem}.o", source, list[str]()) for source in ONCE]
    for source in PER_INSTRUCTION_SET:
        for name in available_instruction_sets():
            extra = [f"-DFASTCELL_ISA={name}", *INSTRUCTION_SETS[name]]
            objects.append((f"{Path(source).stem}.{name}.o", source, extra))
    return objects


def available_instruction_sets() -> list[str]:
    """All of them on x86-64; elsewhere the portable one, which GCC turns into what there is."""
    x86 = platform.machine() in ("x86_64", "AMD64")
    return list(INSTRUCTION_SETS) if x86 else ["portable"]


setup(
    ext_modules=[Extension("fastcell._C", [*ONCE, *PER_INSTRUCTION_SET])],
    cmdclass={"build_ext": NinjaBuild},
)
