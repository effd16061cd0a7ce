"""Records: what a page keeps of a check, so that it can be computed again and compared from the page alone."""

import html
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from verax.checking.files import FORMAT, CheckFile, CheckFileError, changes, hashes, read_lock, versions
from verax.checking.result import Check, Checked
from verax.core.files import BLANK_CHECKSUM, finite, has_valid_checksum, with_checksum

_PLACE = re.compile(r'<pre hidden id="verax-check">(.*?)</pre>', re.DOTALL)
_TOLERANCE = 1e-4  # of the numbers compared, where device or versions differ


def record_of(check: CheckFile, result: Check, page: Path, imports: Sequence[str] = ()) -> dict[str, Any]:
    """Everything that it takes to compute a check again."""
    lock = read_lock(check)
    now = hashes(check, imports)
    return {
        "format": FORMAT,
        "seal": BLANK_CHECKSUM,
        "check": check.path.name,
        "folder": os.path.relpath(check.path.absolute().parent, page.absolute().parent),
        "text": check.text,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hashes": now,
        "frozen": None if lock is None else {"date": lock["frozen"], "hash": lock["hash"]},
        "changed": [] if lock is None else changes(lock["files"], now),
        "versions": versions(),
        "imports": list(imports),
        "lines": [finite(asdict(requirement)) for requirement in result.requirements],
    }


def embedded(record: Mapping[str, Any]) -> str:
    """A record as an element of a page that is not shown; no script, and nothing in it can end the element."""
    text = json.dumps(record, ensure_ascii=True, allow_nan=False)
    return f'<pre hidden id="verax-check">{html.escape(text)}</pre>'


def sealed_page(page: str) -> bytes:
    """A page with the hash of itself in its record: a changed byte shows."""
    return with_checksum(page.encode())


def read_record(page: Path) -> dict[str, Any]:
    """The record of a page, or why it cannot be used."""
    content = page.read_bytes()
    place = _PLACE.search(content.decode("utf-8", errors="replace"))
    if place is None:
        raise CheckFileError(f"{page}: expected the page of a check, got another file.")
    if not has_valid_checksum(content):
        raise CheckFileError(f"{page}: it was changed since it was written, or is damaged.")
    record: dict[str, Any] = json.loads(html.unescape(place[1]))
    return record


def differences(record: Mapping[str, Any], again: Check, now: Mapping[str, str]) -> tuple[list[str], bool]:
    """What differs between a page and the same check computed again, a line each, and whether bits were compared."""
    changed = [f"{name}: its content differs from that of the page" for name in changes(record["hashes"], now)]
    exact = record["versions"] == versions()
    if len(record["lines"]) != len(again.requirements):
        return [*changed, f"the page has {len(record['lines'])} lines, computed were {len(again.requirements)}"], exact
    for old, new in zip(record["lines"], again.requirements, strict=True):
        line = finite(asdict(new))
        names = [name for name in line if not _same(name, old.get(name), line[name], exact)]
        changed += [f"{_title(new)}: {name}: {old.get(name)} on the page, {line[name]} computed" for name in names]
    return changed, exact


def _title(line: Checked) -> str:
    return f"{line.explanation}, {line.title} ({line.segment})"


def _same(name: str, old: Any, new: Any, exact: bool) -> bool:
    if exact or not isinstance(new, float) or not isinstance(old, float | int):
        return bool(old == new) or (name in ("digest", "needed") and not exact)
    return math.isclose(old, new, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
