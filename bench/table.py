"""A result file of the scan benchmarks as a Markdown table: python bench/table.py FILE."""

import json
import sys
from pathlib import Path

COLUMNS = ("eager", "torch", "compile")


def row(benchmark: dict) -> str:
    info = benchmark["extra_info"]
    milliseconds = info["quartiles"]["fastcell"][1] * 1e3
    ratios = [f"{info['ratios'][name]:.2f}" if name in info["ratios"] else "" for name in COLUMNS]
    cells = [info["case"], benchmark["group"], f"{milliseconds:.3f}", *ratios]
    return " | ".join([*cells, f"{info['fraction_of_peak']:.0%}"])


def main(path: str) -> None:
    result = json.loads(Path(path).read_text())
    machine = result["machine_info"]
    cpu = machine["cpu"].get("brand_raw", machine["processor"])
    names = ("instruction_set", "threads", "torch", "load")
    print(f"{result['datetime'][:10]}, {cpu}, " + ", ".join(f"{n} {machine[n]}" for n in names))
    print("\nMedian milliseconds of fastcell; for the rivals, how many times as long they take.\n")
    print("case | pass | fastcell | eager loop | torch | torch.compile | of FMA peak")
    print("---|---|---|---|---|---|---")
    for benchmark in result["benchmarks"]:
        if "case" in benchmark["extra_info"]:
            print(row(benchmark))
    for benchmark in result["benchmarks"]:
        if "case" not in benchmark["extra_info"] and benchmark["extra_info"]:
            print(f"\n{benchmark['name']}: {json.dumps(benchmark['extra_info'])}")


if __name__ == "__main__":
    main(sys.argv[1])
