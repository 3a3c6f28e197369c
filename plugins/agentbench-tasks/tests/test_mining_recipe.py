"""Recipes: what is installed for an old commit, according to its files."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentbench_tasks.mining.dependencies.pytest_settings import overrides
from agentbench_tasks.mining.dependencies.requirements import poetry_specifiers
from agentbench_tasks.mining.environments import key_at
from agentbench_tasks.mining.inside import install
from agentbench_tasks.mining.ledger import Environment
from agentbench_tasks.mining.pins import CAPTURE, classify, pins, setup_commands
from agentbench_tasks.mining.recipe import recipes
from agentbench_tasks.mining.values import Code, Recipe, RejectedError

DATE = "2024-05-01T12:00:00Z"
PROJECT = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n[project]\nname = "A.b"\n'


class Files(dict[str, str]):
    """The tree of a commit."""

    def paths(self) -> Collection[str]:
        return self.keys()

    def read(self, path: str, limit: int = 1 << 20) -> bytes | None:
        return self[path].encode()[:limit] if path in self else None


def made(files: dict[str, str], *, version: str = "1.2.4.dev5", date: str = DATE) -> list[Recipe]:
    return list(recipes(Files(files), date=date, version=version, pythons=["3.11"]))


def wanted(recipe: Recipe) -> dict[str, Any]:
    """The argument of the program that installs packages by date."""
    (command,) = recipe.resolve
    found: dict[str, Any] = json.loads(shlex.split(command)[-1])
    return found


def installed(files: dict[str, str]) -> set[str]:
    """The requirements of the first recipe."""
    return set(wanted(made(files)[0])["requirements"])


# --- requirements of the tests -----------------------------------------------------------------------------------


def test_dependency_groups_with_includes() -> None:
    groups = """
[dependency-groups]
test = ["pytest>=7", {include-group = "Mocks"}, "A.b[fast]"]
mocks = ["responses"]
docs = ["sphinx"]
loop = [{include-group = "loop"}]
"""
    (recipe,) = made({"pyproject.toml": PROJECT + '[project.optional-dependencies]\nfast = ["orjson"]\n' + groups})[:1]
    assert wanted(recipe)["requirements"] == ["editables", "hatchling", "orjson", "pytest>=7", "responses"]
    assert wanted(recipe)["project"]["extras"] == ["fast"]
    assert recipe.source == "pyproject.toml [test], packages as of 2024-05-01"


def test_groups_for_development_only_count_if_pytest_is_in_no_group_for_tests() -> None:
    groups = '[dependency-groups]\ntests = ["{}"]\ndev = ["ruff", "pytest-mock"]\n'
    assert "ruff" not in installed({"pyproject.toml": PROJECT + groups.format("pytest")})
    assert {"ruff", "mock", "pytest-mock"} < installed({"pyproject.toml": PROJECT + groups.format("mock")})


def test_extras_of_extras() -> None:
    """The extra is part of the installed project; pytest may be in an extra that it refers to."""
    extras = '[project.optional-dependencies]\ntests = ["a-b[tests-base]"]\ntests-base = ["pytest"]\ndev = ["ruff"]\n'
    found = wanted(made({"pyproject.toml": PROJECT + extras})[0])
    assert found["project"]["extras"] == ["tests", "tests-base"]
    assert "ruff" not in found["requirements"]


def test_requirements_files() -> None:
    """Includes inside the tree are followed; options, URLs, editables and paths are left out."""
    files = {
        "setup.py": "from setuptools import setup\nsetup(name='a', install_requires=['x'])",
        "requirements-dev.txt": "ruff",
        "requirements/tests.txt": """
            -r base.in   # comment
            -c ../limits.txt
            -r ../../../etc/passwd
            --index-url https://127.0.0.1/simple
            --extra-index-url=https://127.0.0.1/simple
            -f /wheels
            -e git+https://127.0.0.1/x.git#egg=x
            -e .[yaml]
            ./local
            y @ https://127.0.0.1/y.whl
            https://127.0.0.1/z.whl
            'quoted'; rm -rf /
            pytest==8.1.0 \\
                --hash=sha256:00
        """.replace(" " * 12, ""),
        "requirements/base.in": "mock>=4\n-r tests.txt\n",
        "limits.txt": "mock<6\n",
    }
    first, loose, least = made(files)
    assert wanted(first)["requirements"] == ["mock>=4", "pytest==8.1.0", "setuptools", "wheel"]
    assert wanted(first)["constraints"] == ["mock<6"]
    assert wanted(loose)["requirements"] == ["mock>=4", "pytest", "setuptools", "wheel"]
    assert wanted(least)["requirements"] == ["pytest", "setuptools", "wheel"]
    assert len({first.key, loose.key, least.key}) == 3


def test_tox_and_nox() -> None:
    tox = """
