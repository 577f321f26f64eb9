"""All processes of one machine under one supervisor (``ottla.processes=N``).

Processes share nothing: no memory, no file, no lock. The supervisor serves nobody and has none of
their state; it starts them, starts those again that end, stops them in order, restarts them one by
one, and gathers what they write. Apache Kafka has no counterpart: there, threads use the cores.

Invariant: there are never two processes of one node id, and all processes end with the supervisor.
"""
