"""The public API for plugin commands, for type checkers and for the loader in ``harness.py``. Sorted by module."""

from .builtin.plain_scorer import (
    JUNIT_FILE as JUNIT_FILE,
    junit_outcomes as junit_outcomes,
    with_junit as with_junit,
)
from .cli.app import (
    App as App,
    print_json as print_json,
    print_table as print_table,
    say as say,
    shortened as shortened,
    table_lines as table_lines,
)
from .cli.completion import names_of as names_of
from .cli.doctor import (
    check_sandboxes as check_sandboxes,
    plugin_checks as plugin_checks,
    print_checks as print_checks,
)
from .cli.flags import (
    json_flag as json_flag,
    runs_directory as runs_directory,
    sandbox_flag as sandbox_flag,
    set_flag as set_flag,
    suite_flags as suite_flags,
    task_flag as task_flag,
    tasks_flag as tasks_flag,
)
from .cli.groups import (
    reporters_of as reporters_of,
    variant_for_tasks as variant_for_tasks,
)
from .cli.machine import machine_checks as machine_checks
from .cli.page import (
    print_page as print_page,
    show_page as show_page,
)
from .cli.run_names import RUN as RUN
from .cli.runs_list import (
    RunFilter as RunFilter,
    duration_text as duration_text,
    run_filters as run_filters,
    runs_out_flag as runs_out_flag,
    selected_runs as selected_runs,
)
from .cli.selection import (
    date_flags as date_flags,
    selected_tasks as selected_tasks,
)
from .errors import (
    Obstacles as Obstacles,
    RunStoppedError as RunStoppedError,
    UnknownNameError as UnknownNameError,
    did_you_mean as did_you_mean,
)
from .evidence.reader import (
    event_entry as event_entry,
    event_fields as event_fields,
)
from .evidence.recovery import lock_run as lock_run
from .evidence.redaction import (
    Redactor as Redactor,
    without_secrets as without_secrets,
)
from .evidence.run_list import (
    RunInfo as RunInfo,
    RunName as RunName,
    is_locked as is_locked,
    list_runs as list_runs,
    run_info as run_info,
)
from .evidence.tags import (
    parse_tag as parse_tag,
    read_tags as read_tags,
    write_tags as write_tags,
)
from .inputs.documents import (
    parse_yaml as parse_yaml,
    replace_text as replace_text,
)
from .inputs.quarantine import (
    FLAKES_FILE as FLAKES_FILE,
    EnvironmentChecks as EnvironmentChecks,
    Flakes as Flakes,
    Measured as Measured,
    TaskFlakes as TaskFlakes,
    rate_text as rate_text,
    read_flakes as read_flakes,
    wilson as wilson,
)
from .inputs.suite import (
    TASK_FILE as TASK_FILE,
    Task as Task,
    hidden_paths as hidden_paths,
    read_suite as read_suite,
    read_task as read_task,
    select as select,
)
from .plugin.registry import (
    ADVERSARY as ADVERSARY,
    Registry as Registry,
)
from .run.attacks import (
    Attack as Attack,
    AttackResult as AttackResult,
    load_attacks as load_attacks,
)
from .run.attempt.agent import AgentPhaseResult as AgentPhaseResult
from .run.attempt.attempt import run_attempt as run_attempt
from .run.attempt.auditing import TaskAuditing as TaskAuditing
from .run.attempt.calibration import (
    ApplyReference as ApplyReference,
    ReferenceRefusedError as ReferenceRefusedError,
    calibration as calibration,
    calibration_context as calibration_context,
)
from .run.attempt.preparation import (
    Baseline as Baseline,
    Prepared as Prepared,
)
from .run.attempt.record import AttemptResult as AttemptResult
from .run.attempt.session import (
    Session as Session,
    open_session as open_session,
)
from .run.attempt.setup_record import (
    SetupCommand as SetupCommand,
    save_setup as save_setup,
    saved_setup as saved_setup,
)
from .run.group.differences import MACHINE_FACTS as MACHINE_FACTS
from .run.group.manifest import harness_info as harness_info, running_harness as running_harness
from .run.group.merge_files import write_merge as write_merge
from .run.group.merging import (
    Merge as Merge,
    plan_merges as plan_merges,
)
from .run.group.runner import write_report as write_report
from .run.observer import RunObserver as RunObserver
from .run.plan import AttemptPlan as AttemptPlan
from .run.readiness import Check as Check
from .run.recording import (
    MemoryEvidence as MemoryEvidence,
    Recording as Recording,
    WarningLog as WarningLog,
)
from .run.remote.worker import (
    Worker as Worker,
    WorkerSettings as WorkerSettings,
)
from .run.variant import (
    ConfiguredComponent as ConfiguredComponent,
    Variant as Variant,
)
from .values.dates import DateRange as DateRange
from .values.failures import (
    UNSCORED as UNSCORED,
    Happened as Happened,
    verdict as verdict,
)
from .values.record import worst as worst
from .values.shard import Shard as Shard
from .values.task import (
    DEFAULT_PROTECTED as DEFAULT_PROTECTED,
    NAME_PATTERN as NAME_PATTERN,
    EnvironmentSettings as EnvironmentSettings,
    Repo as Repo,
    Setup as Setup,
    TaskSpec as TaskSpec,
)
from .workspace.git import (
    Git as Git,
    GitFailedError as GitFailedError,
)
from .workspace.history import (
    History as History,
    fetch_history as fetch_history,
)
from .workspace.repos import (
    directory_commit as directory_commit,
    plain_directory as plain_directory,
)
from .workspace.tag_version import version_from_tags as version_from_tags
