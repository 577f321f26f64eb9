"""Sockets: accepting, reading frames in place, answering in order.

``server`` passes the function that answers a frame. Counterpart in Apache Kafka: ``kafka.network``
(SocketServer, Processor).

Invariant: the answers of a connection leave in the order in which its requests came, whatever order
they were done in.
"""
