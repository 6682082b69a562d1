"""A process that makes runs for the bench: tasks and outcomes are lines of JSON, and it ends when its input does."""

import json
import os
import sys
from dataclasses import asdict
from typing import Any


def main() -> None:
    """Answer every line of the input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a run prints is no answer
    from benching import running
    from benching.quiet import quiet

    quiet()
    for line in sys.stdin:
        task: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(line).items()
        }
        try:
            answer = asdict(running.run(running.Task(**task)))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        try:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
        except BrokenPipeError:  # whoever asked was killed
            os._exit(1)


if __name__ == "__main__":
    main()
