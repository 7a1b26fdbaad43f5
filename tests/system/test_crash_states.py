"""Every state that a crash of a recorded life may leave is recovered from; a part of them here.

``python -m tests.crashes`` goes through all.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from itertools import islice

import pytest

from tests.crashes import survey
from tests.crashes.artefacts import ROWS
from tests.crashes.life import Recording, record
from tests.crashes.lives import live_on
from tests.support.crash_fs import Disk, Operation, states_of
from tests.support.crash_fs.disk import is_temporary
from tests.support.document import table

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(240)]

PART = 300
LIVES = 3


def recorded(factory: pytest.TempPathFactory, form: str) -> Recording:
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        pytest.skip("needs a C compiler: neither cc, gcc nor clang is on the path")
    return record(factory.mktemp("recorded"), form)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory, "bin")


@pytest.fixture(scope="module")
def of_folders(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Recording:
    """A life whose checkpoints are folders of shards."""
    if not request.config.getoption("--thorough"):
        pytest.skip("another format: run it with --thorough")
    return recorded(tmp_path_factory, "sharded")


def test_a_recorded_life_writes_everything_that_a_run_has(recording: Recording) -> None:
    counted = survey.operations_by_artefact(recording)
    assert {row for row in ROWS if counted[row] == 0} == set()
    assert recording.writers() >= 6, "three supervisors and three trainers"


def test_the_readme_claims_no_more_states_than_a_recording_has(
    recording: Recording, *, thorough: bool
) -> None:
    [row] = [row for row in table("## Reliability") if "tests.crashes" in row[3]]
    states, operations = (int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*(?= )", row[1]))
    assert len(recording.operations) >= operations
    assert survey.choices(recording, 1) >= 2 * states
    if thorough:
        assert sum(1 for _ in survey.states(recording, 1)) >= states
    assert row[2] == "0"


def test_a_part_of_all_crash_states_is_recovered_from(recording: Recording) -> None:
    tally = survey.judge(recording, survey.states(recording, 1, PART, 7))
    assert tally.examples == []
    assert tally.reasons == {}
    assert tally.recovered[survey.TOTAL] > 100


def test_real_lives_go_on_from_some_of_them_to_the_end(recording: Recording) -> None:
    some = islice(survey.states(recording, 1, 20 * PART, PART), LIVES)
    tally = survey.judge(recording, some, live_on)
    assert tally.examples == []
    assert tally.reasons == {}
    assert tally.recovered[survey.TOTAL] == LIVES


def without(recording: Recording, kind: str, name: str) -> Recording:
    """The life as it would be if the program had forgotten those calls."""
    disk = Disk(recording.start)
    kept = []
    for done in recording.operations:
        path = disk.apply(done)
        if done.kind != kind or name not in path:
            kept.append(done)
    return replace(recording, operations=tuple(kept))


@pytest.mark.parametrize(
    ("kind", "name"),
    [("F", "demo.loss.json"), ("F", ".bin"), ("D", "checkpoints"), ("F", "pivot.json")],
)
def test_a_sync_that_the_program_forgot_would_be_found(
    recording: Recording, kind: str, name: str, *, thorough: bool
) -> None:
    if not thorough and name not in ("demo.loss.json", ".bin"):
        pytest.skip("slow: run it with --thorough")
    forgetful = without(recording, kind, name)
    found = survey.states(forgetful, 1, 1 if thorough else 23)
    tally = survey.judge(forgetful, found, patience=1)
    assert tally.failed[survey.TOTAL] + tally.refused[survey.TOTAL] == 1


def test_a_part_of_the_crash_states_of_folders_is_recovered_from(of_folders: Recording) -> None:
    tally = survey.judge(of_folders, survey.states(of_folders, 1, PART, 7))
    assert tally.examples == []
    assert tally.reasons == {}
    assert tally.states["checkpoints"] > 10
    assert tally.recovered[survey.TOTAL] > 100


@pytest.mark.parametrize(("kind", "name"), [("F", "model.shard-001.pt"), ("D", ".sharded")])
def test_a_sync_inside_of_a_folder_that_was_forgotten_would_be_found(
    of_folders: Recording, kind: str, name: str
) -> None:
    forgetful = without(of_folders, kind, name)
    tally = survey.judge(forgetful, survey.states(forgetful, 1, 23), patience=1)
    assert tally.failed[survey.TOTAL] + tally.refused[survey.TOTAL] == 1


def test_a_rename_is_never_half_done(recording: Recording) -> None:
    disk = Disk(recording.start)
    for done in recording.operations[:120]:
        disk.apply(done)
        for chosen in states_of(disk, 1):
            names = [path for path in chosen.content if is_temporary(path)]
            assert not {chosen.links.get(name, "") for name in names} - {""}


def test_what_was_synced_is_in_every_state() -> None:
    """The model itself, by a life of four calls."""
    disk = Disk({})
    calls = [
        Operation(1, "C", "a", inode=5),
        Operation(1, "W", inode=5, data=b"first"),
        Operation(1, "F", inode=5),
        Operation(1, "D", ""),
        Operation(1, "W", inode=5, offset=5, data=b"second"),
    ]
    found = []
    for done in calls:
        disk.apply(done)
        found.append({state.content.get("a") for state in states_of(disk, 1)})
    assert found[0] == {None, b""}
    assert found[1] == {None, b"", b"first", b"fi", bytes(5), b"fi\0\0\0", b"\0\0rst"}
    assert found[2] == {None, b"first"}
    assert found[3] == {b"first"}
    assert all(data.startswith(b"first") for data in found[4])
    assert b"firstsec" in found[4]


def test_a_folder_that_is_renamed_is_whole_under_one_name() -> None:
    """The same, by the writing of a folder."""
    temporary = ".kept.0123456789ab.tmp"
    disk = Disk({})
    calls = [
        Operation(1, "M", temporary),
        Operation(1, "C", f"{temporary}/a", inode=5),
        Operation(1, "W", inode=5, data=b"part"),
        Operation(1, "F", inode=5),
        Operation(1, "D", temporary),
        Operation(1, "R", temporary, "kept"),
        Operation(1, "D", ""),
    ]
    found = []
    for done in calls:
        disk.apply(done)
        names = [state.content for state in states_of(disk, 1)]
        found.append({tuple(sorted(content.items())) for content in names})
    whole = (("kept", None), ("kept/a", b"part"))
    begun = ((temporary, None), (f"{temporary}/a", b"part"))
    assert found[5] == {(), begun, whole}
    assert found[6] == {whole}
    disk.apply(Operation(1, "R", "kept", "moved"))
    disk.apply(Operation(1, "D", ""))
    assert disk.content() == {"moved": None, "moved/a": b"part"}
    assert {path for state in states_of(disk, 1) for path in state.content} == {"moved", "moved/a"}
