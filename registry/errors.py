"""Errors of the registry: each has the code and the text that Confluent's clients know, and its HTTP status.

The status is what the code begins with: 40401 goes out as 404. A code of three digits is its own status.
"""

from __future__ import annotations

from typing import NamedTuple

# An error tells what is wrong with a request, and does not repeat it.
MAX_CHARACTERS = 2_000


class RegistryError(Exception):
    """A request that the registry refuses. A text of more than MAX_CHARACTERS is cut."""

    def __init__(self, code: int, message: str) -> None:
        message = message if len(message) <= MAX_CHARACTERS else f"{message[:MAX_CHARACTERS]}..."
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code if self.code < 1000 else self.code // 100


class InvalidSchema(RegistryError):
    """A schema that is not one, or that passes a bound. The text says what is wrong with it."""

    def __init__(self, details: str) -> None:
        super().__init__(42201, f"Invalid schema, details: {details}")


class Rejection(NamedTuple):
    """A row of the table: a code, and a text with places for what it is about."""

    code: int
    text: str

    def __call__(self, *about: object) -> RegistryError:
        """Return the error."""
        return RegistryError(self.code, self.text.format(*about))


subject_not_found = Rejection(40401, "Subject '{}' not found.")
version_not_found = Rejection(40402, "Version {} not found.")
id_not_found = Rejection(40403, "Schema {} not found")
schema_not_found = Rejection(40403, "Schema not found")
# Confluent's text has no space between its sentences.
subject_soft_deleted = Rejection(40404, "Subject '{}' was soft deleted.Set permanent=true to delete permanently")
subject_not_soft_deleted = Rejection(40405, "Subject '{}' was not deleted first before being permanently deleted")
version_soft_deleted = Rejection(
    40406, "Subject '{}' Version {} was soft deleted.Set permanent=true to delete permanently"
)
version_not_soft_deleted = Rejection(
    40407, "Subject '{}' Version {} was not deleted first before being permanently deleted"
)
no_level_of_subject = Rejection(40408, "Subject '{}' does not have subject-level compatibility configured")
no_mode_of_subject = Rejection(40409, "Subject '{}' does not have subject-level mode configured")
incompatible = Rejection(
    409, 'Schema being registered is incompatible with an earlier schema for subject "{}", details: [{}]'
)
invalid_version = Rejection(
    42202,
    "The specified version '{}' is not a valid version id. "
    'Allowed values are between [1, 2^31-1] and the string "latest"',
)
invalid_level = Rejection(
    42203,
    "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
    "forward_transitive, and full_transitive",
)
invalid_mode = Rejection(42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT")
not_permitted = Rejection(42205, "{}")
reference_exists = Rejection(
    42206, "One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={},version={}}}."
)
invalid_subject = Rejection(42208, "The specified subject '{}' is not a valid subject.")
