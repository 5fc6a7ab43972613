"""Rules of batches that the simulation takes out, each by itself.

`make simulate PLANTED=1` takes each of them out, and a seed has to fail.
"""

from qss_testing.plants.planted import Change, Plant

_STORE = "store-pod/qss_store"
_COORDINATOR = f"{_STORE}/transactions/coordinator.py"
_PARTICIPANT = f"{_STORE}/transactions/participant.py"
_STAGED = f"{_STORE}/transactions/staged.py"
_COORDINATION = f"{_STORE}/writes/coordinator_service.py"
_PARTICIPATION = f"{_STORE}/writes/participant_service.py"

BATCH_PLANTS = (
    Plant.of(
        "a sweep drops chunks without the coordinator's word",
        f"{_STORE}/writes/sweeper.py",
        '            if (await self._resolve(chunk)).verdict == "dropped":\n',
        "            if True:\n",
    ),
    Plant(
        "a deposed coordinator has chunks dropped",
        (
            Change(
                _COORDINATION,
                "        replica, coordinator = active_coordinator(self._pod)\n"
                "        replica.acting.check(request.epoch)\n",
                "        coordinator = self._pod.registry.replicas[0].machine.coordinator\n",
            ),
            Change(
                _COORDINATOR,
                "        if writer_epoch > known:\n",
                "        if False:\n",
            ),
        ),
    ),
    Plant.of(
        "an abort drops the chunks of all runs",
        _STAGED,
        "        return (chunk.ordinal, chunk.writer_epoch) == (ordinal, "
        "abort.writer_epoch)\n"
        "    return chunk.writer_epoch <= abort.writer_epoch and chunk.ordinal >= ordinal",
        "        return chunk.ordinal == ordinal\n    return chunk.ordinal >= ordinal",
    ),
    Plant.of(
        "an abort does not close its run",
        _COORDINATION,
        "        await outcome_of(replica, CloseWriter(writer=name, writer_epoch=writer_epoch))\n",
        "",
    ),
    Plant(
        "an abort is acted on after the decision",
        (
            Change(
                _COORDINATOR,
                "        return decided is not None and decided.writer_epoch == writer_epoch\n",
                "        return False\n",
            ),
            Change(
                _COORDINATOR,
                "        if decision is None or decision.writer != name:\n",
                "        if True:\n",
            ),
        ),
    ),
    Plant.of(
        "a decision is not checked again where it stands in the log",
        _COORDINATOR,
        "        held = self.check_run(decision.writer, decision.writer_epoch, "
        "decision.generation)\n        self.check_order(held, decision.batch)\n",
        "        held = self.writer(decision.writer)\n",
    ),
    Plant.of(
        "a slice is refused by its batch number without the generation",
        _PARTICIPANT,
        "        if last and (stage.generation, stage.batch) <= (last.generation, last.batch):\n",
        "        if last and stage.batch <= last.batch:\n",
    ),
    Plant.of(
        "a commit applies what is staged instead of what is decided",
        _PARTICIPANT,
        "        return self.staged.listed(commit.writer, ordinal, commit.writer_epoch, listed)\n",
        "        return [\n"
        "            one for one in self.staged.values()\n"
        "            if (one.writer, one.ordinal) == (commit.writer, ordinal)\n"
        "        ]\n",
    ),
    Plant.of(
        "a replayed batch is acknowledged before it is complete",
        _COORDINATION,
        "            await self._logged_decision(replica)\n"
        "            await self.driver.finish()\n",
        "            await self._logged_decision(replica)\n",
    ),
    Plant.of(
        "a run opens before the decided batch is complete",
        _COORDINATION,
        "        await self.driver.finish()\n        held = coordinator.writer(name)\n",
        "        held = coordinator.writer(name)\n",
    ),
    Plant.of(
        "a take-over goes on in the generation before",
        f"{_STORE}/transactions/writers.py",
        "        generation=held.generation if same_query else held.generation + 1,\n",
        "        generation=held.generation,\n",
    ),
    Plant.of(
        "a coordinator forgets its decision in a restart",
        _COORDINATOR,
        "        if DECISION in rows:\n",
        "        if False:\n",
    ),
    Plant.of(
        "a coordinator says that a batch is complete when it is decided",
        _COORDINATOR,
        "        return self.decision if self.decided > self.completed else None\n",
        "        return None\n",
    ),
    Plant.of(
        "a repeated commit is answered before readers see the batch",
        _PARTICIPATION,
        "            shown = replica.current_view.reaches(part.sequence)\n"
        "            return AppendWait(replica, asyncio.create_task(shown))\n",
        "            return None\n",
    ),
    Plant.of(
        "a partition takes part while it lacks a slice",
        _PARTICIPANT,
        "        check_newest(writer, writer_epoch, self.staged.values(), last)\n"
        "        return self.staged.listed(writer, ordinal, writer_epoch, chunks)\n",
        "        return []\n",
    ),
    Plant(
        "a commit skips a sequence",
        (
            Change(
                _PARTICIPANT,
                "        if commit.sequence != self.sequence + 1:\n",
                "        if False:\n",
            ),
            Change(
                _PARTICIPATION,
                "            if request.sequence is not None:\n",
                "            if False:\n",
            ),
        ),
    ),
    Plant(
        "a repeated slice is staged twice",
        (
            Change(
                _PARTICIPANT,
                "        if not self.check_stage(stage):\n            return {}\n",
                "        self.check_stage(stage)\n",
            ),
            Change(
                _PARTICIPANT,
                "        if last and (stage.generation, stage.batch) <= "
                "(last.generation, last.batch):\n",
                "        if False:\n",
            ),
        ),
    ),
    Plant.of(
        "a writer epoch is allotted twice after a fail-over",
        _COORDINATOR,
        "WriterEpoch(max(self.last_epoch, epoch * _EPOCH_STRIDE, entry.above) + 1)\n",
        "WriterEpoch(1)\n",
    ),
    Plant.of(
        "a commit is shown before its rows are durable",
        f"{_STORE}/replicas/apply/apply_loop.py",
        "            late = self._written[1]\n            await self._changelog.sync()\n",
        "            late = self._written[1]\n",
    ),
    Plant.of(
        "a commit of several slices does not say that it has begun",
        f"{_STORE}/storage/commit_rows/commit_writer.py",
        "                    self._mark_applying(offset)\n",
        "",
    ),
    Plant.of(
        "readers see an unfinished commit after a restart",
        f"{_STORE}/replicas/apply/replica_recovery.py",
        "(() if found.is_commit_unfinished else (RecoveryStep.SHOW_STATE,))",
        "(RecoveryStep.SHOW_STATE,)",
    ),
    Plant.of(
        "a snapshot is taken while a commit is applied",
        f"{_STORE}/replicas/apply/checkpoints.py",
        "        async with self._parts.changing:\n"
        "            pins[learner] = (changelog.log.applied, self._pinned_until_s())\n"
        "            await run_blocking(engine.checkpoint, path)\n",
        "        await run_blocking(engine.checkpoint, path)\n",
    ),
    Plant.of(
        "rows move to another format while a commit is applied",
        f"{_STORE}/replicas/format_change.py",
        "        async with self._parts.changing.of_format():\n"
        "            families, view = self._views.families, self._views.view\n",
        "        if True:\n            families, view = self._views.families, self._views.view\n",
    ),
    Plant.of(
        "entries that are written during a sync count as durable",
        f"{_STORE}/replicas/changelog/changelog.py",
        "logs.acknowledge(self.log, self.log.pod, syncing.end)",
        "logs.acknowledge(self.log, self.log.pod, self.log.end)",
    ),
)