[base]
deps =
    pytest
    py27: mock
    !pypy: attrs
[testenv]
extras = s
deps =
    {[base]deps}
    -r{toxinidir}/more.txt
    cov: coverage
commands = pytest {posargs}
[testenv:docs]
deps = sphinx
"""
    nox = """
import nox
DEPS = ["hypothesis", *["freezegun"]]

@nox.session(python=["3.11"])
def tests(session):
    session.install("-r", "more.txt", "-e", ".[t]", *DEPS)

@nox.session
def lint(session):
    session.install("ruff")
"""
    files = {"tox.ini": tox, "more.txt": "trustme", "noxfile.py": nox, "pyproject.toml": PROJECT}
    files["pyproject.toml"] += "[project.optional-dependencies]\ns = []\nt = []\n"
    found = wanted(made(files)[0])
    tests = {"pytest", "attrs", "trustme", "hypothesis", "freezegun"}
    assert set(found["requirements"]) == {"editables", "hatchling", *tests}
    assert found["project"]["extras"] == ["s", "t"]


def test_setup_cfg_and_setup_py() -> None:
    config = """
[metadata]
name = a
[options]
install_requires = x
setup_requires = setuptools_scm
[options.extras_require]
testing =
    pytest
    y; python_version < "4"
"""
    script = """
from setuptools import setup
import os
more = ["p"]
extras = {"docs": ["sphinx"]}
extras["test"] = more + ["q"]
setup(extras_require=extras, tests_require=["r", os.environ["X"]], python_requires=">=3.7")
raise SystemExit("this code is never run")
"""
    found = wanted(made({"setup.cfg": config, "setup.py": script})[0])
    assert found["project"]["extras"] == ["testing", "test"]
    tests = ["p", "pytest", "q", "r", "setuptools", "setuptools_scm", "wheel", 'y; python_version < "4"']
    assert found["requirements"] == tests


def test_poetry_groups_and_hatch_environments() -> None:
    poetry = """
[build-system]
requires = ["poetry-core"]
[tool.poetry]
name = "a"
[tool.poetry.dependencies]
python = "^3.8"
[tool.poetry.group.test.dependencies]
pytest = "^7.1"
x = {version = "~2.3", extras = ["e"], markers = "sys_platform == 'linux'"}
y = {git = "https://127.0.0.1/y.git"}
[tool.hatch.envs.test]
dependencies = ["z"]
"""
    assert installed({"pyproject.toml": poetry}) == {
        *("poetry-core", "pytest<8,>=7.1", 'x[e]<2.4,>=2.3; sys_platform == "linux"', "z")
    }


@pytest.mark.parametrize(
    ("constraint", "specifiers"),
    [
        ("^1.2.3", ["<2,>=1.2.3"]),
        ("^0.2.3", ["<0.3,>=0.2.3"]),
        ("^0.0", ["<0.1,>=0.0"]),
        ("~1.2", ["<1.3,>=1.2"]),
        ("~=1.2", ["~=1.2"]),
        ("1.2.*", ["==1.2.*"]),
        ("*", [""]),
        (">= 3.6, <4", ["<4,>=3.6"]),
        ("~2.7 || ^3.5", ["<2.8,>=2.7", "<4,>=3.5"]),
        ("^x", []),
    ],
)
def test_constraints_of_poetry(constraint: str, specifiers: list[str]) -> None:
    found = ["".join(sorted(str(each))) for each in poetry_specifiers(constraint)]
    assert found == ["".join(sorted(each)) for each in specifiers]


def test_plugins_that_the_configuration_of_pytest_needs() -> None:
    config = """
