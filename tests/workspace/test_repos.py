from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import filelock
import platformdirs
import pytest

from agentbench_core.errors import AgentBenchError, DeadlineExceeded, InputError, UnavailableError
from agentbench_core.values.limits import Deadline
from agentbench_core.values.task import Repo
from agentbench_core.workspace import listing, pristine
from agentbench_core.workspace.repos import checkout, directory_commit

RunGit = Callable[..., str]


@attrs.define
class Origin:
    """A repository with a task's commit and later commits that must stay out of reach."""

    path: Path
    commit: str
    before: str
    after: str


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory, git: RunGit) -> Origin:
    path = tmp_path_factory.mktemp("made-once")
    git(path, "init")
    (path / "src").mkdir()
    (path / "src/crlf.py").write_bytes(b"a = '$Id$'\r\n")
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "run.sh").chmod(0o755)
    (path / "data.bin").write_bytes(bytes(range(256)))
    (path / ".gitattributes").write_text("*.py text eol=crlf ident\n*.txt working-tree-encoding=UTF-16\n")
    (path / ".gitignore").write_text("ignored\n")
    (path / "link").symlink_to("src/crlf.py")
    (path / "u.txt").write_bytes("é\n".encode("utf-16"))
    (path / os.fsdecode(b"b\xff\n")).write_text("odd name")
    (path / "first").write_text("GONE")
    git(path, "add", "-A")
    git(path, "commit", "-m", "first")
    before = git(path, "rev-parse", "HEAD").strip()
    (path / "first").unlink()
    git(path, "commit", "-am", "base")
    commit = git(path, "rev-parse", "HEAD").strip()
    (path / "run.sh").write_text("SOLUTION on the branch\n")
    git(path, "commit", "-am", "the fix")
    after = git(path, "rev-parse", "HEAD").strip()
    git(path, "tag", "-a", "v2", "-m", "annotated")
    (path / "run.sh").write_text("SOLUTION on a side branch\n")
    git(path, "checkout", "-q", "-b", "side")
    git(path, "commit", "-am", "side")
    git(path, "checkout", "-q", "main")
    (path / "run.sh").write_text("SOLUTION amended\n")
    git(path, "commit", "-a", "--amend", "-m", "in the reflog")
    (path / "run.sh").write_text("SOLUTION stashed\n")
    git(path, "stash")
    return Origin(path, commit, before, after)


