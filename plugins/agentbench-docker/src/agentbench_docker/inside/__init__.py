"""The process 1 of every container: runs commands for the harness and keeps hold of what they start.

A program of its own, standard library only, for any Python from 3.9 on; this directory is mounted into the container.
Requests come on standard input, answers go to standard output, both as a length of four bytes, a JSON object, and
the bytes that it announces. One request at a time; only ``kill`` may come while a command runs. When the input ends,
so does the container.

Process 1 of a container cannot be killed from within, and this one cannot be traced either, since it is not
*dumpable*. A command runs under a *supervisor*, a child subreaper: ``setsid`` and double forks stay its descendants,
and it kills them when told. One whose command left nothing behind takes the next one. A supervisor that its own command
killed is answered by killing everything in the container: process 1 may signal all others at once.
"""
