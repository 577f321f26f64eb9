"""Time, network and disk that obey one seed, so that the real server runs whole inside one process.

Counterpart in Apache Kafka: the raft module's ``RaftEventSimulationTest``, for everything.

Invariant: the same seed gives the same run, whatever the hash seed of the interpreter.
"""
