"""What worker processes do in tests: answer, fail or die, as they are asked."""

import os
import signal
from multiprocessing.connection import Connection

import torch


def errands(pipe: Connection, greeting: str) -> None:
    """Answer until asked for something else."""
    while True:
        asked = pipe.recv()
        if asked == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if asked == "fail":
            raise ValueError(f"{greeting}, this is wrong")
        os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does
        pipe.send((greeting, [os.environ.get(name) for name in asked], torch.get_num_threads()))
