"""How a cluster is reached and given its tasks, with a scheduler that is played."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from circletool_cli.batch.many import many, mirrored
from circletool_cli.batch.task import Outcome, Task, apply
from circletool_cli.signature import argument

import circletools as ct
from tests.kit.many_support import tasks
from tests.kit.presence import Lazy

HELP = "A model to read; to read it."
clusters, distributed = Lazy("circletool_cli.batch.cluster", "distributed"), Lazy("distributed")


class Client:
    """A client whose tasks end as `ends` says, by the file: with an outcome, or an error that is raised."""

    def __init__(self, threads: int, ends: dict[str, list[Any]]) -> None:
        self.loop, self.closed = object(), False
        self.submitted: list[dict[str, Any]] = []
        self._threads, self._ends = threads, ends

    def nthreads(self) -> dict[str, int]:
        """Return the threads of each worker."""
        return {"a": self._threads - 1, "b": 1}

    def submit(self, function: Callable[[Task], Outcome], task: Task, **words: Any) -> SimpleNamespace:
        """Begin a task."""
        assert function is apply
        self.submitted.append(words)
        ends = self._ends.get(task.file, [])
        end = ends.pop(0) if ends else Outcome(0, task.file.encode(), ())

        def result() -> Outcome:
            if isinstance(end, Exception):
                raise end
            assert isinstance(end, Outcome)
            return end

        return SimpleNamespace(key=words["key"], result=result)

    def close(self) -> None:
        """Disconnect."""
        self.closed = True


class InOrder(deque[Any]):
    """What has been started, in that order."""

    def __init__(self, loop: object) -> None:
        super().__init__()
        self.loop = loop

    add = deque.append

    def __next__(self) -> Any:
        return self.popleft()


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Client]]:
    def connected(threads: int = 2, **ends: list[Any]) -> tuple[Any, Client]:
        client, reached = Client(threads, ends), list[Any]()

        def knock(place: tuple[str, int], timeout: float) -> SimpleNamespace:
            reached.append((*place, timeout))
            return SimpleNamespace(close=lambda: None)

        def make(address: str, **words: Any) -> Client:
            reached.append((address, words))
            return client

        monkeypatch.setattr(socket, "create_connection", knock)
        made = clusters.Cluster
        monkeypatch.setattr("circletool_cli.batch.cluster.Client", make)
        monkeypatch.setattr("circletool_cli.batch.cluster.as_completed", InOrder)
        cluster = made("tcp://host:8786")
        assert reached == [("host", 8786, 10), ("tcp://host:8786", {"timeout": 10, "set_as_default": False})]
        return cluster, client

    return connected


@pytest.mark.parametrize(("threads", "window"), [(2, 16), (8, 16), (9, 18), (40, 80)])
def test_a_cluster_has_twice_as_many_tasks_as_threads(threads: int, window: int, connect: Any) -> None:
    cluster, client = connect(threads)
    assert (cluster.free, cluster.busy) == (True, False)
    (task,) = tasks("a")
    for number in range(window):
        assert cluster.free
        cluster.start(number, task)
        assert cluster.busy
    assert not cluster.free
    assert cluster.wait() == (0, Outcome(0, b"a", ()))
    assert cluster.free
    assert {words["pure"] for words in client.submitted} == {False}
    assert len({words["key"] for words in client.submitted}) == window
    cluster.close()
    assert client.closed


def test_a_task_whose_workers_died_is_tried_alone(connect: Any) -> None:
    def died() -> Exception:
        return distributed.KilledWorker("key", SimpleNamespace(address=""), 3)  # type: ignore[no-any-return]

    cluster, client = connect(bad=[died(), died()], unlucky=[died()])
    for number, task in enumerate(tasks("a", "bad", "unlucky", "b")):
        cluster.start(number, task)
    assert [cluster.wait()[0] for _ in range(2)] == [0, 3]  # those that came meanwhile
    assert (cluster.free, cluster.busy, len(client.submitted)) == (False, True, 4)
    assert cluster.wait() == (2, Outcome(0, b"unlucky", ()))
    assert (cluster.free, cluster.busy, len(client.submitted)) == (False, True, 5)
    number, outcome = cluster.wait()
    said = "bad: several workers died of it (run it alone to see more)"
    assert (number, outcome.status, outcome.error) == (1, 3, said)
    assert (cluster.free, cluster.busy, len(client.submitted)) == (True, False, 6)


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (
            lambda: distributed.CancelledError("gone"),
            ct.InvalidInputError,
            "tcp://host:8786: lost the scheduler (with --log FILE, --resume goes on from here)",
        ),
        (
            lambda: ImportError("no module"),
            ct.UsageError,
            "a worker cannot run a task: ImportError: no module "
            f"(install circletools {ct.__version__} for each worker)",
        ),
    ],
)
def test_what_ends_the_whole_run(error: Callable[[], Exception], kind: type, said: str, connect: Any) -> None:
    cluster, _ = connect(a=[error()])
    cluster.start(0, tasks("a")[0])
    with pytest.raises(kind) as caught:
        cluster.wait()
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("tcp://host:8786", ("host", 8786)),
        ("tls://[::1]:1", ("::1", 1)),
        ("ws://h:99999", ("h", 99999)),
        ("10.0.0.1:80", ("10.0.0.1", 80)),
        ("tcp://host", None),
        ("tcp://host:123456", None),
        ("tcp://host:80/", None),
        ("x://host:80", None),
    ],
)
def test_addresses(address: str, place: tuple[str, int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def knock(where: tuple[str, int], timeout: float) -> None:
        raise ConnectionRefusedError(f"{where} {timeout}")

    monkeypatch.setattr(socket, "create_connection", knock)
    with pytest.raises(ct.UsageError) as caught:
        clusters.Cluster(address)
    if place is None:
        assert str(caught.value) == f"--scheduler {address}: not an address (write tcp://HOST:PORT)"
    else:
        assert str(caught.value) == f"--scheduler {address}: cannot reach the scheduler: {place} 10"


def command_of_models(source: Annotated[str, argument("IN", HELP)]) -> None:
    """Do nothing."""


def test_the_first_parameter_of_a_command_for_several_files() -> None:
    def of(command: Any) -> tuple[str, str]:
        argument = command.__annotations__["source"].__metadata__[0]
        return argument.metavar, argument.help

    assert of(many(command_of_models)) == ("IN...", "A model to read, or a directory of models; to read it.")
    assert of(many(command_of_models, directories=False)) == ("IN...", HELP)
    assert of(mirrored(command_of_models)) == ("IN", "A model to read, or a directory of models; to read it.")
    assert of(many(command_of_models)) == of(many(command_of_models)), "the command itself keeps its own"
