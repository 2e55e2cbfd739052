"""Where archives are: a directory or an object store with a catalog of its own in SQLite, or any catalog of pyiceberg.

DIR                  tables in DIR, catalog in DIR/catalog.db
s3://BUCKET/PREFIX   tables there; SQLite cannot lie in a bucket, so its file has a path of its own
iceberg://NAME       the catalog NAME of ~/.pyiceberg.yaml: REST, PostgreSQL, Glue, Hive
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyiceberg.catalog import CatalogType, infer_catalog_type, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.utils.config import Config
from sqlalchemy import event

from ..errors import InvalidOption
from . import ArchiveError
from .layout import LAYOUT_VERSION, PROPERTIES, SCHEMA, SPEC
from .local_files import LocalFileIO, make_folder
from .state import LAYOUT_KEY, TOPIC_KEY, TopicOf, check_topic

CATALOG_FILE = "catalog.db"
_SCHEME = "iceberg://"
# How long a REST catalog may take until it answers, or sends more of its answer.
_ANSWER_S = 30.0


def catalog_of(target: str, catalog_db: str | None = None, *, create: bool = False) -> Any:
    """Return the catalog of an archive. Close it. Raises InvalidOption, ArchiveError."""
    if target.startswith(_SCHEME):
        return _loaded(target.removeprefix(_SCHEME).strip("/"))
    if "://" in target:
        if catalog_db is None:
            raise InvalidOption(f"{target} needs a file for its catalog, which SQLite cannot have in a bucket")
        return _sqlite(Path(catalog_db), target.rstrip("/"), create=create)
    folder = Path(target).absolute()
    if found := [each for each in "#?%" if each in str(folder)]:
        raise InvalidOption(f"{folder} has {found[0]} in its name, which means something else where tables are")
    file = Path(catalog_db) if catalog_db is not None else folder / CATALOG_FILE
    return _sqlite(file, f"file://{folder}", create=create)


def _loaded(name: str) -> Any:
    try:
        settings: dict[str, Any] = dict(Config().get_catalog_config(name) or {})
        kind = str(settings.get("type") or "").lower() or infer_catalog_type(name, settings)
        if "uri" in settings and kind in (CatalogType.REST, CatalogType.REST.value):
            return _rest(name, settings)
        return load_catalog(name)
    except Exception as error:
        raise ArchiveError(f"the catalog {name!r} of ~/.pyiceberg.yaml cannot be used: {error}") from error


def _rest(name: str, settings: dict[str, Any]) -> Any:
    from pyiceberg.catalog.rest import RestCatalog  # a fifth of a second, which other catalogs do not pay

    class Bounded(RestCatalog):
        """pyiceberg's own waits for an answer for ever."""

        def _create_session(self) -> Any:
            session: Any = super()._create_session()
            session.request = partial(session.request, timeout=_ANSWER_S)
            return session

    return Bounded(name, **settings)


def _sqlite(file: Path, warehouse: str, *, create: bool) -> Any:
    if not create and not file.exists():
        raise ArchiveError(f"there is no archive at {warehouse}: {file} does not exist")
    make_folder(file.parent)
    files = {"py-io-impl": f"{LocalFileIO.__module__}.{LocalFileIO.__name__}"} if warehouse.startswith("file:") else {}
    catalog = SqlCatalog("odradek", uri=f"sqlite:///{file}", warehouse=warehouse, **files)
    event.listen(catalog.engine, "connect", _force_commits)
    catalog.engine.dispose()  # connections from before
    return catalog


def _force_commits(connection: Any, _: object) -> None:
    """Have a commit on the disk once it is acknowledged. FULL leaves the end of its journal in memory."""
    connection.execute("PRAGMA synchronous=EXTRA")


def open_table(catalog: Any, name: tuple[str, ...]) -> Any:
    """Return a table. Raises ArchiveError where it is not there."""
    try:
        return catalog.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError):
        raise ArchiveError(f"there is no table {'.'.join(name)} in the catalog") from None


def open_or_create(catalog: Any, name: tuple[str, ...], topic: TopicOf) -> Any:
    """Return the table of a topic, and create it where it is missing. Raises ArchiveError if it holds another one."""
    if not catalog.table_exists(name):
        catalog.create_namespace_if_not_exists(name[:-1])
        properties = {**PROPERTIES, LAYOUT_KEY: LAYOUT_VERSION, TOPIC_KEY: topic.text()}
        with suppress(TableAlreadyExistsError):  # another archiver was faster
            catalog.create_table(name, SCHEMA, partition_spec=SPEC, properties=properties)
    table = catalog.load_table(name)
    check_topic(table.metadata, topic)
    layout = table.metadata.properties.get(LAYOUT_KEY)
    if layout != LAYOUT_VERSION:
        raise ArchiveError(f"{'.'.join(name)} has the layout {layout}; this version writes {LAYOUT_VERSION}")
    return table
