"""Build everything in the order in which one part needs another, up to the report ``ready``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import torch

from trainer import alone, device, formats, identities, rng
from trainer.cadence import Saves
from trainer.checkpoint import Store
from trainer.config import read_policy_arms, read_sections
from trainer.contract.settings import TrainerSections
from trainer.data import Arm
from trainer.errors import SettingsError
from trainer.keeper import Keeper
from trainer.launch import Launch
from trainer.mixer import Mixer
from trainer.model import Transformer
from trainer.optimizer import AdamW, learning_rate
from trainer.orders import OrderBook, OrdersFile
from trainer.orphan import OrphanWatch
from trainer.phases import rejoin
from trainer.reports import Reports, say
from trainer.resume import Terms, load, newest
from trainer.run import Run
from trainer.signals import Requests, install
from trainer.sources import SourceError, open_documents
from trainer.state import State


def prepare(launch: Launch, reports: Reports, requests: Requests) -> Run:
    """A run that is ready for its next step, with signal handlers in and ``ready`` reported.

    Raises TrainerError, or CheckpointFormatError for a checkpoint that cannot be resumed.
    """
    reports.send("doing", what="load", step=launch.resumed_step)
    sections = read_sections(launch)
    formats.check(sections.model.shape, sections.checkpoint)
    compute = device.choose(sections.train)
    arms = _open_arms(launch.run, sections)
    made_by = identities.collect(sections, arms, compute)

    rng.seed_everything(sections.train.seed)
    model = Transformer(sections.model.shape)
    resume = launch.resume or (newest(launch.checkpoints) if launch.alone else None)
    if resume is None:
        model.initialise(sections.train.seed)
    model.to(compute.device)
    state = State(
        model=model,
        optimizer=AdamW(model.parameters(), sections.train.weight_decay),
        mixer=Mixer(arms, mix=sections.data.mix, seed=sections.train.seed),
        rate=partial(learning_rate, settings=sections.train),
    )
    resumed = None
    if resume is not None:
        resumed = load(resume, state, made_by, _terms(launch, sections))
        if resumed.device_changes:
            made_by["device_changes"] = list(resumed.device_changes)
        for remark in resumed.remarks:
            say(f"resumed from {resume.name}, but {remark}")

    orders: OrderBook = _orders(launch, sections)
    complaint = orders.look()
    if complaint:
        say(complaint)
    state.phase = rejoin(state.phase, orders.now, state.step)

    write = formats.writer(sections.checkpoint, launch.run, state.shapes())
    install(requests)
    saved = resumed.saved if resumed else None
    run = Run(
        sections=sections,
        compute=compute,
        state=state,
        forward=torch.compile(model) if sections.train.compile else model,
        reports=reports,
        orders=orders,
        requests=requests,
        saves=Saves(sections.checkpoint),
        keeper=Keeper(
            Store(launch.checkpoints, write),
            made_by,
            reports,
            lambda: requests.stop,
            saved,
            sections.checkpoint.background,
        ),
        orphan=None if launch.alone else OrphanWatch(launch.run / "run.lock", launch.orphan_after),
        began=state.step,
        expected=resumed.expected if resumed else None,
        digest=resumed.digest if resumed else None,
        skip=launch.skip,
    )
    reports.send(
        "ready",
        pid=os.getpid(),
        n_params=state.n_params,
        step=state.step,
        companion=True,
        **({"omitted": sorted(launch.omit)} if resumed and launch.omit else {}),
    )
    if sections.train.compile:
        run.doing("compile")
    return run


def _terms(launch: Launch, sections: TrainerSections) -> Terms:
    return Terms(
        strict=sections.train.strict,
        bare=launch.bare,
        device_change=sections.train.device_change or launch.device_change,
        omit=launch.omit,
        roots=formats.roots_of(sections.checkpoint, launch.run),
        later=True,
    )


def _open_arms(run: Path, sections: TrainerSections) -> list[Arm]:
    """All sources; one that cannot be opened now fails its pulls later, unless none can."""
    shape, arms, problems = sections.model.shape, [], []
    for name, source in sections.sources.items():
        try:
            documents = open_documents(source, run, shape.vocabulary, shape.context)
        except SourceError as error:
            problems.append(str(error))
            continue
        arms.append(
            Arm(
                name,
                documents,
                length=shape.context + 1,
                seed=sections.train.seed,
                holdout=sections.evaluate.holdout,
            )
        )
    if not arms:
        raise SettingsError("cannot train: no source can be opened: " + "; ".join(problems))
    for problem in problems:
        say(problem)
    return arms


def _orders(launch: Launch, sections: TrainerSections) -> OrderBook:
    if not launch.alone:
        return OrdersFile(launch.orders)
    policy = read_policy_arms(launch.run)
    return alone.UniformOrders(alone.choose_arms(tuple(sections.sources), policy))
