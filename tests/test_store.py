"""The store: nothing recorded is lost, nothing is half there, and errors name the mend."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from fastcell import StoreError
from fastcell.library import gru, rnn
from fastcell.results import Protocol, Result, Run
from fastcell.store import SCHEMA_VERSION, Store


def make_result(seed=0, cell=rnn, test=0.3, length=3):
    curve = tuple(1 / (3 + epoch) for epoch in range(length))
    run = Run(cell, "adding", Protocol(), seed)
    return Result.of(run, "done", epochs=length, validation=curve, test=test)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.sqlite"


def test_what_goes_in_comes_out(path):
    first, second = make_result(), make_result(2**63 - 1, gru, length=400)
    with Store(path) as store:
        assert store.add(first)
        assert store.add(second)
    with Store(path) as store:
        assert store.get(first.id) == first
        assert store.get(second.id) == second
        assert store.get(make_result(5).id) is None
        assert store.results() == sorted([first, second], key=lambda result: result.id)


def test_the_first_result_of_an_id_stays(path):
    with Store(path) as store:
        assert store.add(make_result(test=0.1))
        assert not store.add(make_result(test=0.2))
        assert store.results() == [make_result(test=0.1)]


def test_the_first_plan_stays(path):
    with Store(path) as store:
        assert store.plan() == {}
        plan = {"options": {"seed": 1, "clip": 0.5}, "codes": [2**56, 3]}
        assert store.set_plan(plan) == plan
        assert store.set_plan({"codes": []}) == plan
    with Store(path) as store:
        assert store.plan() == plan


def test_write_ahead_log_and_schema_version(path):
    Store(path).close()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert database.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def write_many(path, first, barrier):
    barrier.wait()
    for seed in range(first, first + 60):
        with Store(path) as store:
            store.add(make_result(seed, test=float(first)))


def test_two_processes_write_at_once(path):
    """Both open the new file together, write overlapping ids, and reopen for every result."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    firsts = (0, 30)
    writers = [context.Process(target=write_many, args=(path, f, barrier)) for f in firsts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    with Store(path) as store:
        assert {result.seed for result in store.results()} == set(range(90))
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


WRITE_FOREVER = """
import itertools, sys
from test_store import Store, make_result
with Store(sys.argv[1]) as store:
    for seed in itertools.count(int(sys.argv[2])):
        store.add(make_result(seed, length=400))
        print(seed, flush=True)
"""


def test_what_was_recorded_outlives_kill(path):
    seen = -1
    for _ in range(3):
        command = [sys.executable, "-c", WRITE_FOREVER, str(path), str(seen + 1)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
            for _ in range(20):
                writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
            lines = writer.stdout.read().split()
        seen = int(lines[-1]) if lines else seen + 20
        with Store(path) as store:
            seeds = [result.seed for result in store.results()]
        assert seeds[: seen + 1] == list(range(seen + 1))
        seen = seeds[-1]


def test_missing_folder(tmp_path):
    with pytest.raises(StoreError, match=r"unable to open.*expected a writable folder that exists"):
        Store(tmp_path / "missing" / "results.sqlite")


def test_not_a_database(path):
    path.write_text("a diary, not a database\n" * 100)
    with pytest.raises(StoreError, match="not a database; expected a fastcell result store"):
        Store(path)


def test_another_database(path):
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE songs (title)")
    with pytest.raises(StoreError, match="found another SQLite database: choose another folder"):
        Store(path)


@pytest.mark.parametrize(
    ("version", "found"),
    [
        (SCHEMA_VERSION + 1, "newer schema version 2: update"),
        (-1, "older schema version -1: choose"),
    ],
)
def test_another_schema(path, version, found):
    Store(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(
        StoreError, match=f"expected .* version {SCHEMA_VERSION}, found the {found}"
    ):
        Store(path)


def test_full_disk_loses_nothing(path):
    """SQLite's own page limit stands in for the disk's: the same SQLITE_FULL."""
    with Store(path) as store:
        kept = [make_result(seed) for seed in range(5)]
        for result in kept:
            store.add(result)
        (pages,) = store._database.execute("PRAGMA page_count").fetchone()
        store._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="full; free some disk space and run again"):
            store.add(make_result(9, length=5000))
        assert store.results() == kept
    with Store(path) as store:
        assert store.results() == kept
        assert store.add(make_result(9, length=5000))


@pytest.fixture
def unprivileged():
    """For root, file modes mean nothing: be nobody for a while."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.fixture
def shared_folder():
    """A folder that anybody can reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


@pytest.fixture
def results():
    """Made while everything can be read: nobody may not see the environment that runs the test."""
    return make_result(), make_result(1)


def test_read_only_file(results, shared_folder, unprivileged):
    path = shared_folder / "results.sqlite"
    first, second = results
    with Store(path) as store:
        store.add(first)
    path.chmod(0o444)
    with pytest.raises(StoreError, match=r"readonly.*make the file and its folder writable"):
        Store(path).add(second)


def test_read_only_folder(shared_folder, unprivileged):
    folder = shared_folder / "locked"
    folder.mkdir(mode=0o555)
    with pytest.raises(StoreError, match="expected a writable folder that exists"):
        Store(folder / "results.sqlite")


def test_damaged_record(path):
    with Store(path) as store:
        store.add(make_result())
        store._database.execute("UPDATE results SET record = '{}'")
        with pytest.raises(
            StoreError, match=r"unreadable result \(expected the fields of a Result"
        ):
            store.get(make_result().id)


def test_busy(path, monkeypatch):
    monkeypatch.setattr("fastcell.store.BUSY_SECONDS", 0.05)
    with Store(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked; another process held it"):
            store.add(make_result())
        other.execute("COMMIT")
        assert store.add(make_result())


def test_a_new_file_may_be_opened_by_several_at_once(tmp_path):
    """SQLite does not wait by itself while another connection turns write-ahead logging on."""
    barrier, errors = threading.Barrier(8), []

    def use(path):
        barrier.wait()
        try:
            with Store(path):
                pass
        except StoreError as error:
            errors.append(error)

    for i in range(40):
        threads = [threading.Thread(target=use, args=(tmp_path / f"{i}",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