@pytest.fixture
def origin(made_once: Origin, tmp_path: Path) -> Origin:
    shutil.copytree(made_once.path, tmp_path / "origin", symlinks=True)
    return attrs.evolve(made_once, path=tmp_path / "origin")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def objects(git: RunGit, workspace: Path) -> str:
    ids = git(workspace, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return git(workspace, "cat-file", "--batch", stdin=ids)


# --- contents of a workspace -------------------------------------------------------------------------------------


def test_workspace(origin: Origin, tmp_path: Path, cache: Path, deadline: Deadline, git: RunGit) -> None:
    """Files have the bytes of their blobs, whatever attributes exist (G04); the tree is clean and has one commit."""
    into = tmp_path / "workspace"
    checkout(Repo(url="origin", commit=origin.commit), beside=tmp_path, into=into, deadline=deadline, cache=cache)
    for name in ("src/crlf.py", "run.sh", "data.bin", ".gitattributes", ".gitignore", "u.txt", "b\udcff\n"):
        blob = subprocess.run(
            ["git", "cat-file", "blob", f"{origin.commit}:{name}"], cwd=origin.path, capture_output=True, check=True
        ).stdout
        assert (into / name).read_bytes() == blob
    assert (into / "link").readlink() == Path("src/crlf.py")
    assert stat.S_IMODE((into / "run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((into / "data.bin").stat().st_mode) == 0o644
    assert git(into, "status", "--porcelain=v2", "--ignored") == ""
    assert git(into, "rev-parse", "HEAD^{tree}") == git(origin.path, "rev-parse", f"{origin.commit}^{{tree}}")
    assert git(into, "log", "--all", "--format=%an %ae %at %cn %ct %s %P") == (
        "AgentBench agentbench@localhost 946684800 AgentBench 946684800 Source tree \n"
    )
    assert git(into, "fsck", "--full") == ""
    (into / "run.sh").write_text("changed\n")
    (into / "ignored").touch()
    assert git(into, "status", "--short") == " M run.sh\n"


def test_only_the_commit_itself_is_reachable(
    origin: Origin, tmp_path: Path, cache: Path, deadline: Deadline, git: RunGit
) -> None:
    """I01: no other blob, commit, tag, stash or reflog is reachable, and nothing refers to the source."""
    into = tmp_path / "workspace"
    checkout(Repo(url="origin", commit=origin.commit), beside=tmp_path, into=into, deadline=deadline, cache=cache)
    everything = objects(git, into)
    assert "SOLUTION" in objects(git, origin.path)
    for word in ("SOLUTION", "GONE", "annotated", origin.commit, origin.before, origin.after):
        assert word not in everything
    wanted = set(git(origin.path, "rev-list", "--objects", "--no-object-names", f"{origin.commit}^{{tree}}").split())
    found = set(git(into, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())
    assert found - wanted == {git(into, "rev-parse", "HEAD").strip()}
    assert git(into, "for-each-ref", "--format=%(refname)") == "refs/heads/main\n"
    assert git(into, "remote") == git(into, "reflog") == git(into, "stash", "list") == ""
    names = {str(path.relative_to(into / ".git")) for path in (into / ".git").rglob("*")}
    assert not {name for name in names if "alternates" in name or "logs" in name or "hooks" in name}
    for path in (into / ".git").rglob("*"):
        assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes()


def test_nothing_is_shared_with_the_cache(
    origin: Origin, tmp_path: Path, cache: Path, deadline: Deadline, git: RunGit
) -> None:
    """H05: objects are not hard links, and corrupting a workspace does not affect the cache."""
    repo = Repo(url="origin", commit=origin.commit)
    checkout(repo, beside=tmp_path, into=tmp_path / "one", deadline=deadline, cache=cache)
    for path in (tmp_path / "one").rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert path.stat().st_nlink == 1
            path.chmod(0o644)
            path.write_bytes(b"poison")
    checkout(repo, beside=tmp_path, into=tmp_path / "two", deadline=deadline, cache=cache)
    assert git(tmp_path / "two", "status", "--short") == ""
    (repository,) = cache.glob("*.git")
    assert git(repository, "fsck", "--full", "--strict", "--no-dangling") == ""
    assert {path.stat().st_nlink for path in repository.rglob("*") if path.is_file()} == {1}


def test_a_cache_on_another_file_system(origin: Origin, tmp_path: Path, deadline: Deadline, git: RunGit) -> None:
    """Home and temporary directory may be on two file systems, and rename does not work across them."""
    places = [place for place in (Path("/dev/shm"), Path("/tmp")) if place.is_dir()]
    others = [place for place in places if place.stat().st_dev != tmp_path.stat().st_dev]
    if not others:
        pytest.skip("there is only one file system here")
    with tempfile.TemporaryDirectory(dir=others[0]) as name:
        cache = Path(name) / 'with ":" and spaces'
        into = tmp_path / "workspace"
        checkout(Repo(url="origin", commit=origin.commit), beside=tmp_path, into=into, deadline=deadline, cache=cache)
    assert git(into, "fsck", "--full") == git(into, "status", "--short") == ""
    assert not (into / ".git/objects/info/alternates").exists()


@pytest.mark.parametrize("left", ["shallow.lock", "packed-refs.lock", "refs/commits/{commit}.lock", "config.lock"])
def test_leftovers_of_a_killed_git_in_the_cache(
    left: str, origin: Origin, tmp_path: Path, cache: Path, deadline: Deadline
) -> None:
    """A run killed while it fetches does not break the cache for later runs."""
    repo = Repo(url="origin", commit=origin.commit)
    checkout(
        attrs.evolve(repo, commit=origin.before), beside=tmp_path, into=tmp_path / "w", deadline=deadline, cache=cache
    )
    (repository,) = cache.glob("*.git")
    for name in (left.format(commit=origin.commit), "objects/pack/tmp_pack_abc"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).touch()
    checkout(repo, beside=tmp_path, into=tmp_path / "one", deadline=deadline, cache=cache)
    assert not (repository / "objects/pack/tmp_pack_abc").exists()


# --- kinds of sources --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["relative", "bare", "file", "bundle", "bundle of HEAD", "worktree", "absolute"])
def test_kinds(kind: str, origin: Origin, tmp_path: Path, cache: Path, deadline: Deadline, git: RunGit) -> None:
    """Every kind of source yields the same workspace."""
    beside = tmp_path / "tasks/t"
    beside.mkdir(parents=True)
    url = "../../origin"
    if kind == "bare":
        git(tmp_path, "clone", "-q", "--bare", "--no-local", "origin", "bare.git")
        url = "../../bare.git"
    elif kind == "file":
        url = f"file://{origin.path}"
    elif kind == "absolute":
        url = str(origin.path)
    elif kind == "worktree":
        git(origin.path, "worktree", "add", "-q", "--detach", "../tree", origin.commit)
        url = "../../tree"
    elif kind.startswith("bundle"):
        url = "code.bundle"
        git(origin.path, "bundle", "create", "-q", str(beside / url), "HEAD" if "HEAD" in kind else "--all")
    into = tmp_path / "workspace"
    checkout(Repo(url=url, commit=origin.commit), beside=beside, into=into, deadline=deadline, cache=cache)
    assert git(into, "rev-parse", "HEAD^{tree}") == git(origin.path, "rev-parse", f"{origin.commit}^{{tree}}")
    assert git(into, "status", "--short") == ""


def test_unreachable_commit(origin: Origin, tmp_path: Path, cache: Path, deadline: Deadline, git: RunGit) -> None:
    """A commit that is not on any branch is found if the repository still has it."""
    into = tmp_path / "workspace"
    checkout(Repo(url="origin", commit=origin.after), beside=tmp_path, into=into, deadline=deadline, cache=cache)
    assert (into / "run.sh").read_text() == "SOLUTION on the branch\n"


def test_offline_once_cached(origin: Origin, tmp_path: Path, cache: Path, deadline: Deadline) -> None:
    """A second checkout does not access the source."""
    repo = Repo(url=f"file://{origin.path}", commit=origin.commit)
    checkout(repo, beside=tmp_path, into=tmp_path / "one", deadline=deadline, cache=cache)
    origin.path.joinpath(".git").rename(tmp_path / "elsewhere")
    (origin.path / ".git").mkdir()
    checkout(repo, beside=tmp_path, into=tmp_path / "two", deadline=deadline, cache=cache)
    with pytest.raises(UnavailableError, match="cannot be fetched"):
        checkout(
            attrs.evolve(repo, commit=origin.after),
            beside=tmp_path,
            into=tmp_path / "three",
            deadline=deadline,
            cache=cache,
        )
    assert not (tmp_path / "three").exists()


def test_default_cache(origin: Origin, tmp_path: Path, deadline: Deadline, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is the user's cache directory."""
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / "home" / name)
    checkout(Repo(url="origin", commit=origin.commit), beside=tmp_path, into=tmp_path / "one", deadline=deadline)
    assert [path.suffix for path in sorted((tmp_path / "home/agentbench/repos").iterdir())][:1] == [".git"]


def test_concurrent_checkouts(origin: Origin, tmp_path: Path, cache: Path, deadline: Deadline, git: RunGit) -> None:
    """Concurrent checkouts of the same repository succeed."""
    errors: list[BaseException] = []

    def work(number: int) -> None:
        repo = Repo(url="origin", commit=(origin.commit, origin.before)[number % 2])
        try:
            checkout(repo, beside=tmp_path, into=tmp_path / f"w{number}", deadline=deadline, cache=cache)
        except BaseException as error:  # noqa: BLE001 - reported by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {git(tmp_path / f"w{number}", "status", "--short") for number in range(6)} == {""}


def test_hostile_source(origin: Origin, tmp_path: Path, cache: Path, deadline: Deadline) -> None:
    """G07, G09: hooks, filters and configuration of a source run nothing."""
    ran = tmp_path / "ran"
    hook = origin.path / "evil"
    hook.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    hook.chmod(0o755)
    config = origin.path / ".git/config"
    config.write_text(
        config.read_text()
        + f'[core]\n\tfsmonitor = {hook}\n\thooksPath = {origin.path}\n[protocol "ext"]\n\tallow = always\n'
        + f'[uploadpack]\n\tpackObjectsHook = {hook}\n[filter "evil"]\n\tclean = {hook}\n\tsmudge = {hook}\n'
    )
    (origin.path / ".git/info").mkdir(exist_ok=True)
    (origin.path / ".git/info/attributes").write_text("* filter=evil\n")
    repo = Repo(url="origin", commit=origin.commit)
    checkout(repo, beside=tmp_path, into=tmp_path / "one", deadline=deadline, cache=cache)
    assert not ran.exists()


# --- plain directories -------------------------------------------------------------------------------------------


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    root = tmp_path / "plain"
    for name in ("a/x.py", "a/__pycache__/x.pyc", ".pytest_cache/v", "b/.DS_Store", ".mypy_cache/z", "run.sh"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x = 1\r\n")
    (root / "run.sh").chmod(0o755)
    (root / "a/link").symlink_to("x.py")
    return root


def test_directory(plain: Path, tmp_path: Path, deadline: Deadline, git: RunGit) -> None:
    """A directory becomes one commit, which is the HEAD of its workspace."""
    sha = directory_commit(plain)
    into = tmp_path / "workspace"
    checkout(Repo(url="plain", commit=sha), beside=tmp_path, into=into, deadline=deadline)
    assert git(into, "rev-parse", "HEAD").strip() == sha
    assert git(into, "ls-tree", "-r", "--format=%(objectmode) %(path)", "HEAD").splitlines() == [
        "120000 a/link",
        "100644 a/x.py",
        "100755 run.sh",
    ]
    assert git(into, "status", "--short") == ""
    assert (into / "a/x.py").read_bytes() == b"x = 1\r\n"


def test_directory_commit_equals_that_of_git(plain: Path, tmp_path: Path, git: RunGit) -> None:
    """The documented recipe with plain git gives the same SHA."""
    other = tmp_path / "by-hand"
    other.mkdir()
    git(other, "init")
    x = git(other, "hash-object", "-w", "--no-filters", str(plain / "a/x.py")).strip()
    link = git(other, "hash-object", "-w", "--stdin", stdin="x.py").strip()
    a = git(other, "mktree", stdin=f"120000 blob {link}\tlink\n100644 blob {x}\tx.py\n").strip()
    tree = git(other, "mktree", stdin=f"040000 tree {a}\ta\n100755 blob {x}\trun.sh\n").strip()
    names = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in IDENTITY.items()}
    made = subprocess.run(
        ["git", "commit-tree", tree, "-m", "Source tree"],
        cwd=other,
        env={**os.environ, **names},
        capture_output=True,
        check=True,
    )
    assert directory_commit(plain) == made.stdout.decode().strip()


IDENTITY = {"NAME": "AgentBench", "EMAIL": "agentbench@localhost", "DATE": "946684800 +0000"}


def test_changed_directory(plain: Path, tmp_path: Path, deadline: Deadline) -> None:
    """A directory that differs from the pinned commit is refused, with both SHAs."""
    pinned = directory_commit(plain)
    (plain / "a/x.py").write_text("changed")
    with pytest.raises(InputError, match="has changed") as caught:
        checkout(Repo(url="plain", commit=pinned), beside=tmp_path, into=tmp_path / "w", deadline=deadline)
    assert pinned in str(caught.value)
    assert directory_commit(plain) in str(caught.value)


def test_empty_directory(tmp_path: Path, deadline: Deadline, git: RunGit) -> None:
    """An empty directory is a valid tree."""
    (tmp_path / "plain").mkdir()
    sha = directory_commit(tmp_path / "plain")
    checkout(Repo(url="plain", commit=sha), beside=tmp_path, into=tmp_path / "w", deadline=deadline)
    assert git(tmp_path / "w", "status", "--short") == ""


def test_directory_with_a_fifo(plain: Path) -> None:
    """H06: unsupported files are reported, and do not block."""
    os.mkfifo(plain / "fifo")
    with pytest.raises(InputError, match=r"'fifo' \(special\)"):
        directory_commit(plain)


def test_missing_directory(tmp_path: Path) -> None:
    """A missing directory is an error."""
    with pytest.raises(InputError, match="cannot be read"):
        directory_commit(tmp_path / "missing")


# --- refusals ----------------------------------------------------------------------------------------------------


def refused(
    repo: Repo,
    tmp_path: Path,
    cache: Path,
    kind: type[AgentBenchError] = InputError,
    deadline: Deadline | None = None,
) -> str:
    with pytest.raises(kind) as caught:
        checkout(repo, beside=tmp_path, into=tmp_path / "workspace", deadline=deadline or Deadline(60), cache=cache)
    assert not (tmp_path / "workspace").exists()
    return str(caught.value)


def test_unknown_commit(origin: Origin, tmp_path: Path, cache: Path) -> None:
    """The message has the repository, the commit and a remedy."""
    message = refused(Repo(url="origin", commit="1" * 40), tmp_path, cache)
    assert "origin has no commit 111" in message
    assert "Check repo.commit" in message


def test_tag_instead_of_commit(origin: Origin, tmp_path: Path, cache: Path, git: RunGit) -> None:
    """The SHA of a tag object is refused."""
    tag = git(origin.path, "rev-parse", "v2").strip()
    assert "not a tag" in refused(Repo(url="origin", commit=tag), tmp_path, cache)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ext::sh -c touch% ran", "unsupported scheme"),
        ("http://localhost/x.git", "unsupported scheme"),
        ("git://localhost/x.git", "unsupported scheme"),
        ("missing", "does not exist"),
        ("file:///nowhere/at/all", "does not exist"),
        ("--upload-pack=x", "does not exist"),
        ("text", "neither a directory nor a git bundle"),
    ],
)
def test_urls(url: str, words: str, tmp_path: Path, cache: Path) -> None:
    """G07: only documented kinds of URL are accepted, and none runs a command."""
    (tmp_path / "text").write_text("no bundle")
    assert words in refused(Repo(url=url, commit="1" * 40), tmp_path, cache)
    assert not (tmp_path / "ran").exists()


def test_repository_of_another_user(origin: Origin, tmp_path: Path, cache: Path) -> None:
    """G05: git's ownership check stays on for sources, and the message explains it."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for path in (origin.path, origin.path / ".git"):
        os.chown(path, 12345, 12345)
    message = refused(Repo(url="origin", commit=origin.commit), tmp_path, cache)
    assert "belongs to another user" in message


def test_server_out_of_reach(tmp_path: Path, cache: Path) -> None:
    """An unreachable server is an unavailable environment; the message hides passwords."""
    repo = Repo(url="https://user:hunter2@localhost:9/x.git", commit="1" * 40)
    message = refused(repo, tmp_path, cache, UnavailableError)
    assert "https://***@localhost:9/x.git cannot be fetched" in message
    assert "hunter2" not in message


def test_ssh_never_asks(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ssh runs in batch mode, and its errors are shown."""
    monkeypatch.setenv("GIT_SSH_COMMAND", "sh -c 'echo \"$0 $*\" >&2; exit 1'")
    for url in ("git@example.invalid:org/x.git", "ssh://git@example.invalid/org/x.git"):
        message = refused(Repo(url=url, commit="1" * 40), tmp_path, cache, UnavailableError)
        assert "-oBatchMode=yes" in message
        assert "git@example.invalid" in message


def test_bundle_that_is_damaged(origin: Origin, tmp_path: Path, cache: Path, git: RunGit) -> None:
    """A bundle is part of the task, so this is bad input and not a network error."""
    git(origin.path, "bundle", "create", "-q", str(tmp_path / "b"), "main")
    (tmp_path / "b").write_bytes((tmp_path / "b").read_bytes()[:-300])
    assert "the bundle" in refused(Repo(url="b", commit=origin.commit), tmp_path, cache)


def test_bundle_without_the_commit(origin: Origin, tmp_path: Path, cache: Path, git: RunGit) -> None:
    """The bundle is intact, but of another commit."""
    git(origin.path, "bundle", "create", "-q", str(tmp_path / "b"), "side")
    assert "b has no commit" in refused(Repo(url="b", commit="1" * 40), tmp_path, cache)


def commit_of(git: RunGit, origin: Path, tree: str) -> str:
    sha = git(origin, "commit-tree", tree, "-m", "made").strip()
    git(origin, "update-ref", f"refs/heads/made-{sha}", sha)
    return sha


def tree_of(origin: Path, *entries: tuple[str, str, str]) -> str:
    """Create a tree of (mode, name, id) entries that git's own commands refuse; return its id."""
    raw = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(target) for mode, name, target in entries)
    command = ["git", "hash-object", "-w", "-t", "tree", "--literally", "--stdin"]
    return subprocess.run(command, cwd=origin, input=raw, capture_output=True, check=True).stdout.decode().strip()


@pytest.mark.parametrize("name", ["..", ".git", ".GIT", ".Git", "git~1", ".g\u200cit", "."])
@pytest.mark.parametrize("where", ["top", "below"])
def test_hostile_trees(name: str, where: str, origin: Origin, tmp_path: Path, cache: Path, git: RunGit) -> None:
    """H03: tree entries that escape or become .git are refused, and nothing is written."""
    blob = git(origin.path, "rev-parse", f"{origin.commit}:run.sh").strip()
    tree = tree_of(origin.path, ("40000", name, tree_of(origin.path, ("100644", "config", blob))))
    if where == "below":
        tree = tree_of(origin.path, ("40000", "sub", tree))
    message = refused(Repo(url="origin", commit=commit_of(git, origin.path, tree)), tmp_path, cache)
    assert "not allowed in a workspace" in message


def test_write_through_a_link(origin: Origin, tmp_path: Path, cache: Path, git: RunGit) -> None:
    """P05: a tree with a link and a directory of the same name writes nothing through the link."""
    target = git(origin.path, "hash-object", "-w", "--stdin", stdin=str(tmp_path / "outside")).strip()
    blob = git(origin.path, "rev-parse", f"{origin.commit}:run.sh").strip()
    (tmp_path / "outside").mkdir()
    inner = tree_of(origin.path, ("100644", "x", blob))
    tree = tree_of(origin.path, ("120000", "a", target), ("40000", "a", inner))
    message = refused(Repo(url="origin", commit=commit_of(git, origin.path, tree)), tmp_path, cache)
    assert "contains a symbolic link" in message
    assert list((tmp_path / "outside").iterdir()) == []


def test_endless_tree(
    origin: Origin, tmp_path: Path, cache: Path, git: RunGit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H14: a few objects can expand to ten billion files; this is refused before they are listed in memory."""
    monkeypatch.setattr(listing, "ENTRIES_MAX", 20_000)
    blob = git(origin.path, "rev-parse", f"{origin.commit}:run.sh").strip()
    tree = tree_of(origin.path, *(("100644", str(number), blob) for number in range(10)))
    for _ in range(9):
        tree = tree_of(origin.path, *(("40000", str(number), tree) for number in range(10)))
    message = refused(Repo(url="origin", commit=commit_of(git, origin.path, tree)), tmp_path, cache)
    assert "more than 20000 files" in message


def test_deep_tree(origin: Origin, tmp_path: Path, cache: Path, git: RunGit) -> None:
    """H11: trees deeper than a snapshot can record are refused."""
    tree = git(origin.path, "rev-parse", f"{origin.commit}^{{tree}}").strip()
    for _ in range(256):
        tree = tree_of(origin.path, ("40000", "d", tree))
    message = refused(Repo(url="origin", commit=commit_of(git, origin.path, tree)), tmp_path, cache)
    assert "deeper than 256 directories" in message


def test_large_files(origin: Origin, plain: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H12: files that would fill the memory are refused, in a repository and, if sparse, in a directory."""
    monkeypatch.setattr(pristine, "FILE_SIZE_MAX", 200)
    message = refused(Repo(url="origin", commit=origin.commit), tmp_path, cache)
    assert "'data.bin' has 256 bytes; " in message
    monkeypatch.undo()
    (plain / "huge").touch()
    os.truncate(plain / "huge", 50 << 30)
    with pytest.raises(InputError, match="'huge' has 53687091200 bytes; the maximum is 512 MiB"):
        directory_commit(plain)
    monkeypatch.setattr(listing, "TREE_SIZE_MAX", 10)
    (plain / "huge").unlink()
    with pytest.raises(InputError, match="larger than 0 GiB"):
        directory_commit(plain)


def test_names_that_other_systems_treat_as_git(origin: Origin, tmp_path: Path, cache: Path, git: RunGit) -> None:
    """G10: such names are harmless on this system and can be checked out."""
    blob = git(origin.path, "rev-parse", f"{origin.commit}:run.sh").strip()
    tree = tree_of(origin.path, ("100644", ".git::$INDEX_ALLOCATION", blob), ("100644", "a\\.git", blob))
    into = tmp_path / "w"
    repo = Repo(url="origin", commit=commit_of(git, origin.path, tree))
    checkout(repo, beside=tmp_path, into=into, deadline=Deadline(60), cache=cache)
    assert sorted(path.name for path in into.iterdir()) == [".git", ".git::$INDEX_ALLOCATION", "a\\.git"]


def test_submodule(origin: Origin, tmp_path: Path, cache: Path, git: RunGit) -> None:
    """G03, P12: submodules are refused by name, not silently skipped, or left out if the task says so."""
    blob = git(origin.path, "rev-parse", f"{origin.commit}:run.sh").strip()
    below = tree_of(origin.path, ("160000", "deep", origin.before))
    tree = tree_of(
        origin.path, ("40000", "below", below), ("100644", "run.sh", blob), ("160000", "vendored", origin.before)
    )
    repo = Repo(url="origin", commit=commit_of(git, origin.path, tree))
    assert "'below/deep' is a submodule" in refused(repo, tmp_path, cache)
    into = tmp_path / "w"
    checkout(attrs.evolve(repo, submodules="omitted"), beside=tmp_path, into=into, deadline=Deadline(60), cache=cache)
    assert sorted(path.name for path in into.iterdir()) == [".git", "run.sh"]
    assert git(into, "ls-tree", "-r", "--name-only", "HEAD").split() == ["run.sh"]
    assert git(into, "status", "--porcelain") == ""
    assert not any("without-submodules" in line for bare in cache.rglob("packed-refs") for line in bare.open())
    assert not list(cache.rglob("refs/without-submodules/*"))


def test_lfs_pointer(origin: Origin, tmp_path: Path, cache: Path, git: RunGit) -> None:
    """Git LFS pointers are refused, since tests would silently use the wrong content."""
    (origin.path / "model.bin").write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    )
    git(origin.path, "add", "model.bin")
    git(origin.path, "commit", "-m", "lfs")
    commit = git(origin.path, "rev-parse", "HEAD").strip()
    assert "'model.bin' is a Git LFS pointer" in refused(Repo(url="origin", commit=commit), tmp_path, cache)


def test_git_is_missing(origin: Origin, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message tells the user to install git."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    message = refused(Repo(url="origin", commit=origin.commit), tmp_path, cache, UnavailableError)
    assert "git is not installed" in message


def test_existing_directory(origin: Origin, tmp_path: Path, cache: Path, deadline: Deadline) -> None:
    """An existing directory is neither written to nor removed."""
    with pytest.raises(FileExistsError):
        checkout(
            Repo(url="origin", commit=origin.commit),
            beside=tmp_path,
            into=origin.path,
            deadline=deadline,
            cache=cache,
        )
    assert (origin.path / "run.sh").exists()


# --- time --------------------------------------------------------------------------------------------------------


def test_lock_is_waited_for_no_longer_than_the_deadline(origin: Origin, tmp_path: Path, cache: Path) -> None:
    """A fetch of another process that hangs does not block beyond the deadline."""
    repo = Repo(url="origin", commit=origin.commit)
    checkout(repo, beside=tmp_path, into=tmp_path / "first", deadline=Deadline(60), cache=cache)
    (repository,) = cache.glob("*.git")
    with filelock.FileLock(repository.with_suffix(".lock")):
        refused(attrs.evolve(repo, commit=origin.after), tmp_path, cache, DeadlineExceeded, Deadline(0.3))


def test_hanging_git_is_killed(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the server does not answer, git and its children are killed at the deadline."""
    pid = tmp_path / "pid"
    monkeypatch.setenv("GIT_SSH_COMMAND", f"sh -c 'echo $$ > {pid}; sleep 100'")
    over = Deadline(60, clock=lambda: 60.0 if pid.exists() and pid.read_text() else 0.0)
    refused(Repo(url="git@example.invalid:x.git", commit="1" * 40), tmp_path, cache, DeadlineExceeded, over)
    state = Path(f"/proc/{pid.read_text().strip()}/stat")
    wait_until = time.monotonic() + 60
    while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < wait_until:
        time.sleep(0.02)
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_expired_deadline(origin: Origin, tmp_path: Path, cache: Path) -> None:
    """An expired deadline raises at once."""
    refused(Repo(url="origin", commit=origin.commit), tmp_path, cache, DeadlineExceeded, Deadline(0))
