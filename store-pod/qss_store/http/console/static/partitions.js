// The partition map: pods x partitions. A cell that changes its role flashes; a click shows the replica.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact-3.1.1.js";
import { bytes, clock, count, duration, plural, time } from "./formats.js";

const LETTERS = { active: "A", standby: "S", learner: "L" };

export function Partitions({ feed }) {
  const [chosen, setChosen] = useState(null);
  const { instances, assignment } = feed.metadata;
  const answering = Object.values(feed.pods);
  return html`
    <p class="legend" aria-hidden="true">
      <span class="key active">A active</span> <span class="key standby">S standby</span> <span class="key learner">L learner</span>
      <span class="key away">away</span></p>
    <div class="map">
      ${instances.map((one) => html`<${Pod} key=${one.pod} name=${one.pod} instance=${one} status=${feed.pods[one.pod]} silent=${feed.silent[one.pod]} isOld=${feed.isOld}
        assignment=${assignment} answering=${answering} choose=${(number) => setChosen({ pod: one.pod, number })} />`)}
    </div>
    <section aria-labelledby="events"><h2 id="events">Changes</h2>
      <ol class="events" aria-live="polite">${feed.events.map((one) => html`<li key=${one.id}><time>${clock(one.at)}</time> ${one.text}</li>`)}</ol>
      ${feed.events.length === 0 && html`<p class="quiet">None since the page was opened. When a pod stays away, its standbys take over here.</p>`}
    </section>
    ${chosen && html`<${Replica} ...${chosen} feed=${feed} close=${() => setChosen(null)} />`}`;
}

function Pod({ name, instance, status, silent, isOld, assignment, answering, choose }) {
  const roles = status ? Object.values(status.replicas).map((one) => one.role) : [];
  const number = (role) => roles.filter((one) => one === role).length;
  const told = status
    ? `${isOld ? "was: " : ""}${number("active")} active, ${number("standby")} standby${status.isLeaving ? ", leaving" : status.ready ? "" : ", not ready"}`
    : (silent ?? "has not answered yet");
  const size = status ? Object.values(status.replicas).reduce((sum, one) => sum + one.dataBytes, 0) : null;
  return html`
    <section class=${`card pod ${status ? "" : "gone"}`} aria-label=${`Pod ${name}: ${told}`}>
      <h2>${name}</h2>
      <p class="quiet">${told}${size !== null && `, ${bytes(size)}`}${status?.volume && `, ${bytes(status.volume.roomBytes)} free`}</p>
      <ul class="cells">
        ${assignment.map((one) => html`<${Cell} key=${one.partition} number=${one.partition} pod=${name} ordinal=${instance.ordinal}
          replica=${status?.replicas[one.partition]} configuration=${one} isOld=${isOld} taken=${takenOver(answering, one)} choose=${choose} />`)}
      </ul>
    </section>`;
}

// Whether a pod that answers leads the partition by now.
const takenOver = (answering, { partition, epoch }) =>
  answering.some((pod) => pod.replicas[partition]?.role === "active" && pod.replicas[partition].epoch >= epoch);

function Cell({ number, ordinal, replica, configuration, isOld, taken, choose }) {
  const role = replica?.role ?? null;
  const before = useRef(undefined);
  const [flash, setFlash] = useState(0);
  useEffect(() => {
    if (before.current !== undefined && before.current !== role) setFlash((n) => n + 1);
    before.current = role;
  }, [role]);
  if (!replica && !configuration.replicas.includes(ordinal)) {
    return html`<li class="cell empty" aria-hidden="true"><span class="number">${number}</span></li>`;
  }
  if (!replica) {
    const was = configuration.active === ordinal && !taken ? "active" : "replica";
    return html`<li class="cell away"><span class="sr">partition ${number}, ${was}, away</span><span aria-hidden="true"><span class="number">${number}</span><br />away</span></li>`;
  }
  const was = isOld ? "was " : "";
  const lag = replica.lagOffsets > 0 ? `${count(replica.lagOffsets)} behind` : replica.lagSeconds === null ? "not level" : "level";
  const label = `partition ${number}, ${was}${role}, epoch ${replica.epoch}, ${replica.state}, ${lag}, ${bytes(replica.dataBytes)}`;
  return html`
    <li class=${`cell ${isOld ? "" : role} ${replica.state} ${flash ? `flash${flash % 2}` : ""}`}>
      <button onClick=${() => choose(number)} aria-label=${label}>
        <span class="number">${number}</span> <b>${was}${LETTERS[role] ?? "?"}</b>
        <small>epoch ${replica.epoch}</small><small>${was}${replica.state === "serving" ? lag : replica.state}</small><small>${bytes(replica.dataBytes)}</small>
      </button>
    </li>`;
}

function Replica({ pod, number, feed, close }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  const replica = feed.pods[pod]?.replicas[number];
  const facts = replica && [
    feed.isOld && ["As of", clock(feed.answeredAt)],
    ["Role", replica.role], ["State", replica.state], ["Epoch", replica.epoch],
    ["Applied offset", count(replica.appliedOffset)], ["End of the log", count(replica.endOffset)],
    ["Behind", `${plural(replica.lagOffsets, "entry", "entries")}, ${replica.lagSeconds === null ? "never level since it started" : duration(replica.lagSeconds * 1000)}`],
    ["Sequence", count(replica.sequence)], ["Stream time", replica.streamTime >= 0 ? time(replica.streamTime) : "-"],
    ["Data", bytes(replica.dataBytes)], ["Failure", replica.error ?? "none"],
    ["Position", Object.entries(replica.position ?? {}).map(([topic, offsets]) => html`<div>${topic}: ${Object.entries(offsets).map(([n, offset]) => `${n}: ${offset}`).join(", ")}</div>`)],
  ];
  return html`
    <dialog ref=${dialog} onClose=${close} aria-labelledby="replica">
      <h2 id="replica">Partition ${number} on ${pod}</h2>
      ${facts ? html`<dl>${facts.filter(Boolean).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>` : html`<p>The pod does not have it any more, or does not answer.</p>`}
      <form method="dialog"><button>Close</button></form>
    </dialog>`;
}
