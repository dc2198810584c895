"""Builds the extension `fastcell._C` with ninja; everything else is in pyproject.toml.

One shared library from the sources listed here, compiled in parallel and only where changed. No
torch, no compiler detection: the sources pick the instruction set at run time.
"""

import os
import subprocess
import sysconfig
from pathlib import Path

import ninja
import pybind11
from ninja.ninja_syntax import Writer
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = ["csrc/space.cpp", "csrc/canon.cpp", "csrc/bindings.cpp"]
FLAGS = ["-std=c++17", "-O3", "-g0", "-fPIC", "-fvisibility=hidden", "-fopenmp"]
WARNINGS = ["-Wall", "-Wextra", "-Wno-psabi"]
ROOT = Path(__file__).resolve().parent


def sanitizer_flags() -> list[str]:
    """FASTCELL_SANITIZE=address,undefined builds an instrumented extension (see tests/README)."""
    names = os.environ.get("FASTCELL_SANITIZE")
    return [f"-fsanitize={names}", "-fno-omit-frame-pointer", "-g", "-O1"] if names else []


class NinjaBuild(build_ext):
    """Writes build.ninja for the extension and runs it."""

    def build_extension(self, ext: Extension) -> None:
        build_dir = Path(self.build_temp).resolve()
        build_dir.mkdir(parents=True, exist_ok=True)
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        with (build_dir / "build.ninja").open("w") as stream:
            write_rules(Writer(stream), target)
        binary = Path(ninja.BIN_DIR) / "ninja"
        subprocess.run([binary, "-C", str(build_dir), "--quiet"], check=True)


def write_rules(writer: Writer, target: Path) -> None:
    """The whole build: an object per source, one link."""
    includes = [f"-I{pybind11.get_include()}", f"-I{sysconfig.get_paths()['include']}"]
    compiler = os.environ.get("CXX", "g++")
    flags = " ".join(FLAGS + WARNINGS + includes + sanitizer_flags())
    writer.variable("flags", flags)
    command = f"{compiler} $flags $extra -MMD -MF $out.d -c $in -o $out"
    writer.rule("compile", command, depfile="$out.d", deps="gcc", description="CXX $in")
    link = f"{compiler} $flags -shared $in -o $out"
    writer.rule("link", link, description="LINK $out")
    objects = []
    for name, source, extra in compilations():
        writer.build(name, "compile", str(ROOT / source), variables={"extra": " ".join(extra)})
        objects.append(name)
    writer.build(str(target), "link", objects)


def compilations() -> list[tuple[str, str, list[str]]]:
    """Every object as (object file, source, extra flags)."""
    return [(Path(source).stem + ".o", source, []) for source in SOURCES]


setup(
    ext_modules=[Extension("fastcell._C", SOURCES)],
    cmdclass={"build_ext": NinjaBuild},
)
