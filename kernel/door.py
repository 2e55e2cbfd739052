"""The door to the compiled kernel (loops.pyx), which says whether it runs, or Python.

The build of Odradek compiles it where there is a C compiler. Its functions do what these do in Python, for the bytes
and objects that are usual:

    decode_columns, decode_rows   protocol.records.columns        murmur2                    client.producer.partitioner
    decode_values, encode_values  protocol.records.columns        spread                     client.producer.appender
    encode_records                protocol.records.record         prepare                    client.producer.preparation
    scan_batches                  client.arrow.batches            places                     client.producer.batch
    OpenColumns                   client.arrow.columns            OpenBatches and its rows   client.producer.producer
    join_objects                  client.schemas.typed_rows      AvroProgram, AvroColumns  client.schemas.avro_columns

For anything else they say so, mostly by None, and Python decides. So what is broken, and how the error reads, stands in
Python alone. A caller looks at `compiled` at each call.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

# Goes up when a function of the kernel changes. A kernel with another number is not called.
INTERFACE = 7
_MODULE = f"{__package__}.loops"


def find() -> tuple[Any, str]:
    """Return the kernel, or None and why there is none."""
    try:
        module: Any = import_module(_MODULE)
    except ModuleNotFoundError:
        return None, "the compiled kernel was not built"
    except ImportError as error:
        return None, f"the compiled kernel cannot be loaded: {error}"
    if module.INTERFACE != INTERFACE:
        return None, f"the compiled kernel was built from other sources: interface {module.INTERFACE}, not {INTERFACE}"
    return module, ""


# The module `loops`: C, which has no types that a checker could read.
compiled, _why_not = find()


def is_built() -> bool:
    """Whether there is a kernel, also one that cannot be used."""
    return find_spec(_MODULE) is not None


def record_code() -> str:
    """Return which code decodes and encodes records: "the compiled kernel", or "Python" and why."""
    return "the compiled kernel" if compiled is not None else f"Python ({_why_not})"
