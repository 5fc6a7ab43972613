"""Rules of replicas and plans that the simulation takes out, each by itself.

`make simulate PLANTED=1` takes each of them out, and a seed has to fail.
"""

from qss_testing.plants.planted import Change, Plant

_STORE = "store-pod/qss_store"
_LOG = f"{_STORE}/replication/log.py"
_LEASE = f"{_STORE}/replication/lease.py"
_CHANGELOG = f"{_STORE}/replicas/changelog/changelog.py"
_PEERS = f"{_STORE}/replicas/peers"
_PLANNING = "operator/qss_operator/planning"
_EPOCHS = f"{_PLANNING}/membership/epochs.py"
_EVERYWHERE = "    everywhere = min(durable.get(member, Offset(0)) for member in waited_for)\n"

REPLICA_PLANTS = (
    Plant.of(
        "an active acknowledges before its own sync",
        _LOG,
        "    waited_for = log.counted.union(log.configuration.in_sync)\n",
        "    waited_for = log.counted.union(log.configuration.in_sync)\n"
        "    waited_for = waited_for - {log.pod} or waited_for\n",
    ),
    Plant.of(
        "an active waits for one standby of two",
        _LOG,
        _EVERYWHERE,
        "    ends = sorted(durable.get(member, Offset(0)) for member in waited_for)\n"
        "    everywhere = ends[1] if len(ends) > 2 else ends[0]\n",
    ),
    Plant.of(
        "an active waits for no standby",
        _LOG,
        _EVERYWHERE,
        "    everywhere = max(durable.get(member, Offset(0)) for member in waited_for)\n",
    ),
    Plant.of(
        "a learner that was asked for is not waited for",
        _LOG,
        "    waited_for = log.counted.union(log.configuration.in_sync)\n",
        "    waited_for = log.configuration.in_sync\n",
    ),
    Plant.of(
        "an active forgets in a restart which learner it asked for",
        _CHANGELOG,
        "            counted=_asked_for(meta, configuration.epoch),\n",
        "",
    ),
    Plant.of(
        "a learner gets entries that the active has not synced",
        f"{_STORE}/replication/active.py",
        "    return log.durable.get(log.pod, log.start)\n",
        "    return log.end\n",
    ),
    Plant.of(
        "a follower takes entries of an older epoch",
        f"{_STORE}/replication/follower.py",
        "    if sent == held and log.role not in (None, Role.ACTIVE):\n",
        "    if log.role not in (None, Role.ACTIVE):\n",
    ),
    Plant.of(
        "a follower takes a watermark for entries that it did not compare",
        f"{_STORE}/replication/follower.py",
        "        watermark=min(append.watermark, matched),\n",
        "        watermark=min(append.watermark, max(log.end, matched)),\n",
    ),
    Plant(
        "a follower cuts entries below the watermark",
        (
            Change(
                f"{_STORE}/replication/follower.py",
                "    if cut_from is not None and cut_from < log.watermark:\n"
                "        raise _unlike(log, cut_from)\n",
                "",
            ),
            Change(_LOG, "    if offset < log.watermark:\n", "    if False:\n"),
        ),
    ),
    Plant.of(
        "a new epoch is answered before it is durable",
        f"{_PEERS}/follower_service.py",
        "                self._parts.write_configuration(held)\n"
        "            await changelog.sync()\n",
        "                self._parts.write_configuration(held)\n"
        "            changelog.kept_epoch = held.epoch\n",
    ),
    Plant.of(
        "a new active answers before it has applied its log",
        f"{_PEERS}/active_service.py",
        "        return self._barrier_at is not None and self._changelog.log.applied <= "
        "self._barrier_at\n",
        "        return False\n",
    ),
    Plant.of(
        "a new active appends no Barrier",
        _LOG,
        "    return log.role is Role.ACTIVE and epoch > FIRST_EPOCH and last_epoch < epoch\n",
        "    return False\n",
    ),
    Plant.of(
        "a lease counts from its answer",
        f"{_PEERS}/follower_progress.py",
        "supported(self._epoch.lease, pod, result.epoch, sent_s, lease_s)",
        "supported(self._epoch.lease, pod, result.epoch, self._now_s(), lease_s)",
    ),
    Plant.of(
        "a promise has no margin for clocks that differ",
        _LEASE,
        "MARGIN = 1.1\n",
        "MARGIN = 1.0\n",
    ),
    Plant.of(
        "a follower forgets its promises in a restart",
        f"{_PEERS}/follower_service.py",
        "Support({}) if is_new else started(now_s, promised_s)",
        "Support({})",
    ),
    Plant.of(
        "a standby that has not applied the watermark is level",
        f"{_PEERS}/freshness.py",
        "        return self._sure_s if applied >= self._watermark else self._level_s\n",
        "        return self._sure_s\n",
    ),
    Plant.of(
        "a reader gets an older state than it has seen",
        f"{_STORE}/reads/routing/admission.py",
        "    if view.sequence < since:\n",
        "    if False:\n",
    ),
    Plant(
        "a learner answers reads",
        (
            Change(
                f"{_STORE}/reads/routing/admission.py",
                "    if replica.role is Role.LEARNER:\n",
                "    if False:\n",
            ),
            Change(
                f"{_STORE}/reads/routing/admission.py",
                "    if view.sequence < since:\n",
                "    if False:\n",
            ),
        ),
    ),
    Plant.of(
        "a replica that is not in sync is promoted",
        f"{_PLANNING}/membership/failover.py",
        "        for pod in entry.in_sync\n        if pod != entry.active\n",
        "        for pod in entry.replicas\n        if pod != entry.active\n",
    ),
    Plant.of(
        "a learner is taken in before it is caught up",
        _EPOCHS,
        "        for pod in active.caught_up\n",
        "        for pod in entry.replicas\n",
    ),
    Plant(
        "a standby that lost its volume counts as in sync",
        (
            Change(
                _EPOCHS,
                "        if (report := reports.get(pod)) is not None and has_no_data(report, "
                "entry.partition)\n",
                "        if False\n",
            ),
            Change(
                f"{_PLANNING}/missing_data.py",
                "        and report.store_id is None\n        and held_by(known, pod)\n",
                "        and False\n",
            ),
            Change(
                f"{_PLANNING}/missing_data.py",
                "        lacking = [one for one in in_sync[pod.ordinal] if one not in held]\n",
                "        lacking = []\n",
            ),
        ),
    ),
    Plant.of(
        "an operator believes an older status",
        f"{_PLANNING}/disk_claims.py",
        "    return held.epoch >= published.epoch and held != published\n",
        "    return False\n",
    ),
    Plant.of(
        "pods are told an assignment that was not published",
        "operator/qss_operator/reconcile/reconciler.py",
        "                await self._publish_assignment(step, observation)\n",
        "                try:\n"
        "                    await self._publish_assignment(step, observation)\n"
        "                except ConflictError:\n"
        "                    pass\n",
    ),
    Plant.of(
        "a change of a configuration keeps its epoch",
        _EPOCHS,
        "        return replace(entry, epoch=_after(entry), in_sync=left)\n    # An active that",
        "        return replace(entry, in_sync=left)\n    # An active that",
    ),
    Plant(
        "a plan forgets to tell the pods",
        (
            Change(
                f"{_PLANNING}/plan.py",
                "        or not holds(report, assignment.partitions)\n",
                "",
            ),
            Change(f"{_PLANNING}/plan.py", "        not is_told\n", "        sent is None\n"),
        ),
    ),
)
