"""What kernels take, as Markdown: python bench/compile_table.py FILE.

The file has lines of tests/compile_kernels.py, each with its target and hidden size added.
"""

import json
import sys
from pathlib import Path

COLUMNS = ("target", "hidden", "name", "strategy", "kernels", "registers", "spilled")


def row(facts: dict) -> str:
    cells = [str(facts[name]) for name in COLUMNS]
    return " | ".join([*cells, f"{facts['shared'] / 1024:.0f}", f"{facts['seconds']:.1f}"])


def main(path: str) -> None:
    print("Triton kernels in float32 with IEEE products, compiled ahead of time; no GPU was there.")
    print("Of several kernels the largest figures; spills in bytes, shared memory in KB, compile")
    print("time in processor seconds.\n")
    print("target | H | pass | strategy | kernels | registers | spilled | shared | seconds")
    print("---|---|---|---|---|---|---|---|---")
    for line in Path(path).read_text().splitlines():
        print(row(json.loads(line)))


if __name__ == "__main__":
    main(sys.argv[1])
