"""`python -m hop …` and the command `hop` that pip installs: the compiled command, which stands beside this
file, takes the place of the process."""

import os
import sys

COMMAND = "hop-command"


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), COMMAND)
    if not os.access(path, os.X_OK):
        sys.exit(
            f"hop: the command is not installed: {path} is missing or cannot be run; pip install hop again, "
            f"or use the one that make builds, build/hop"
        )
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execv(path, ["hop", *sys.argv[1:]])


if __name__ == "__main__":
    main()