[tool.pytest.ini_options]
addopts = "--cov=a -n auto --strict-markers"
asyncio_mode = "auto"
timeout = 5
required_plugins = ["pytest-mock>=3"]
filterwarnings = ["error", "ignore:x:trio.TrioDeprecationWarning", "ignore::unknown_module.W"]
"""
    plugins = {"pytest-cov", "pytest-xdist", "pytest-asyncio", "pytest-timeout", "pytest-mock>=3", "trio"}
    assert installed({"pyproject.toml": PROJECT + config}) == {"editables", "hatchling", "pytest", *plugins}
    listed = '[dependency-groups]\ntest = ["pytest<8", "pytest-cov<5"]\n'
    assert {"pytest<8", "pytest-cov<5"} < installed({"pyproject.toml": PROJECT + config + listed})


def test_shell_metacharacters_are_quoted() -> None:
    """M04: names and versions are parsed, so text from the repository cannot end its quotes."""
    groups = (
        '[dependency-groups]\ntest = ["x; python_version > \'3\' # $(id)", "y\'; id", \'z; sys_platform != "a`id`"\']\n'
    )
    (command,) = made({"pyproject.toml": PROJECT + groups}, version="1'; id")[0].resolve
    found = wanted(made({"pyproject.toml": PROJECT + groups})[0])["requirements"]
    assert found == ["editables", "hatchling", "pytest", 'z; sys_platform != "a`id`"']
    assert shlex.join(shlex.split(command)) == command


# --- constraints and keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("uv.lock", '[[package]]\nname = "x"\nversion = "1.0"\nsource = { registry = "https://127.0.0.1" }\n'),
        ("poetry.lock", '[[package]]\nname = "x"\nversion = "1.0"\n'),
        ("pdm.lock", '[[package]]\nname = "x"\nversion = "1.0"\n'),
        ("pylock.toml", '[[packages]]\nname = "x"\nversion = "1.0"\n'),
        ("Pipfile.lock", '{"default": {"x": {"version": "==1.0"}, "p": {"path": "."}}, "develop": {}}'),
    ],
)
def test_lock_files_constrain_versions(name: str, content: str) -> None:
    """A recipe without the constraints follows."""
    first, loose, *_ = made({"pyproject.toml": PROJECT, name: content})
    assert wanted(first)["constraints"] == ["x==1.0"]
    assert first.source == f"{name}, packages as of 2024-05-01"
    assert wanted(loose)["constraints"] == []


def test_packages_that_a_lock_file_does_not_pin() -> None:
    """Several versions of one package, packages from elsewhere, and the project itself."""
    package = '[[package]]\nname = "{}"\nversion = "{}"\n'
    lock = package.format("x", "1") + package.format("X", "2") + package.format("a-b", "3") + package.format("v", "4")
    lock += 'source = { git = "https://127.0.0.1/v.git" }\n' + package.format("w", "5") + package.format("u", "; id")
    assert wanted(made({"pyproject.toml": PROJECT, "uv.lock": lock})[0])["constraints"] == ["w==5"]


def test_equal_dependencies_share_an_environment() -> None:
    """Neither the date, the version nor other settings matter, but everything that is installed."""
    project = PROJECT + 'version = "1"\ndependencies = ["x>1", "y"]\n'
    key = made({"pyproject.toml": project})[0].key
    same = project.replace('version = "1"', 'version = "2"').replace('"x>1", "y"', '"y", "x > 1"')
    assert made({"pyproject.toml": same + "[tool.ruff]\n"}, version="2", date="2024-06-01T12:00:00Z")[0].key == key
    for old, new in (("x>1", "x>2"), ("hatchling", "flit_core"), ("A.b", "c")):
        assert made({"pyproject.toml": project.replace(old, new)})[0].key != key
    lock = '[[package]]\nname = "x"\nversion = "1.5"\n'
    assert made({"pyproject.toml": project, "uv.lock": lock})[0].key != key
    assert made({"pyproject.toml": project, "tox.ini": "[testenv]\ndeps = pytest<8"})[0].key != key


def test_a_setup_py_that_computes_its_dependencies_is_part_of_the_key() -> None:
    """With the requirements files that it names."""
    script = "from setuptools import setup\nsetup(name='a', install_requires=open('requirements.txt').readlines())"
    files = {"setup.py": script, "requirements.txt": "x", "tox.ini": "[testenv]\ndeps = pytest"}
    key = made(files)[0].key
    assert made({**files, "requirements.txt": "y"})[0].key != key
    assert made({**files, "setup.py": script + "\n"})[0].key != key
    assert made({**files, "README": "z"})[0].key == key
    fixed = {**files, "setup.py": "setup(name='a', version='1', install_requires=['x'])"}
    assert made(fixed)[0].key == made({**fixed, "setup.py": fixed["setup.py"].replace("'1'", "'2'")})[0].key


# --- the Python version ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"pyproject.toml": PROJECT + 'requires-python = ">=3.8"\n'}, "3.13"),
        ({"pyproject.toml": PROJECT + 'requires-python = ">=3.8,<3.12"\n'}, "3.11"),
        ({"pyproject.toml": PROJECT + 'requires-python = ">=3.11.4,<3.12"\n'}, "3.11"),
        ({"pyproject.toml": '[tool.poetry]\nname = "a"\n[tool.poetry.dependencies]\npython = "~2.7 || ~3.9"\n'}, "3.9"),
        ({"setup.cfg": "[metadata]\nname = a\n[options]\npython_requires = !=3.13.*\n"}, "3.11"),
        ({"setup.py": "setup(python_requires='<' + '3.10')"}, "3.9"),
        ({"pyproject.toml": PROJECT + 'classifiers = ["Programming Language :: Python :: 3.9"]\n'}, "3.9"),
        ({".python-version": "3.11.7\n"}, "3.11"),
        ({"tox.ini": "[tox]\nenvlist = py{38,39}, docs\n"}, "3.9"),
        ({"tox.ini": "[tox]\nenvlist = py27, py311\n"}, "3.11"),
        ({"noxfile.py": '@nox.session(python=["3.9"])\ndef tests(session): pass\n'}, "3.9"),
        ({".github/workflows/ci.yml": 'matrix:\n  python: ["3.9", "3.11"]\n'}, "3.11"),
        ({"setup.py": "print 'Python 2'"}, "3.13"),
    ],
)
def test_the_newest_available_version_that_the_project_names(files: dict[str, str], expected: str) -> None:
    found = recipes(Files(files), date=DATE, version="", pythons=["3.9", "3.11", "3.13"])
    assert found[0].python == expected


def test_versions_that_the_project_only_does_not_name_are_tried() -> None:
    files = {"tox.ini": "[tox]\nenvlist = py36, py37\n"}
    assert made(files)[0].source.endswith(", Python 3.11, which the project does not list as supported")


def test_a_project_that_excludes_all_available_versions() -> None:
    with pytest.raises(RejectedError) as caught:
        made({"pyproject.toml": PROJECT + 'requires-python = ">=3.12"\n'})
    assert caught.value.rejection.code == Code.PYTHON_NOT_AVAILABLE
    assert caught.value.rejection.reason == "the project requires Python >=3.12, but the available versions are: 3.11"


# --- the project itself ------------------------------------------------------------------------------------------


def test_the_project_is_installed_without_dependencies_isolation_or_network() -> None:
    (command,) = made({"pyproject.toml": PROJECT})[0].project
    assert command == "python -m pip install --no-index --no-deps --no-build-isolation -e ."


@pytest.mark.parametrize(
    ("requires", "variables"),
    [
        ("setuptools-scm", ["SETUPTOOLS_SCM_PRETEND_VERSION", "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_A_B"]),
        ("hatch_vcs", ["SETUPTOOLS_SCM_PRETEND_VERSION", "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_A_B"]),
        ("pbr", ["PBR_VERSION"]),
        ("poetry-dynamic-versioning", ["POETRY_DYNAMIC_VERSIONING_BYPASS"]),
        ("uv-dynamic-versioning", ["UV_DYNAMIC_VERSIONING_BYPASS"]),
        ("flit_core", []),
    ],
)
def test_versions_that_come_from_tags_are_set(requires: str, variables: list[str]) -> None:
    files = {"pyproject.toml": PROJECT.replace("hatchling", requires, 1)}
    recipe = made(files)[0]
    assert recipe.variables == dict.fromkeys(variables, "1.2.4.dev5")
    assert recipe.project[0].startswith(
        shlex.join(["env", *(f"{name}=1.2.4.dev5" for name in variables)]) + " "
    ) == bool(variables)
    assert wanted(recipe)["project"] == {"extras": [], "variables": recipe.variables}
    assert set(made(files, version="not a version")[0].variables.values()) <= {"0.1.dev0"}


def test_a_repository_that_is_not_a_package() -> None:
    """Its requirements.txt lists what it needs."""
    files = {"requirements.txt": "flask<3\n", "pyproject.toml": "[tool.ruff]\n", "tox.ini": "[testenv]\ndeps = pytest"}
    recipe = made(files)[0]
    assert recipe.project == ()
    assert wanted(recipe)["project"] is None
    assert wanted(recipe)["requirements"] == ["flask<3", "pytest"]
    assert recipe.source.endswith("the project itself cannot be installed")


@given(
    st.dictionaries(
        st.sampled_from(["pyproject.toml", "setup.cfg", "tox.ini", "setup.py", "uv.lock", "requirements-test.txt"]),
        st.text(max_size=60)
        | st.sampled_from(
            ["project = 1", "[tool]\npoetry = 1", "[[package]]\nname = 1", "[project]\nname = 1", "[a]\n b"]
        ),
    )
)
def test_any_files_give_a_recipe(files: dict[str, str]) -> None:
    assert made(files)[0].python == "3.11"


def test_files_that_are_too_large_or_too_deep() -> None:
    """M03: nothing takes much time or memory; such files are left out."""
    doubled = "".join(f"b{n} = b{n - 1} + b{n - 1}\n" for n in range(1, 60))
    groups = "[dependency-groups]\ntest = [{include-group = 'g0'}]\n"
    groups += "".join(
        f"g{n} = [{', '.join([f'{{include-group = {chr(39)}g{n + 1}{chr(39)}}}'] * 99)}]\n" for n in range(20)
    )
    extras = "test = ['a-b[e0]']\n" + "".join(f"e{n} = ['a-b[e{n + 1}]']\n" for n in range(2000)) + "e2000 = ['y']\n"
    files = {
        "pyproject.toml": PROJECT + groups + "[project.optional-dependencies]\n" + extras,
        "setup.py": "b0 = ['x', 'y']\n" + doubled + "setup(name='a', tests_require=b59)",
        "noxfile.py": "x = " + "(" * 10_000,
        "requirements-test.txt": "x\n" * (1 << 20),
        "tox.ini": "[testenv]\ndeps = {[testenv]deps}\n",
        "uv.lock": '{"a":' * 10_000,
    }
    assert installed(files) == {"editables", "hatchling", "pytest", "y"}
    assert installed({"pyproject.toml": PROJECT + "x = " + "[" * 10_000}) == {"pytest"}


def test_requirements_that_do_not_fit_into_a_command() -> None:
    many = "\n".join(f"{'x' * 90}{number}" for number in range(2000))
    files = {f"requirements/{name}.txt": many.replace("x", name[0]) for name in ("test", "ci", "pytest", "unittest")}
    assert installed(files) == {"pytest"}
    build = ", ".join(f"'{'x' * 90}{number}'" for number in range(2000))
    with pytest.raises(
        RejectedError, match="ENVIRONMENT_FAILED: the list of build requirements is too long for one command"
    ):
        made({"pyproject.toml": f"[build-system]\nrequires = [{build}]\n"})


# --- pins --------------------------------------------------------------------------------------------------------


def test_the_packages_of_an_environment_become_setup_commands() -> None:
    recipe = made({"pyproject.toml": PROJECT})[0]
    freeze = "# Editable install with no version control (a.b==1)\n-e /workspace\n"
    freeze += "X_y==1.0.post1\nz==1!2+cpu\na-B==1\npip==23\n"
    found = pins(freeze, "A.b")
    assert found == ("X_y==1.0.post1", "z==1!2+cpu")
    assert setup_commands(found, recipe) == (
        "python -m pip install --no-deps X_y==1.0.post1 'z==1!2+cpu'",
        "python -m pip install --no-index --no-deps --no-build-isolation -e .",
    )
    many = [f"x{number}==1" for number in range(250)]
    assert len(setup_commands(many, recipe)) == 4


@pytest.mark.parametrize(
    "line",
    [
        *("x @ file:///x", "x===1", "x>=1", "x==1; id", "x==1 y", "x==*", "x==abc", "--index-url=y", "failed: no pip"),
        *("x==1$(id)", "x[a]==1", "x==1 # y", "$(id)==1", "x==1.*"),
    ],
)
def test_unpinned_requirements_are_rejected(line: str) -> None:
    """M04: other than `name==version`, both when it is read and when it is written."""
    with pytest.raises(RejectedError) as caught:
        pins(f"y==1\n{line}\n", "p")
    assert caught.value.rejection.code == Code.ENVIRONMENT_FAILED
    assert line in caught.value.rejection.reason
    with pytest.raises(ValueError, match="does not have the form name==version"):
        setup_commands(["y==1", line], made({})[0])


@pytest.mark.parametrize("freeze", ["", "\n".join(f"x{number}==1" for number in range(501))])
def test_environments_without_packages_or_with_too_many(freeze: str) -> None:
    with pytest.raises(RejectedError, match="ENVIRONMENT_FAILED"):
        pins(freeze, "p")


FAILURES = [
    (
        "ERROR: Index https://127.0.0.1/simple/x/ does not provide upload-time metadata.",
        Code.INDEX_WITHOUT_DATES,
        "the package index https://127.0.0.1/simple/x/ does not provide upload times, which are needed to select "
        "packages by date",
    ),
    (
        "ERROR: Package 'a' requires a different Python: 3.11.2 not in '<3.10,>=3.6'",
        Code.PYTHON_NOT_AVAILABLE,
        "a requires Python <3.10,>=3.6, but the sandbox has Python 3.11.2",
    ),
    (
        "ERROR: Could not find a version that satisfies the requirement x>9 (from versions: 1, 2)\n"
        "ERROR: No matching distribution found for x>9",
        Code.ENVIRONMENT_FAILED,
        "no suitable release of x>9 was uploaded before the commit",
    ),
    (
        "ERROR: Cannot install a[t] and x==1 because these package versions have conflicting dependencies.\n"
        "ERROR: ResolutionImpossible: for help visit https://127.0.0.1/",
        Code.ENVIRONMENT_FAILED,
        "the requirements conflict: a[t] and x==1",
    ),
    (
        "  ModuleNotFoundError: No module named 'numpy'\n  [end of output]\n\n"
        "note: This error originates from a subprocess.\nerror: metadata-generation-failed",
        Code.ENVIRONMENT_FAILED,
        "a package failed to build, because its build imports numpy without requiring it",
    ),
    (
        "ERROR: Failed building wheel for lxml\nERROR: Failed to build installable wheels for some "
        "pyproject.toml based projects (lxml)",
        Code.ENVIRONMENT_FAILED,
        "building lxml failed",
    ),
    (
        "WARNING: Retrying: [Errno -3] Temporary failure in name resolution\n"
        "ERROR: No matching distribution found for pip>=26.0",
        Code.INTERNAL,
        "the package index could not be used: Temporary failure in name resolution",
    ),
    (
        "WARNING: Retrying after 'SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to\n"
        "ERROR: No matching distribution found for pip>=26.0\n"
        "error: the package index has no pip>=26.0, which is needed to select packages by date",
        Code.INTERNAL,
        "the package index could not be used: certificate verify failed; "
        "behind a TLS-intercepting proxy, pass --set sandbox.ca_bundle=FILE",
    ),
    (
        "ERROR: No matching distribution found for pip>=26.0\n"
        "error: the package index has no pip>=26.0, which is needed to select packages by date",
        Code.INDEX_WITHOUT_DATES,
        "the package index has no pip>=26.0, which is needed to select packages by date",
    ),
    ("Traceback:\nValueError: bad\nnote: x", Code.ENVIRONMENT_FAILED, "the installation failed: ValueError: bad"),
    ("", Code.ENVIRONMENT_FAILED, "the installation failed without a message"),
    ("x" * 9999, Code.ENVIRONMENT_FAILED, f"the installation failed: {'x' * 272}..."),
]


@pytest.mark.parametrize(("output", "code", "reason"), FAILURES, ids=[str(row[2])[:30] for row in FAILURES])
def test_why_an_environment_failed(output: str, code: Code, reason: str) -> None:
    """The command itself, which contains similar text, does not matter."""
    (command,) = made({"pyproject.toml": PROJECT})[0].resolve
    found = classify(f"the setup command {command!r} ended with exit code 1\n{output}".rstrip())
    assert (found.code, found.reason) == (code, reason)


def test_commits_that_are_far_apart_do_not_share_an_environment() -> None:
    """The packages of one year can fail the tests of another, although the files that name them are equal."""
    known = {"k": Environment(key="k", date="2024-09-02T00:00:00Z", python="3.11", pins=("a==1",))}
    assert key_at("k", "2024-06-30T00:00:00Z", {}) == "k"
    assert key_at("k", "2024-06-30T00:00:00Z", known) == "k"
    assert key_at("k", "2024-04-11T00:00:00Z", known) == "k:2024-2"
    assert key_at("k", "2025-01-01T00:00:00Z", known) == "k:2025-1"


def test_sources_that_cannot_be_a_workspace() -> None:
    found = classify("/src/shop at 1a2b: 'data/model.bin' is a Git LFS pointer; LFS is not supported")
    assert (found.code, found.reason) == (
        Code.UNSUPPORTED_FILE,
        "'data/model.bin' is a Git LFS pointer in the repository",
    )


def test_setups_that_time_out_or_have_another_python() -> None:
    assert classify("the setup command 'x' timed out\nerror: y").reason == "the installation timed out"
    found = classify("the task requires Python 3.9, but `python` in an/image:1 is 3.11.2")
    assert found.code == Code.PYTHON_NOT_AVAILABLE
    assert found.reason == "the commit requires Python 3.9, but the sandbox has Python 3.11.2"


# --- the program that installs -----------------------------------------------------------------------------------


def run(recipe: Recipe, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the resolving command with this Python and pip."""
    words = shlex.split(recipe.resolve[0])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return subprocess.run(
        [sys.executable, *words[1:]], capture_output=True, text=True, cwd=tmp_path, env=kept | variables
    )


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"PIP_INDEX_URL": "file:///packages"}, "the package index file:///packages does not provide upload times"),
        ({"PIP_INDEX_URL": "/packages"}, "the package index /packages does not provide upload times"),
        ({"PIP_NO_INDEX": "1"}, "pip is configured with no-index"),
    ],
)
def test_an_index_without_upload_times(variables: dict[str, str], reason: str, tmp_path: Path) -> None:
    """It is an error before anything is installed."""
    ended = run(made({})[0], tmp_path, **variables)
    assert ended.returncode == 1
    found = classify(f"the setup command 'x' ended with exit code 1\n{ended.stderr}")
    assert found.code == Code.INDEX_WITHOUT_DATES
    assert found.reason.startswith(reason)


