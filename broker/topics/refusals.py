"""Why a partition's log takes no part of a batch that is whole: what a producer is told beside the error code.

A batch whose largest timestamp is in order is never looked into. Where that lies too far ahead, the records are read
one by one, so that the producer learns which of them are to blame.
"""

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records import batch
from ...protocol.records.batch import BatchHeader

# One sentence each: an answer of some 150 KB at most, whatever number of records a batch has.
MAX_RECORD_ERRORS = 1000

# (index of the record in its batch, what is wrong with it)
RecordFault = tuple[int, str]


class Refused(KafkaError):
    """A whole batch that the log of a partition does not take; the log is as it was."""

    def __init__(
        self, code: ErrorCode, message: str, log_start_offset: int, record_errors: tuple[RecordFault, ...] = ()
    ) -> None:
        super().__init__(code, message)
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors


def timestamps_ahead(records: memoryview, header: BatchHeader, latest_ms: int) -> tuple[RecordFault, ...]:
    """The first records whose timestamp is after `latest_ms`; none where only the batch's header says so.

    Raises the records' RecordError where they cannot be read.
    """
    found: list[RecordFault] = []
    for index, record in enumerate(batch.iter_records(records, 0, header, check=False)):
        if record.timestamp_ms > latest_ms:
            found.append(
                (index, f"timestamp {record.timestamp_ms} lies after {latest_ms}, the latest that is accepted")
            )
            if len(found) == MAX_RECORD_ERRORS:
                break
    return tuple(found)
