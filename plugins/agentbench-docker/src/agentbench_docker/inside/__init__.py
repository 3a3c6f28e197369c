"""PID 1 of containers: a server that runs commands for the harness and tracks all their descendants.

This directory is mounted into the container. The program requires only the standard library of Python 3.9 or newer.
It reads requests from standard input and writes answers to standard output. Each message is a length of four bytes, a
JSON object, and the payloads whose sizes the object gives. Requests are processed one at a time; only ``kill`` may
arrive while a command is running. The server exits at the end of its input.

Other processes in the container cannot kill PID 1, or trace it, since it is not *dumpable*. Each command runs under
a *supervisor*, a child subreaper, which keeps ``setsid`` and double forks as descendants and kills them on request. A
supervisor without remaining descendants is reused. If a command kills its supervisor, PID 1 kills all other
processes in the container.
"""