def test_local_packages_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M05: they have no upload times; an index that is served by HTTP, and the settings for its servers, stay."""
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://127.0.0.1/one\ncert = /ca\nfind-links = /wheels\n"
        "[install]\nextra-index-url = file:///packages\n  HTTP://127.0.0.1/two\npre = true\n"
    )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_FIND_LINKS", "/more")
    monkeypatch.setenv("PIP_INDEX_URL", "https://127.0.0.1/three")
    used = {name: value for name, value in install.variables(install.settings()).items() if name.startswith("PIP_")}
    assert used == {
        "PIP_INDEX_URL": "https://127.0.0.1/three",
        "PIP_EXTRA_INDEX_URL": "HTTP://127.0.0.1/two",
        "PIP_CERT": "/ca",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
    }


def test_pip_knows_the_command_that_lists_packages() -> None:
    ended = subprocess.run([sys.executable, *CAPTURE.split()[1:]], capture_output=True, text=True, check=True)
    assert {line.partition("==")[0] for line in pins(ended.stdout, "agentbench-core") if line.startswith("att")} == {
        "attrs"
    }


def test_options_that_depend_on_the_whole_suite_are_undone() -> None:
    """Workers would hide the canaries from the scorer, and the coverage of a few tests is too low."""
    for options in ("-n auto --cov=shop --cov-report term -q", "--cov --numprocesses=4 --cov=x"):
        assert set(overrides(Files({"tox.ini": f"[pytest]\naddopts = {options}\n"}))) == {"-n0", "--no-cov"}
    assert overrides(Files({"pytest.ini": "[pytest]\naddopts = --no-header --nf -q --strict-markers\n"})) == ()
    assert overrides(Files({})) == ()


def test_packages_older_than_the_interpreter_may_be_replaced_by_those_of_its_release() -> None:
    """Old build tools may not work with a newer Python; a commit that is newer than it needs no such recipe."""
    files = {"pyproject.toml": PROJECT, "requirements-dev.txt": "pytest==5.4\n"}
    old = made(files, date="2020-05-01T00:00:00Z")
    assert [wanted(recipe)["date"][:10] for recipe in old] == ["2020-05-01", "2020-05-01", "2022-10-24"]
    assert len({recipe.key for recipe in old}) == 3
    assert old[2].source.endswith("packages as of 2022-10-24")
    assert wanted(old[2])["requirements"] == wanted(old[0])["requirements"]
    assert {wanted(recipe)["date"] for recipe in made(files)} == {DATE}
