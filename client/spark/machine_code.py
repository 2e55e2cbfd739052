"""The machine code of kernels: compiled once on a host, under a lock, and loaded without numba.

    KERNELS.load()["decode_rows"](...)

numba needs seconds to compile, and two more to load from a cache of its own. So the driver starts the compilation in a
process of its own while it plans (`compilation.py`), and its result is a file:

    SHA-256 of the rest, 32 bytes | {"decode_rows": 10, ...}: names and numbers of arguments, a line | an object file

A task that finds no file takes the lock and writes it. Others wait for the lock. LLVM loads the file in milliseconds.
Its name has a hash of the sources, and one of the processor and LLVM's version: where one differs, so does
the file.

The folder is the first that can be written: NUMBA_CACHE_DIR, `__pycache__` beside the sources, the user's cache, a
private folder for temporary files. Machine code is run, so a folder in which other users could write is not used.
"""
# pyright: basic, reportCallIssue=false
# llvmlite and numba have no types.

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import inspect
import json
import logging
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from ..errors import InvalidOption
from .errors import CompilationFailed

# A compiled function: numbers and addresses go in, a number comes out.
Function = Callable[..., int]

_DIGEST_BYTES = 32
_HERE = Path(__file__).parent

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kernels:
    """A module of kernels, which lists its functions in KERNELS, and the files that its machine code depends on."""

    module: str
    sources: tuple[Path, ...]

    @property
    def path(self) -> Path:
        """Return where the machine code is or will be. Raises CompilationFailed without a folder for it."""
        return folder() / f"{self._name}-{_short_hash(_processor().encode())}.bin"

    @property
    def _name(self) -> str:
        """The beginning of the file's name, which needs no LLVM."""
        contents = b"".join(each.read_bytes() for each in (*self.sources, Path(__file__)))
        return f"{self.module.rpartition('.')[2]}-{_short_hash(contents)}"

    def load(self) -> Mapping[str, Function]:
        """Return the functions by name; compile them where no one has. Raises CompilationFailed, InvalidOption."""
        return _loaded(self)

    def compile_ahead(self) -> None:
        """Start the compilation in another process, where it is needed. Does not wait, and reports no failure.

        A task that needs the code compiles it itself where this failed, and reports why that fails.
        """
        try:
            if any(folder().glob(f"{self._name}-*.bin")):
                return
            command = [sys.executable, "-m", f"{__package__}.compilation", self.module, *map(str, self.sources)]
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )  # fmt: skip
        except (OSError, CompilationFailed) as error:
            log.info("kernels are compiled by the first task: %s", error)

    def ensure(self) -> Path:
        """Return the file with the machine code, which this call writes where no one has. Raises CompilationFailed."""
        path = self.path
        if not path.exists():
            with _locked(path.with_suffix(".lock")):
                if not path.exists():
                    _write(path, compiled(self.module))
        return path


KERNELS = Kernels(f"{__package__}.kernels", tuple(_HERE / name for name in ("kernels.py", "memory.py", "layout.py")))

JSON_KERNELS = Kernels(f"{__package__}.json_kernels", (_HERE / "json_kernels.py", _HERE / "memory.py"))

SINK_KERNELS = Kernels(
    f"{__package__}.sink_kernels", tuple(_HERE / name for name in ("sink_kernels.py", "memory.py", "sink_layout.py"))
)


def _short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


# -- Loading


@cache
def _loaded(kernels: Kernels) -> Mapping[str, Function]:
    llvm = _llvm()
    content = _content(kernels)
    line, _, object_file = content.partition(b"\n")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(object_file))
    engine.finalize_object()
    return {
        name: _function(engine, engine.get_function_address(name), arguments)
        for name, arguments in json.loads(line).items()
    }


def _content(kernels: Kernels) -> bytes:
    """Return what the file holds behind its sum. One that is damaged is written again."""
    for _ in range(2):
        path = kernels.ensure()
        content = path.read_bytes()
        if hashlib.sha256(content[_DIGEST_BYTES:]).digest() == content[:_DIGEST_BYTES]:
            return content[_DIGEST_BYTES:]
        log.warning("%s is damaged and is written again", path)
        path.unlink(missing_ok=True)
    raise CompilationFailed(f"{kernels.path} was damaged twice: is its disk broken?")


