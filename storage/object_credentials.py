"""Credentials for an object store where the environment has none: for `s3://` those of the files of AWS's own tools.

`~/.aws/credentials` and `~/.aws/config` (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE) have a section for each profile,
and AWS_PROFILE names it. Keys, region and endpoint are read. Logins that a tool has to make first are not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from configparser import ConfigParser, Error
from pathlib import Path

_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
# What a profile has whose keys a tool has to fetch.
_FETCHED = ("sso_session", "sso_start_url", "role_arn", "credential_process")
_HOW = 'set the keys by the environment: eval "$(aws configure export-credentials --format env)"'


class BadProfile(Exception):
    """A profile that cannot be used; the text says why, and what to do."""


def s3_options(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the options of obstore that the environment lacks. Raises BadProfile."""
    name = environment.get("AWS_PROFILE", "default")
    keys = _section(environment.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials", name)
    section = name if name == "default" else f"profile {name}"
    config = _section(environment.get("AWS_CONFIG_FILE") or "~/.aws/config", section)
    found = {key: value for key, value in {**config, **keys}.items() if key in _KEYS}
    if "AWS_PROFILE" in environment and not keys and not config:
        raise BadProfile(f"there is no profile {name!r} (AWS_PROFILE) in ~/.aws: aws configure --profile {name}")
    if "AWS_ACCESS_KEY_ID" in environment:
        found = {}
    elif "aws_access_key_id" not in found and any(each in config or each in keys for each in _FETCHED):
        raise BadProfile(f"the profile {name!r} has no keys of its own: {_HOW}")
    if region := config.get("region"):
        found["region"] = region
    if endpoint := config.get("endpoint_url"):
        found["endpoint_url"] = endpoint
    if "AWS_REGION" in environment or "AWS_DEFAULT_REGION" in environment:
        found.pop("region", None)
    if "AWS_ENDPOINT_URL" in environment:
        found.pop("endpoint_url", None)
    return found


def _section(path: str, name: str) -> dict[str, str]:
    parser = ConfigParser(interpolation=None)
    try:
        parser.read(Path(path).expanduser(), encoding="utf-8")
    except (OSError, Error, UnicodeDecodeError) as error:
        raise BadProfile(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    return dict(parser[name]) if parser.has_section(name) else {}
