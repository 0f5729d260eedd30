"""The Ray engine: the requests as a Ray dataset, through a pool of engine actors, on this machine or a cluster.

Ray Data runs it: it starts the actors, hands blocks of requests to whichever has room, and starts an actor that was
killed again and gives its blocks to the others. What it does not know is a data set that is made while it is answered,
and one data set for each window of requests would load the model again for each. So there is one data set for the life
of the engine, whose single source reads blocks from a *feed*, a small actor that this process fills as answers come
back. The model is loaded once, requests are rendered as they are needed, and a bounded number is under way.

- A block is asked of the feed by its number and kept there until it is answered, so the source can be run again.
- A block's answers come back together. Ray runs a task that was lost again and drops as many of its results as it
  had already given on; that is safe with one result, and would lose answers that come in another order with several.
- Blocks overlap in an actor, so that none waits for another's longest answer.
- A block that was begun three times, having killed two actors, is given back as errors, which the next run asks again.

Requests that begin alike share blocks, so their beginning is computed once for each actor at most.
"""

import json
import logging
import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import groupby
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from ...hf_datasets.errors import ConfigError, EngineError
from ..requests import Message, ModelRef, Outcome, Request, Sampling
from .base import Engine, ModelConfig
from .workers import MAX_DEATHS, SharedEngine

__all__ = ["RayConfig", "RayEngine"]

logger = logging.getLogger(__name__)

BLOCKS_PER_ACTOR = 10
"""Blocks that an actor works on at once."""
N_RUNNING = 16
"""Requests that an engine works on at once where its configuration does not say."""
PASSED_ON = ("VLLM_", "HF_", "OMP_", "NCCL_", "TOKENIZERS_", "TORCH_", "TRANSFORMERS_", "CUDA_DEVICE_ORDER")
"""What the names of those variables of the environment begin with that actors get."""
SECRET = re.compile(r"(TOKEN|KEY|SECRET|PASSWORD)(_|$)")
"""What is never passed on, since Ray shows and logs it."""


class RayConfig(ModelConfig):
    """A model on engine actors; what is no option of Ray's is one of the inner engine."""

    model_config = ConfigDict(extra="allow", frozen=True)

    engine: Literal["ray"] = "ray"
    inner: str = Field(default="vllm", description="the engine that each actor holds")
    workers: int = Field(default=1, ge=1, description="actors, each with a copy of the model")
    address: str | None = Field(
        default=None, description="of a Ray that runs; by default RAY_ADDRESS, else a local one"
    )
    gpus_per_worker: float | None = Field(
        default=None, ge=0, description="by default tensor_parallel_size where Ray has GPUs"
    )
    cpus_per_worker: float = Field(default=1, ge=0)

    @property
    def inner_config(self) -> ModelConfig:
        """The configuration of the engine in each actor.

        Raises:
            ConfigError: no such engine, or an option that it does not have.
        """
        from . import parse_model

        if self.inner in ("ray", "openai"):
            raise ConfigError(f"{self.inner} cannot be the inner engine of ray: it has workers or servers of its own.")
        own = {"inner", "workers", "address", "gpus_per_worker", "cpus_per_worker"}
        given = {name: value for name, value in self.model_dump(exclude_unset=True).items() if name not in own}
        config = parse_model(given | {"engine": self.inner})
        if getattr(config, "data_parallel_size", 1) > 1:
            raise ConfigError("Under ray, say workers=N instead of data_parallel_size=N.")
        return config

    @model_validator(mode="after")
    def _has_inner(self) -> Self:
        _ = self.inner_config
        return self

    @property
    def roles(self) -> tuple[str, ...]:
        """What the model can be."""
        return self.inner_config.roles