def _function(engine: object, address: int, arguments: int) -> Function:
    # numba's own convention: the places of the result and of an exception come first. Kernels raise none.
    compiled_function = ctypes.CFUNCTYPE(ctypes.c_int32, *([ctypes.c_void_p] * 2), *([ctypes.c_int64] * arguments))(
        address
    )

    def call(*numbers: int) -> int:
        result = ctypes.c_int64()
        status = compiled_function(ctypes.addressof(result), None, *numbers)
        assert status == 0, engine  # the engine owns the code
        return result.value

    return call


@cache
def _processor() -> str:
    llvm = _llvm()
    features = llvm.get_host_cpu_features().flatten()
    return f"{import_module('llvmlite').__version__} {llvm.get_host_cpu_name()} {features} {sys.platform}"


def _llvm():
    try:
        return import_module("llvmlite.binding")
    except ImportError as error:
        raise InvalidOption("compiled kernels need numba: pip install 'odradek[spark]'") from error


# -- Compiling


def compiled(module: str) -> bytes:
    """Return the functions of a module as a line of names and an object file. Raises CompilationFailed."""
    numba = import_module("numba")
    llvm = _llvm()
    functions = import_module(module).KERNELS
    count = {each.__name__: len(inspect.signature(each).parameters) for each in functions}
    linked = None
    for each in functions:
        signature = numba.types.int64(*[numba.types.int64] * count[each.__name__])
        options = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        made = numba.njit(signature, **options)(each).overloads[signature.args]
        code = llvm.parse_assembly(made.library.get_llvm_str())
        _keep_only(code, made.fndesc.llvm_func_name, each.__name__)
        if linked is None:
            linked = code
        else:
            linked.link_in(code)
    if linked is None:
        raise CompilationFailed(f"{module} has no kernels")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )
    _inline(llvm, linked, machine)
    _check_alone(linked)
    return json.dumps(count).encode() + b"\n" + machine.emit_object(linked)


def _keep_only(code, function: str, name: str) -> None:
    """Give one function of `code` its plain name, and hide all others."""
    for each in code.functions:
        if each.name == function:
            each.name = name
        elif not each.is_declaration:
            each.linkage = "internal"
    for each in code.global_variables:  # numba's links to Python, which kernels do not use
        if not each.is_declaration:
            each.linkage = "internal"


def _inline(llvm, code, machine) -> None:
    """Optimize the functions once more, now that all but the kernels are hidden.

    numba must keep each function callable, and so inlines few. The walk over a record takes 12 ns with its parts
    inlined, and 20 without (CPU time, 100-byte values).
    """
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(code, builder)


def _check_alone(code) -> None:
    """Check that the code calls nothing but LLVM's own: Python is not there when it runs. Raises CompilationFailed."""
    calls = [each.name for each in code.functions if each.is_declaration and not each.name.startswith("llvm.")]
    if calls:
        raise CompilationFailed(f"kernels must not call {', '.join(calls)}")


# -- The file


@cache
def folder() -> Path:
    """Return the first folder that can be written and that no other user can. Raises CompilationFailed."""
    tried: list[str] = []
    for each in _folders():
        with suppress(OSError):
            each.mkdir(0o700, parents=True, exist_ok=True)
            if _is_safe(each):
                return each
        tried.append(str(each))
    names = ", ".join(tried)
    raise CompilationFailed(f"no folder for compiled kernels: only you may be able to write to it: {names}")


def _folders() -> Iterator[Path]:
    with suppress(KeyError):
        yield Path(os.environ["NUMBA_CACHE_DIR"])
    yield _HERE / "__pycache__"
    with suppress(RuntimeError):  # no home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "odradek")
    yield Path(tempfile.gettempdir(), f"odradek-kernels-{os.getuid()}")


def _is_safe(candidate: Path) -> bool:
    status = os.lstat(candidate)
    owned = stat.S_ISDIR(status.st_mode) and status.st_uid in (os.getuid(), 0) and not status.st_mode & 0o022
    return owned and os.access(candidate, os.W_OK | os.X_OK)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file. It ends with the process, however that ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write(path: Path, content: bytes) -> None:
    """Write the file as a whole: a reader finds all of it or none."""
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(hashlib.sha256(content).digest() + content)
    part.replace(path)
