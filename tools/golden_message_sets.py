"""Print message sets as an old client encodes them, for tests/golden/records/kafka-python-1.4.7.jsonl.

python -m venv old && old/bin/pip install kafka-python==1.4.7 python-snappy lz4 xxhash
old/bin/python tools/golden_message_sets.py > tests/golden/records/kafka-python-1.4.7.jsonl
"""

from __future__ import annotations

import json

from kafka.record.legacy_records import LegacyRecordBatchBuilder

BASE_MS = 1_400_000_000_000
RECORDS = (
    (b"key", b"value", BASE_MS),
    (None, b"no key", BASE_MS + 5),
    (b"no value", None, BASE_MS + 3),
    (b"", b"", BASE_MS + 4),
    (b"long", b"0123456789abcdef" * 20, BASE_MS + 10),
)


def main() -> None:
    for magic in (0, 1):
        for codec, name in enumerate(("none", "gzip", "snappy", "lz4")):
            builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
            for at, (key, value, timestamp_ms) in enumerate(RECORDS):
                builder.append(at, timestamp=timestamp_ms, key=key, value=value)
            records = [
                [
                    at,
                    timestamp_ms if magic else -1,
                    None if key is None else key.hex(),
                    None if value is None else value.hex(),
                ]
                for at, (key, value, timestamp_ms) in enumerate(RECORDS)
            ]
            data = bytes(builder.build())
            print(json.dumps({"name": f"v{magic}-{name}", "hex": data.hex(), "records": records}))


main()
