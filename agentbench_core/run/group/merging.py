"""Merge the runs of all shards of a plan into one run.

Everything is checked before anything is written: the plan, the environments, and that each attempt occurs once.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from ulid import ULID

from agentbench_core.errors import InputError, Obstacles
from agentbench_core.evidence import layout
from agentbench_core.evidence.reader import RunDirectory, open_run
from agentbench_core.evidence.run_list import is_locked
from agentbench_core.plugin.contracts import RunView
from agentbench_core.run.group.differences import environments, environments_differ, plan_differences
from agentbench_core.values.record import AttemptRecord, MergedRun, RunManifest
from agentbench_core.values.shard import Shard, shard_index
from agentbench_core.values.task import NAME_PATTERN

_ATTEMPT_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_SHOWN = 5  # maximum attempts or differences listed in one message


@attrs.frozen(kw_only=True)
class ShardRun:
    """The run of a shard, checked."""

    run: RunDirectory  #: its run directory
    shard: Shard  #: its part of the plan
    status: str  #: its status
    size: int  #: bytes of its events, which grow whenever the run changes
    attempts: Sequence[AttemptRecord]  #: every record, including superseded ones

    @property
    def changed(self) -> bool:
        """Whether the run was changed since it was checked, or is being changed."""
        return is_locked(self.run.directory) or _size(self.run.directory / layout.EVENTS) != self.size


@attrs.frozen(kw_only=True)
class Merge:
    """The runs of one plan, in the order of their shards, and the run that they become."""

    parts: Sequence[ShardRun]  #: the runs of the shards
    manifest: RunManifest  #: `run.json` of the merged run
    missing: int  #: number of planned attempts without a record

    @property
    def recorded(self) -> int:
        """The number of attempts with a record, except for superseded ones."""
        return self.manifest.planned - self.missing

    def is_in(self, run: RunView) -> bool:
        """Whether a run is the result of this merge; it may have been resumed since."""
        return run.manifest.run_id == self.manifest.run_id and run.manifest.merged == self.manifest.merged


def plan_merges(directories: Sequence[Path], *, partial: bool = False) -> Mapping[str, Merge]:
    """Check the runs of the shards of one plan, without writing anything. Returns a merge per variant, by its name.

    Args:
        directories: the run directories: for each variant one per shard, in any order.
        partial: accept that shards or attempts are missing.

    Raises:
        InputError: the runs do not have the same plan or environments, or an attempt occurs twice or is missing.
            The message lists all problems.
    """
    obstacles = Obstacles()
    by_variant: defaultdict[str, list[ShardRun]] = defaultdict(list)
    for directory in directories:
        with obstacles.gathered():
            part = _checked(open_run(directory))
            by_variant[part.run.manifest.variant].append(part)
    merges, all_read = {}, not obstacles  # otherwise a refused run would also be reported as missing
    for variant, parts in sorted(by_variant.items()):
        parts.sort(key=lambda part: part.shard.index)
        if found := list(_problems(parts, partial=partial, all_read=all_read)):
            for error in found:
                obstacles.add(error)
        else:
            missing = _missing(parts)
            merges[variant] = Merge(parts=parts, manifest=_manifest(parts), missing=len(missing))
    obstacles.refuse()
    return merges


def _problems(parts: Sequence[ShardRun], *, partial: bool, all_read: bool) -> Iterator[InputError]:
    """An error for each reason why the runs of a variant cannot be merged."""
    different = [error for part in parts[1:] if (error := _other_plan(parts[0].run, part.run))]
    yield from different
    by_index: dict[int, ShardRun] = {}
    for part in parts:
        other = by_index.setdefault(part.shard.index, part)
        if other is not part:
            yield InputError(
                f"{other.run.directory} and {part.run.directory} are both shard {part.shard}",
                remedy="Pass only one of them.",
            )
    if len(by_index) == len(parts):
        yield from _mixed_up(parts)
    yield from _environments(parts)
    if not partial and not different:
        yield from _incomplete(parts, _missing(parts), all_read=all_read)


def _checked(run: RunDirectory) -> ShardRun:
    """A run that can be merged. Raises InputError if it is not a shard, in use, damaged, or has other attempts."""
    manifest, where = run.manifest, run.directory
    if manifest.merged:
        raise InputError(f"{where} is already a merged run", remedy="Pass the runs of the shards instead.")
    if manifest.shard is None:
        raise InputError(
            f"{where} is not the run of a shard", remedy="Only runs started with --shard I/N can be merged."
        )
    if is_locked(where):
        raise InputError(f"{where} is in progress", remedy="Wait until the run has finished.")
    size, _ = (_size(where / name) for name in (layout.EVENTS, layout.ATTEMPTS))
    _check_times(manifest, where)
    for name in ("tasks", "superseded"):
        if (where / name).is_symlink():
            raise InputError(f"{where / name} is a link", remedy="Remove the link: it is not part of a run.")
    digests = {task.id: task.digest for task in manifest.tasks}
    if len(digests) < len(manifest.tasks) or not all(re.fullmatch(NAME_PATTERN, name) for name in digests):
        raise InputError(f"{where / layout.MANIFEST} has an invalid list of tasks", remedy="Restore it from a copy.")
    every = tuple(run.every_record())
    superseded = {record.supersedes for record in every}
    attempts: dict[str, tuple[str, int]] = {}
    for record in every:
        planned = record.task_id in digests and 1 <= record.repeat <= manifest.repeats
        takes = planned and manifest.shard.takes(record.task_id, record.repeat)
        if not takes or (record.run_id, record.variant) != (manifest.run_id, manifest.variant):
            raise _foreign(where, record, f"it does not belong to shard {manifest.shard} of this run")
        if record.task_digest != digests[record.task_id] and record.attempt_id not in superseded:
            raise _foreign(where, record, "its task has changed since the attempt", remedy="Run this shard again.")
        if record.attempt_id in attempts or not _ATTEMPT_ID.fullmatch(record.attempt_id):
            raise _foreign(where, record, "its id is invalid or occurs twice")
        attempts[record.attempt_id] = _key(record)
    for record in every:
        if record.supersedes and attempts.get(record.supersedes, _key(record)) != _key(record):
            raise _foreign(where, record, "it supersedes another attempt")
    return ShardRun(run=run, shard=manifest.shard, status=run.status(), size=size, attempts=every)


def _size(path: Path) -> int:
    """The size of a regular file. Raises InputError for anything else, such as a pipe, which could not be read."""
    if path.is_symlink() or not path.is_file():
        raise InputError(
            f"{path} is missing or is not a regular file, so its run can be read but not merged",
            remedy="Copy the run again. If the original also lacks the file, recreate it: agentbench runs rebuild RUN",
        )
    return path.stat().st_size


def _mixed_up(parts: Sequence[ShardRun]) -> Iterator[InputError]:
    """An error for each run that has, or supersedes, an attempt of another run."""
    owners: dict[str, ShardRun] = {}
    for part in parts:
        for record in part.attempts:
            owners.setdefault(record.attempt_id, part)
    for part in parts:
        for record in part.attempts:
            for attempt in filter(None, (record.attempt_id, record.supersedes)):
                other = owners.get(attempt, part)
                if other is not part:
                    yield _foreign(part.run.directory, record, f"attempt {attempt!a} is also in {other.run.directory}")
                    break
            else:
                continue
            break


def _foreign(where: Path, record: AttemptRecord, why: str, *, remedy: str = "") -> InputError:
    return InputError(f"{where}: attempt {record.attempt_id!a} ({_name(_key(record))}): {why}", remedy=remedy)


def _key(record: AttemptRecord) -> tuple[str, int]:
    return record.task_id, record.repeat


def _other_plan(first: RunDirectory, other: RunDirectory) -> InputError | None:
    """An error if the runs do not have the same plan."""
    result = plan_differences(first.manifest, other.manifest)
    if not result:
        return None
    return InputError(
        "\n  ".join([f"{other.directory} does not have the same plan as {first.directory}:", *_shortened(result)]),
        remedy="Merge only runs of the same command, with the same versions on all machines.",
    )


def _environments(parts: Sequence[ShardRun]) -> Iterator[InputError]:
    """An error for each run whose environments differ from the environments of an earlier one."""
    first: dict[str, Path] = {}
    facts: defaultdict[Path, dict[str, Mapping[str, str]]] = defaultdict(dict)
    for part in parts:
        where, made = part.run.directory, environments(part.run)
        for other in {first[task_id]: None for task_id in made if task_id in first}:
            if result := environments_differ(facts[other], made, machines=False):
                lines = [f"the environments in {where} differ from those in {other}:", *_shortened(result)]
                yield InputError("\n  ".join(lines), remedy="Use the same image and packages on all machines.")
        for task_id, of_task in made.items():
            facts[first.setdefault(task_id, where)].setdefault(task_id, of_task)


def _missing(parts: Sequence[ShardRun]) -> set[tuple[str, int]]:
    """The planned attempts without a result: a record that is not superseded."""
    manifest = attrs.evolve(parts[0].run.manifest, shard=None)
    planned = {(task.id, repeat) for task in manifest.tasks for repeat in manifest.planned_repeats(task.id)}
    every = [record for part in parts for record in part.attempts]
    superseded = {record.supersedes for record in every}
    return planned - {_key(record) for record in every if record.attempt_id not in superseded}


def _incomplete(parts: Sequence[ShardRun], missing: set[tuple[str, int]], *, all_read: bool) -> Iterator[InputError]:
    """An error for each run without all of its attempts; and one for missing shards, if all runs could be read."""
    otherwise = "or merge the available attempts: --partial"
    count = parts[0].shard.count
    by_shard: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for attempt in sorted(missing):
        by_shard[shard_index(*attempt, count)].append(attempt)
    for part in parts:
        if lacking := by_shard[part.shard.index]:
            names = ", ".join(_shortened([*map(_name, lacking)]))
            yield InputError(
                f"{part.run.directory} (shard {part.shard}, {part.status}) lacks {len(lacking)} of its "
                f"{part.run.manifest.planned} attempts: {names}",
                remedy=f"Continue it: agentbench run --resume {part.run.directory}; {otherwise}",
            )
    absent = sorted({*range(1, count + 1)} - {part.shard.index for part in parts})
    if absent and all_read:
        shown = ", ".join(_shortened([f"{index}/{count}" for index in absent]))
        yield InputError(
            f"shards of variant {parts[0].run.manifest.variant!a} are missing: {shown}",
            remedy=f"Pass the runs of all shards, {otherwise}",
        )


def _shortened(items: Sequence[str]) -> Sequence[str]:
    more = len(items) - _SHOWN
    return [*items[:_SHOWN], f"and {more} more"] if more > 0 else items


def _name(attempt: tuple[str, int]) -> str:
    return f"{attempt[0]!a}, repeat {attempt[1]}"


def _manifest(parts: Sequence[ShardRun]) -> RunManifest:
    first = min((part.run.manifest for part in parts), key=lambda manifest: _moment(manifest.created_at))
    merged = tuple(
        MergedRun(
            run_id=part.run.manifest.run_id,
            group_id=part.run.manifest.group_id,
            shard=part.shard,
            created_at=part.run.manifest.created_at,
            argv=part.run.manifest.argv,
            platform=part.run.manifest.platform,
            status=part.status,
            records=f"sha256:{hashlib.sha256((part.run.directory / layout.ATTEMPTS).read_bytes()).hexdigest()}",
        )
        for part in parts
    )
    resumptions = [resumption for part in parts for resumption in part.run.manifest.resumed]
    return attrs.evolve(
        first,
        run_id=_combined_id(first, [run.run_id for run in merged]),
        group_id=_combined_id(first, [run.group_id for run in merged]),
        shard=None,
        merged=merged,
        resumed=tuple(sorted(resumptions, key=lambda resumption: _moment(resumption.at))),
    )


def _combined_id(first: RunManifest, ids: Sequence[str]) -> str:
    """An id that depends only on these ids and the time of the first run, so that a merge can be repeated."""
    milliseconds = max(0, int(_moment(first.created_at).timestamp() * 1000)) & (1 << 48) - 1
    hashed = hashlib.sha256(json.dumps(ids).encode()).digest()
    return str(ULID(milliseconds.to_bytes(6, "big") + hashed[:10]))


def _check_times(manifest: RunManifest, where: Path) -> None:
    for text in (manifest.created_at, *(resumption.at for resumption in manifest.resumed)):
        try:
            _moment(text)
        except (ValueError, OverflowError):
            raise InputError(f"{where / layout.MANIFEST}: {text[:60]!a} is not a valid time") from None


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
