"""The names for commands of plugins, for type checkers and for the loader in ``harness.py``. Sorted by module."""

from .cli.app import (
    App as App,
)
from .cli.app import (
    print_json as print_json,
)
from .cli.app import (
    print_table as print_table,
)
from .cli.app import (
    say as say,
)
from .cli.app import (
    shortened as shortened,
)
from .cli.completion import (
    names_of as names_of,
)
from .cli.flags import (
    json_flag as json_flag,
)
from .cli.flags import (
    sandbox_flag as sandbox_flag,
)
from .cli.flags import (
    set_flag as set_flag,
)
from .cli.flags import (
    suite_flags as suite_flags,
)
from .cli.flags import (
    task_flag as task_flag,
)
from .cli.flags import (
    tasks_flag as tasks_flag,
)
from .cli.groups import (
    variant_for_tasks as variant_for_tasks,
)
from .errors import (
    RunStoppedError as RunStoppedError,
)
from .errors import (
    UnknownNameError as UnknownNameError,
)
from .errors import (
    did_you_mean as did_you_mean,
)
from .evidence.redaction import (
    Redactor as Redactor,
)
from .inputs.documents import (
    parse_yaml as parse_yaml,
)
from .inputs.documents import (
    replace_text as replace_text,
)
from .inputs.quarantine import (
    FLAKES_FILE as FLAKES_FILE,
)
from .inputs.quarantine import (
    EnvironmentLooks as EnvironmentLooks,
)
from .inputs.quarantine import (
    Flakes as Flakes,
)
from .inputs.quarantine import (
    Measured as Measured,
)
from .inputs.quarantine import (
    TaskFlakes as TaskFlakes,
)
from .inputs.quarantine import (
    rate_text as rate_text,
)
from .inputs.quarantine import (
    read_flakes as read_flakes,
)
from .inputs.suite import (
    TASK_FILE as TASK_FILE,
)
from .inputs.suite import (
    Task as Task,
)
from .inputs.suite import (
    read_suite as read_suite,
)
from .inputs.suite import (
    read_task as read_task,
)
from .inputs.suite import (
    select as select,
)
from .plugin.registry import (
    ADVERSARY as ADVERSARY,
)
from .plugin.registry import (
    Registry as Registry,
)
from .run.attempt.agent import (
    AgentEnd as AgentEnd,
)
from .run.attempt.attempt import (
    run_attempt as run_attempt,
)
from .run.attempt.auditing import (
    TaskAuditing as TaskAuditing,
)
from .run.attempt.calibration import (
    calibration as calibration,
)
from .run.attempt.preparation import (
    Baseline as Baseline,
)
from .run.attempt.preparation import (
    Prepared as Prepared,
)
from .run.attempt.preparation import (
    hidden_paths as hidden_paths,
)
from .run.attempt.record import (
    Findings as Findings,
)
from .run.attempt.reference import (
    ApplyReference as ApplyReference,
)
from .run.attempt.reference import (
    ReferenceRefused as ReferenceRefused,
)
from .run.attempt.session import (
    Session as Session,
)
from .run.attempt.session import (
    open_session as open_session,
)
from .run.observer import (
    Listener as Listener,
)
from .run.plan import (
    AttemptPlan as AttemptPlan,
)
from .run.recording import (
    MemoryEvidence as MemoryEvidence,
)
from .run.recording import (
    Recording as Recording,
)
from .run.recording import (
    WarningLog as WarningLog,
)
from .run.variant import (
    Ready as Ready,
)
from .run.variant import (
    Variant as Variant,
)
from .values.failures import (
    UNSCORED as UNSCORED,
)
from .values.failures import (
    Happened as Happened,
)
from .values.failures import (
    verdict as verdict,
)
from .values.integrity import (
    worst as worst,
)
from .values.rates import (
    wilson as wilson,
)
from .values.task import (
    DEFAULT_PROTECTED as DEFAULT_PROTECTED,
)
from .values.task import (
    NAME_PATTERN as NAME_PATTERN,
)
from .workspace.repos import (
    directory_commit as directory_commit,
)
