"""Options of the benchmarks, and what a result file says of the machine."""

import platform
from pathlib import Path

import torch

from fastcell import _C


def pytest_addoption(parser):
    parser.addoption("--full-grid", action="store_true", help="every cell x batch x time x hidden")
    parser.addoption("--compiled", action="store_true", help="torch.compile as a rival")


def pytest_benchmark_update_machine_info(config, machine_info):
    machine_info.pop("node")
    machine_info["threads"] = torch.get_num_threads()
    machine_info["torch"] = torch.__version__
    machine_info["instruction_set"] = _C.isa()
    machine_info["load"] = Path("/proc/loadavg").read_text().split()[0]
    machine_info["system"] = platform.platform()
