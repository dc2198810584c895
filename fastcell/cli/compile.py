"""`fastcell compile`: what an engine makes of a cell; no GPU is needed."""

from collections.abc import Iterator
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import BackendError
from ..lower import lower_backward, lower_forward
from ..program import Program
from . import common


class Dtype(StrEnum):
    """What sequences and weights are stored in."""

    fp32 = "fp32"
    bf16 = "bf16"
    fp16 = "fp16"


class Precision(StrEnum):
    """How products of float32 are computed."""

    ieee = "ieee"
    tf32 = "tf32"
    tf32x3 = "tf32x3"


def command(
    cell: common.CellArgument,
    target: Annotated[str, typer.Option(help="cpu, cuda:90 and the like, hip:gfx942")] = "cuda:90",
    hidden: Annotated[int, typer.Option(help="width of a state, and of the input")] = 64,
    dtype: Annotated[Dtype, typer.Option(help="of sequences and weights")] = Dtype.fp32,
    precision: Annotated[Precision, typer.Option(help="of float32 products")] = Precision.ieee,
    out: Annotated[Path | None, typer.Option(help="folder for source and assembly")] = None,
    json: common.Json = False,
) -> None:
    """Compile a cell for a device that need not be there: source, strategy, what kernels take."""
    found, _ = common.find_cell(cell)
    programs = lower_forward(found, hidden, hidden), lower_backward(found, hidden, hidden)
    if target == "cpu":
        print("\n\n".join(_cpu_listing(program) for program in programs))
        return
    passes = [_compile(program, target, dtype.value, precision.value) for program in programs]
    if out is not None:
        _write(common.make_folder(out), passes)
    if json:
        common.print_json(passes)
    else:
        print("\n\n".join("\n".join(_lines(each, source=out is None)) for each in passes))


def _compile(program: Program, target: str, dtype: str, precision: str) -> dict[str, Any]:
    """All there is to say about a pass, as JSON has it."""
    if find_spec("triton") is None:
        mend = 'pip install "fastcell[gpu]", or --target cpu'
        raise BackendError(f"expected triton, found no such module: {mend}")
    from ..backends.triton.ahead import SHORT, compile_kernel
    from ..backends.triton.cost import choose, find_device
    from ..backends.triton.launch import build
    from ..backends.triton.module import Storage
    from ..backends.triton.plan import divide

    device, names = find_device(target), {short: name for name, short in SHORT.items()}
    plan, storage = divide(program), Storage(names[dtype], precision)
    choice = choose(plan, storage, device)
    kernel = build(plan, storage, choice)
    return {
        "name": kernel.name,
        "target": device.name,
        "strategy": choice.strategy,
        "why": choice.why,
        "tile": vars(choice.tile),
        "shared_limit": device.shared,
        "source": kernel.source,
        "kernels": [vars(each) for each in compile_kernel(kernel, storage, device)],
    }


def _lines(facts: dict[str, Any], source: bool) -> Iterator[str]:
    if source:
        yield facts["source"]
    tile = ", ".join(f"{value} {name}" for name, value in facts["tile"].items())
    yield f"{facts['name']} for {facts['target']}: {facts['strategy']}, {tile}"
    yield f"    why: {facts['why']}"
    for each in facts["kernels"]:
        shared = f"{each['shared'] / 1024:.0f} of {facts['shared_limit'] / 1024:.0f} KB shared"
        taken = f"{each['registers']} registers, {each['spilled']} bytes spilled, {shared}"
        yield f"    {each['name']}: {taken}, compiled in {each['seconds']:.1f} s"


def _write(folder: Path, passes: list[dict[str, Any]]) -> None:
    from ..files import write_whole

    for facts in passes:
        write_whole(folder / f"{facts['name']}.py", facts["source"].encode())
        for each in facts["kernels"]:
            suffix = "ptx" if facts["target"].startswith("cuda") else "amdgcn"
            write_whole(folder / f"{each['name']}.{suffix}", each["assembly"].encode())


def _cpu_listing(program: Program) -> str:
    """The Program, and its instructions: section, operation and operands as (buffer, column)."""
    from .. import _C
    from ..backends.encode import encode

    bytecode = encode(program)
    sections, ops = ({code: name for name, code in t.items()} for t in (_C.SECTIONS, _C.OPCODES))
    lines = [f"{program}", f"  bytecode: {len(bytecode.buffers)} buffers"]
    for section, op, *operands in bytecode.code.tolist():
        places = [f"{b}+{column}" for b, column in zip(*[iter(operands[:8])] * 2, strict=True)]
        width, *extra = operands[8:]
        used = " ".join(place for place in places if not place.startswith("-1"))
        lines.append(f"    {sections[section]:6} {ops[op]:16} {used}  width {width} {extra}")
    return "\n".join(lines)
