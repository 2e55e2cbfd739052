"""The errors that only the blocking clients have."""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError


class LoopThreadCall(KafkaError):
    """A blocking call came from the thread of the event loop, which it would wait for for ever.

    Callbacks of futures, serializers and interceptors run there. Hand such work to another thread.
    """

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.INVALID_REQUEST,
            "a blocking call came from the clients' own thread, which could never answer it: callbacks of futures and "
            "of options run there. Hand the work to another thread, such as by a queue",
        )


class ClientForked(KafkaError):
    """The client was started before a fork: its thread and connections belong to the parent process."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.INVALID_REQUEST,
            "this client was started before the process was forked, and belongs to the parent process: make and start "
            "a client after the fork",
        )
