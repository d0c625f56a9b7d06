"""The peer of bench/optimizer_step.cpp: torch.optim.AdamW(fused=True) in Python, with the same protocol (see there).

usage: peer_optimizer.py ARGS_JSON SEED LR THREADS   (arguments of a gpt)
"""
import json
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from parity.reference_gpt import GPT  # noqa: E402


def main():
    args, seed, lr, threads = json.loads(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    parameters = list(GPT(**args).parameters())
    torch.manual_seed(seed)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape)
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.01, fused=True)
    print(json.dumps({"tensors": len(parameters), "parameters": sum(p.numel() for p in parameters), "threads": torch.get_num_threads(),
                      "dtype": str(parameters[0].dtype).removeprefix("torch."), "sums": sums(parameters)}), flush=True)
    for line in sys.stdin:
        steps, begin = int(line), time.perf_counter()
        for _ in range(steps):
            optimizer.step()
        print(json.dumps({"seconds": time.perf_counter() - begin, "sums": sums(parameters)}), flush=True)


def sums(parameters):
    """Of each tensor, in double."""
    return [parameter.detach().sum(dtype=torch.float64).item() for parameter in parameters]


main()