class RayEngine:
    """Answers requests with a pool of engine actors."""

    def __init__(self, config: RayConfig) -> None:
        """Find the model; Ray is started with the first request.

        Args:
            config: which model, in how many actors, on which Ray.

        Raises:
            EngineError: Ray or the inner engine is not installed, or there is no such model.
        """
        try:
            import ray
        except ImportError as error:
            raise EngineError("The ray engine needs Ray. Install it with: pip install 'gistbench[ray]'.") from error
        from . import open_engine

        self._config = config
        self._inner_config = config.inner_config
        # Never asked, so never loaded: it knows the model, its context, and what to record.
        self._inner = open_engine(self._inner_config)
        self._version = ray.__version__
        n_running = getattr(self._inner_config, "max_num_seqs", N_RUNNING)
        self._block_size = max(1, -(-n_running * 5 // 4) // BLOCKS_PER_ACTOR)
        self._stream: _Stream | None = None

    @property
    def model(self) -> ModelRef:
        """The model that the actors hold."""
        return self._inner.model

    @property
    def context_tokens(self) -> int | None:
        """The longest prompt and answer together, in tokens."""
        return self._inner.context_tokens

    def generate(self, requests: Iterable[Request]) -> Generator[Outcome]:
        """Answer every request, as blocks of them are finished.

        Raises:
            EngineError: Ray cannot be reached, or the model cannot be loaded.
        """
        if noting_sampling := getattr(self._inner, "noting_sampling", None):
            requests = noting_sampling(requests)
        blocks = _in_blocks(requests, self._block_size)
        in_flight: dict[int, list[Request]] = {}
        # Some more than are worked on, so that an actor with room need not wait for this process.
        limit = self._config.workers * (BLOCKS_PER_ACTOR + 2)
        try:
            while True:
                while len(in_flight) < limit and (block := next(blocks, None)) is not None:
                    self._stream = self._stream or _Stream(self._config, self._inner)
                    index = self._stream.put(block)
                    in_flight[index] = block
                if not in_flight or self._stream is None:
                    return
                index, outcomes = self._stream.next()
                asked = in_flight.pop(index, [])
                yield from outcomes
                lost = {request.key for request in asked} - {outcome.key for outcome in outcomes if outcome.final}
                for key in sorted(lost):
                    yield Outcome(key=key, status="error", problem="The actor gave no outcome for it.")
        finally:
            if in_flight:  # the caller has stopped, or Ray has: what is in flight must not be worked on
                self.close()

    def describe(self) -> dict[str, Any]:
        """Return what the inner engine records, and how many actors of which Ray held it."""
        described = self._inner.describe()
        described["versions"] = {**described.get("versions", {}), "ray": self._version}
        return {
            **described,
            "engine": "ray",
            "inner_engine": self._config.inner,
            "workers": self._config.workers,
            "hardware": self._stream.hardware if self._stream else None,
            "n_gpus": self._config.workers * self._gpus_per_worker(described),
        }

    def _gpus_per_worker(self, described: dict[str, Any]) -> float:
        """Return what each actor keeps, as far as it can be told before Ray is reached."""
        if self._stream is not None:
            return self._stream.gpus_per_worker
        given = self._config.gpus_per_worker
        return described.get("n_gpus", 0) if given is None else given

    def close(self) -> None:
        """End the actors."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._inner.close()


def _in_blocks(requests: Iterable[Request], size: int) -> Iterator[list[Request]]:
    """Yield consecutive requests, cutting between groups rather than within them where a block is at least half full.

    >>> a, b = (Request("", None, (), ModelRef("", "", ""), group=name) for name in "ab")
    >>> [[one.group for one in block] for block in _in_blocks([a, a, a, b, b], 4)]
    [['a', 'a', 'a'], ['b', 'b']]
    """
    block: list[Request] = []
    for _, group in groupby(requests, key=lambda request: request.group):
        if len(block) * 2 >= size:
            yield block
            block = []
        for request in group:
            block.append(request)
            if len(block) == size:
                yield block
                block = []
    if block:
        yield block


def _as_dict(request: Request) -> dict[str, Any]:
    """Return a request as JSON can hold it, without what the stage knows about it."""
    kept = {name: getattr(request, name) for name in ("stage", "messages", "schema", "repeat", "group")}
    return kept | {"model": asdict(request.model), "sampling": asdict(request.sampling)}


def _as_request(read: dict[str, Any]) -> Request:
    """Return the request that `_as_dict` wrote, under the same key.

    >>> one = Request("map", "a user", (Message("user", "Hi."),), ModelRef("m", "1", "default/1"), repeat=2)
    >>> _as_request(json.loads(json.dumps(_as_dict(one)))).key == one.key
    True
    """
    return Request(
        stage=read["stage"],
        about=None,
        messages=tuple(Message(*message) for message in read["messages"]),
        model=ModelRef(**read["model"]),
        sampling=Sampling(**read["sampling"]),
        schema=read["schema"],
        repeat=read["repeat"],
        group=read["group"],
    )


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that actors get: how libraries run, and no secrets.

    >>> passed_on({"VLLM_CPU_KVCACHE_SPACE": "1", "HF_TOKEN": "x", "TOKENIZERS_PARALLELISM": "true", "HOME": "/root"})
    {'VLLM_CPU_KVCACHE_SPACE': '1', 'TOKENIZERS_PARALLELISM': 'true'}
    """
    return {name: text for name, text in environment.items() if name.startswith(PASSED_ON) and not SECRET.search(name)}


class _Stream:
    """A Ray dataset that runs: blocks of requests go in, blocks of outcomes come out."""

    def __init__(self, config: RayConfig, inner: Engine) -> None:
        """Connect to Ray, or start one, and begin.

        Raises:
            EngineError: Ray cannot be reached.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._ray = ray
        self._starts_ray = not ray.is_initialized()
        if self._starts_ray:
            connects = config.address or os.environ.get("RAY_ADDRESS")
            n_cpus = max(os.cpu_count() or 1, -int(-config.workers * config.cpus_per_worker // 1))
            options = {} if connects else {"num_cpus": n_cpus, "include_dashboard": False}
            try:
                ray.init(address=config.address, logging_level=logging.ERROR, log_to_driver=False, **options)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise EngineError(f"Ray cannot be reached or started ({config.address or 'local'}): {error}") from error
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._feed = ray.remote(num_cpus=0, scheduling_strategy=here)(_Feed).remote()
        self._n_put = 0
        n_gpus = config.gpus_per_worker
        if n_gpus is None:
            has_gpus = ray.cluster_resources().get("GPU", 0) > 0
            n_gpus = getattr(config.inner_config, "tensor_parallel_size", 1) if has_gpus else 0
        for kind, each in (("GPU", n_gpus), ("CPU", config.cpus_per_worker)):
            if (there := ray.cluster_resources().get(kind, 0)) < config.workers * each:
                logger.warning(
                    "Ray has %g %ss, and %d workers need %g: some wait until there are more.",
                    there,
                    kind,
                    config.workers,
                    config.workers * each,
                )
        self.gpus_per_worker = n_gpus
        self.hardware = f"{config.workers} x {n_gpus:g} GPU" if n_gpus else f"{config.workers} x cpu"
        self._rows = self._run(config, inner, n_gpus)

    def _run(self, config: RayConfig, inner: Engine, n_gpus: float) -> Iterator[Any]:
        from ray.data import ActorPoolStrategy, DataContext, read_datasource

        context = DataContext.get_current().copy()
        # A row is a block of requests: each goes on at once, and none is merged with others.
        context.target_max_block_size = 1
        context.execution_no_progress_timeout_s = -1  # between two stages nothing comes
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.raise_original_map_exception = True
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        pool = ActorPoolStrategy(
            size=config.workers,
            max_tasks_in_flight_per_actor=BLOCKS_PER_ACTOR,
            max_concurrent_calls_per_actor=BLOCKS_PER_ACTOR,
            enable_true_multi_threading=True,
        )
        with DataContext.current(context):
            blocks = read_datasource(_source(self._feed), override_num_blocks=1, num_cpus=0)
            answers = blocks.map_batches(
                _EngineActor,
                batch_size=1,
                batch_format="pyarrow",
                compute=pool,
                fn_constructor_args=(type(inner), config.inner_config, inner.model, self._feed),
                num_cpus=config.cpus_per_worker,
                num_gpus=n_gpus or None,
                runtime_env={"env_vars": passed_on(os.environ)},
            )
            # Nothing is fetched ahead: the block that would be may never come.
            return iter(answers.iter_batches(batch_size=1, batch_format="pyarrow", prefetch_batches=0))

    def put(self, requests: list[Request]) -> int:
        """Hand in a block; return its number.

        Raises:
            EngineError: the feed is gone.
        """
        try:
            self._ray.get(self._feed.put.remote(self._n_put, json.dumps(list(map(_as_dict, requests)))))
        except self._ray.exceptions.RayError as error:
            raise EngineError(f"Ray has lost the requests: {error}") from error
        self._n_put += 1
        return self._n_put - 1

    def next(self) -> tuple[int, list[Outcome]]:
        """Wait for a block; return its number and the outcomes.

        Raises:
            EngineError: the model cannot be loaded, or Ray has ended.
        """
        try:
            (row,) = next(self._rows).to_pylist()
        except StopIteration:
            raise EngineError("Ray has ended before everything was answered. What was answered is kept.") from None
        except Exception as error:
            raise EngineError(f"Ray cannot run the engine: {_cause(error)}") from error
        self._feed.forget.remote(row["index"])
        return row["index"], [Outcome(**outcome) for outcome in json.loads(row["outcomes"])]

    def close(self) -> None:
        """End the actors, and Ray too where it was started here."""
        self._ray.kill(self._feed)  # the source fails, and the data set's execution with it
        if self._starts_ray:
            self._ray.shutdown()


def _cause(error: BaseException) -> str:
    """Return what an actor said, without Ray's account of where."""
    while (cause := getattr(error, "cause", None) or error.__cause__) is not None:
        error = cause
    return str(error) or type(error).__name__


class _Feed:
    """An actor that holds the blocks that are not answered yet."""

    def __init__(self) -> None:
        import asyncio

        self._blocks: dict[int, str] = {}
        self._n_put = 0
        self._n_begun: dict[int, int] = {}
        self._changed = asyncio.Condition()

    async def put(self, index: int, block: str) -> None:
        """Take in the next block."""
        async with self._changed:
            self._blocks[index] = block
            self._n_put = index + 1
            self._changed.notify_all()

    async def get(self, index: int) -> str:
        """Wait for a block; one that was answered is empty."""
        async with self._changed:
            await self._changed.wait_for(lambda: index < self._n_put)
            return self._blocks.get(index, "[]")

    async def begin(self, index: int) -> int:
        """Return how often a block was begun, this time included; 0 for one that was answered."""
        if index not in self._blocks:
            return 0
        self._n_begun[index] = self._n_begun.get(index, 0) + 1
        return self._n_begun[index]

    async def forget(self, index: int) -> None:
        """Forget a block that was answered."""
        self._blocks.pop(index, None)
        self._n_begun.pop(index, None)


def _source(feed: Any) -> Any:
    """Return the data source that reads a feed, in one task that lasts as long as the data set."""
    import pyarrow as pa
    import ray
    from ray.data import Datasource
    from ray.data.block import BlockMetadata
    from ray.data.datasource import ReadTask

    def read() -> Iterator[pa.Table]:
        index = 0
        while True:
            block = ray.get(feed.get.remote(index))
            yield pa.table({"index": [index], "requests": [block]})
            index += 1

    class Source(Datasource):  # type: ignore[misc]
        def get_name(self) -> str:
            return "Requests"

        def estimate_inmemory_data_size(self) -> None:
            return None

        def get_read_tasks(self, parallelism: int, *args: Any, **options: Any) -> list[ReadTask]:
            return [ReadTask(read, BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None))]

    return Source()


class _EngineActor:
    """An actor that holds one engine and answers blocks, several at once."""

    def __init__(self, engine_class: Any, config: ModelConfig, model: ModelRef, feed: Any) -> None:
        engine = engine_class(config)
        if engine.model != model:
            raise EngineError(
                f"This node has {engine.model} where {model} is asked. Put the same weights on every node."
            )
        self._engine = SharedEngine(engine)
        self._feed = feed

    def __call__(self, batch: Any) -> Any:
        import pyarrow as pa
        import ray

        (row,) = batch.to_pylist()
        requests = [_as_request(read) for read in json.loads(row["requests"])]
        n_begun = ray.get(self._feed.begin.remote(row["index"]))
        outcomes: list[Outcome] = []
        if n_begun > MAX_DEATHS:
            problem = f"It was in flight when {MAX_DEATHS} actors died."
            outcomes = [Outcome(key=request.key, status="error", problem=problem) for request in requests]
        elif n_begun:
            outcomes = self._answer(requests)
        return pa.table({"index": [row["index"]], "outcomes": [json.dumps(list(map(asdict, outcomes)))]})

    def _answer(self, requests: list[Request]) -> list[Outcome]:
        is_sound = False
        try:
            outcomes = self._engine.answer(requests)
            is_sound = True
        except EngineError:
            is_sound = True  # it cannot run at all, and says why
            raise
        finally:
            if not is_sound:
                # An engine that broke answers nothing more: Ray starts another and gives it what was in flight.
                os._exit(1)
        return outcomes
