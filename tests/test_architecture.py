"""The rules that keep the project readable, each as a test: tools, layers, names, sizes, purity."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor import errors
from tests.support.runs import ROOT
from tests.support.sources import calls, modules, project_files, tree

TOP_LEVEL = {"pyproject.toml", "supervisor", "trainer", "systemd", "tests", "README.md", "LICENSE"}
VAGUE = re.compile(r"(^|_)(utils?|helpers?|common|base|managers?|misc|shared|stuff|lib)(_|$)")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|workspace|Users)/\w")
EXCUSE = re.compile(r"#\s*(?:noqa|type:\s*ignore)(?P<codes>[^#\n]*)(?P<more>#[^\n]*)?")
SHELL = "subprocess socket selectors asyncio"  # none of the world outside
LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"
TOOLS = {
    "ruff check": ["-m", "ruff", "check"],
    "ruff format": ["-m", "ruff", "format", "--check"],
    "mypy": ["-m", "mypy"],
    "import layers": ["-c", LINT_IMPORTS],
}


@pytest.mark.timeout(300)  # mypy from an empty cache reads the stubs of torch and numpy
@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_is_content(tool: str) -> None:
    command = [sys.executable, *TOOLS[tool]]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{tool} says:\n{done.stdout}{done.stderr}"


def test_no_file_is_longer_than_300_lines() -> None:
    lengths = {str(p): (ROOT / p).read_bytes().count(b"\n") for p in project_files(".py", ".c")}
    assert {path: lines for path, lines in lengths.items() if lines > 300} == {}


def test_no_module_has_a_name_that_could_hold_anything() -> None:
    vague = [
        str(p) for p in project_files(".py") if any(VAGUE.search(Path(q).stem) for q in p.parts)
    ]
    assert vague == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path)
        for path in project_files(".py")
        if (ROOT / path).stat().st_size and not ast.get_docstring(tree(path))
    ]
    assert silent == []


def test_the_top_level_holds_nothing_unexpected() -> None:
    found = {path.parts[0] for path in project_files()}
    assert {name for name in found if name not in TOP_LEVEL and not name.startswith(".")} == set()


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    named = []
    for path in project_files():
        text = (ROOT / path).read_bytes().decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE_PATH.search(line) or str(ROOT) in line:
                named.append(f"{path}:{number}: {line.strip()}")
    assert named == []


def test_every_exception_from_a_rule_gives_its_reason() -> None:
    bare = []
    for path in project_files(".py"):
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
            found = EXCUSE.search(line)
            if found and " - " not in found["codes"] and not found["more"]:
                bare.append(f"{path}:{number}: {line.strip()}")
    assert bare == []


def test_the_drawn_error_tree_is_the_real_one() -> None:
    drawn: list[tuple[str, str, int]] = []
    parents: dict[int, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        if found := re.fullmatch(r"([ │├└─]*)(\w+Error)\s+(\d+)  .*", line):
            depth = len(found[1])
            above = [parents[d] for d in sorted(parents) if d < depth]
            parents = {d: name for d, name in parents.items() if d < depth} | {depth: found[2]}
            drawn.append((found[2], above[-1] if above else "Exception", int(found[3])))
    real = [
        (name, value.__base__.__name__, value.exit_code)
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert sorted(drawn) == sorted(real)
    assert len(drawn) > 5


def test_tests_wait_for_conditions_and_never_sleep() -> None:
    sleeping = [
        f"{path}:{call.lineno}"
        for path in modules("tests")
        if path.name != "waiting.py"
        for name, call in calls(path)
        if name in {"time.sleep", "asyncio.sleep"}
    ]
    assert sleeping == []


@pytest.mark.parametrize(
    ("forbidden", "only_in"),
    [
        (("os.rename", "os.renames", "os.replace", "os.link", "shutil.move"), "durable.py"),
        (("os.fsync", "os.fdatasync", "os.sync"), "durable.py"),
        (("time.time", "time.monotonic", "time.sleep", "datetime.datetime.now"), "clock.py"),
        (("torch.load",), "reading.py"),
        (("pickle.load", "pickle.loads", "marshal.loads", "eval", "exec"), ""),
    ],
    ids=["renames", "syncs", "clocks", "files of torch", "unpickling"],
)
def test_what_one_module_owns_no_other_calls(forbidden: tuple[str, ...], only_in: str) -> None:
    elsewhere = [
        f"{path}:{call.lineno} calls {name}"
        for path in modules("supervisor", "trainer")
        if path.name != only_in
        for name, call in calls(path)
        if name in forbidden
    ]
    assert elsewhere == []


def test_no_path_is_renamed_outside_the_module_that_owns_renames() -> None:
    """A method named replace with one argument is a path's; a text's takes two."""
    elsewhere = [
        f"{path}:{call.lineno} calls {name}"
        for path in modules("supervisor", "trainer")
        if path.name != "durable.py"
        for name, call in calls(path)
        if name.endswith((".rename", ".hardlink_to"))
        or (name.endswith(".replace") and len(call.args) == 1 and not call.keywords)
    ]
    assert elsewhere == []


@pytest.mark.parametrize(
    ("package", "absent"),
    [
        (
            "trainer.contract.wire",
            "torch numpy pydantic psutil subprocess socket selectors asyncio",
        ),
        ("supervisor.core", "torch numpy pydantic psutil subprocess socket selectors asyncio"),
        ("supervisor.sidecars", "torch numpy rich typer"),
        ("supervisor.process", "torch numpy rich typer pydantic"),
    ],
)
def test_a_package_loads_nothing_heavier_than_it_needs(package: str, absent: str) -> None:
    """Import every module of it in a new interpreter and look at what came along."""
    folder = Path(*package.split("."))
    names = [
        ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for path in modules(folder.parts[0])
        if path.is_relative_to(folder)
    ]
    code = f"import sys, {', '.join(names)}; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert set(absent.split()) & set(done.stdout.split()) == set()


def test_the_supervisor_never_asks_for_an_exception_from_the_clock_rule() -> None:
    asking = [str(p) for p in modules("supervisor") if "noqa: TID251" in (ROOT / p).read_text()]
    assert asking == []


@pytest.mark.parametrize("line", ["echo first && touch ran # pytest", "false # pytest"])
def test_the_build_runs_exactly_the_readmes_line(tmp_path: Path, line: str) -> None:
    (tmp_path / ".ci").mkdir()
    script = tmp_path / ".ci/run"
    script.write_bytes((ROOT / ".ci/run").read_bytes())
    heading = "## The two commands\n\n"
    other = "```sh\ntouch wrong # pytest\n```\n"
    block = f"```sh\ntouch demo\n{line}\n```\n"
    (tmp_path / "README.md").write_text(f"{other}{heading}{block}## Next\n{other}")
    done = subprocess.run(["bash", script], capture_output=True, text=True, check=False, input="")
    assert done.returncode == (1 if line.startswith("false") else 0)
    made = {path.name for path in tmp_path.iterdir()} - {".ci", "README.md"}
    assert made == ({"ran"} if line.startswith("echo") else set())


def test_the_build_says_so_where_the_readme_has_no_such_line(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/run").write_bytes((ROOT / ".ci/run").read_bytes())
    (tmp_path / "README.md").write_text("## The two commands\n\nNone.\n")
    command = ["bash", tmp_path / ".ci/run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, input="")
    assert done.returncode == 2
    assert done.stderr.startswith("cannot run the tests: ")
