// Asks the store: a form for each kind of question, its answer, and the question for other programs.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact-3.1.1.js";
import { ask, asksToken } from "./api.js";
import { openApi } from "./feed.js";
import { Answer } from "./answers.js";
import { asCommand, asCurl, asPython } from "./other-programs.js";
import { KINDS, fieldOf, kindsOf, missingOf, requestOf } from "./questions.js";
import { Told, Waiting, linkTo } from "./formats.js";

const ASK_MS = 15000;
const NOTHING = { link: null, pages: [], failure: null, asked: null };

function startOf(kindName) {
  const kind = KINDS[kindName];
  const values = { executionInfo: "true" };
  for (const name of kind.fields) if (fieldOf(name).start) values[name] = fieldOf(name).start;
  return { ...values, ...kind.start };
}

// The fields in a link; null for a link that names a kind of question alone.
function linked(given) {
  const fields = [...given].filter(([name]) => name !== "kind");
  return fields.length ? Object.fromEntries(fields) : null;
}

export function Ask({ given, feed }) {
  const { definition } = feed.metadata;
  const kinds = kindsOf(definition.type);
  const asked = given.get("kind");
  const isKnown = asked === null || kinds.some(([name]) => name === asked);
  const kindName = isKnown && asked !== null ? asked : kinds[0][0];
  const link = given.toString();
  const fromLink = useMemo(() => (isKnown ? linked(given) : null), [link]);
  const [values, setValues] = useState(fromLink ?? startOf(kindName));
  const [shown, setShown] = useState(NOTHING);
  const [isAsking, setAsking] = useState(false);
  const schema = useSchema(kindName === "query", values.type || "KeyQuery");
  const latest = useRef(0);
  const kept = useRef(null);
  // An answer belongs to the link that asked for it: under another one it is not shown.
  const { pages, failure, asked: askedValues } = shown.link === link ? shown : NOTHING;

  // A link without a question has a new form.
  useEffect(() => {
    latest.current += 1;
    setAsking(false);
    setValues(fromLink ?? kept.current ?? startOf(kindName));
    kept.current = null;
  }, [link]);

  // A link opens its question and asks it.
  useEffect(() => {
    if (fromLink && (kindName !== "query" || schema.one)) send(fromLink, null, []);
  }, [link, schema.one !== null]);

  const choose = (name) => {
    kept.current = { ...startOf(name), ...(values.key && KINDS[name].fields.includes("key") ? { key: values.key } : {}) };
    location.hash = linkTo("ask", `kind=${name}`);
  };
  const set = (name, value) => setValues((old) => ({ ...old, [name]: value }));

  async function send(of, cursor, before) {
    const turn = ++latest.current;
    setAsking(true);
    setShown({ link, pages: before, failure: null, asked: of });
    try {
      const { method, path, body } = requestOf(kindName, of, definition, { cursor, schema: schema.one });
      const answer = await ask(path, { method, body, timeoutMs: Math.max(ASK_MS, (Number(of.timeout) || 0) * 1000 + 5000), advice: "Ask again, or give the question a longer timeout." });
      if (turn === latest.current) setShown({ link, pages: [...before, answer], failure: null, asked: of });
    } catch (failed) {
      if (turn === latest.current) setShown({ link, pages: before, failure: failed, asked: of });
    }
    if (turn === latest.current) setAsking(false);
  }

  const submit = (event) => {
    event.preventDefault();
    const next = `kind=${kindName}&${new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""))}`;
    if (next === link) send(values, null, []);
    else location.hash = linkTo("ask", next);
  };
  const answer = pages.at(-1);
  const cursor = answer?.data?.cursor;
  return html`
    ${!isKnown && html`<p class="failure" role="alert">A store of type ${definition.type} has no question "${asked.slice(0, 80)}": choose one from the list.</p>`}
    <div class="ask">
      <form class="card" onSubmit=${submit} aria-label="The question">
        <label class="field">Question
          <select id="kind" value=${kindName} onChange=${(event) => choose(event.target.value)}>${kinds.map(([name, kind]) => html`<option value=${name}>${kind.label}</option>`)}</select></label>
        <${Fields} names=${KINDS[kindName].fields} values=${values} set=${set} />
        ${kindName === "query" && html`<${QueryFields} schema=${schema} values=${values} set=${set} />`}
        <details><summary>Options</summary><${Fields} names=${KINDS[kindName].options} values=${values} set=${set} /></details>
        <button class="primary" disabled=${isAsking}>${isAsking ? "Asking ..." : "Ask"}</button>
      </form>
      <section class="card answer" aria-label="The answer">
        <${Told} failure=${failure} />
        ${isAsking && html`<${Waiting} key=${latest.current} />`}
        ${answer ? html`<${Answer} key=${kindName} answer=${answer} />
          ${(cursor || pages.length > 1) && html`<p class="pager">
            <button disabled=${pages.length < 2 || isAsking} onClick=${() => setShown({ ...shown, pages: pages.slice(0, -1) })}>Page before</button>
            <span>page ${pages.length}</span>
            <button disabled=${!cursor || isAsking} onClick=${() => send(askedValues, cursor, pages)}>Next page</button></p>`}`
          : !failure && html`<p class="quiet">The answer comes here.</p>`}
      </section>
      <${Elsewhere} kindName=${kindName} values=${values} definition=${definition} schema=${schema.one} />
    </div>`;
}

function Fields({ names, values, set }) {
  return html`<div class="fields">${names.map((name) => {
    const one = fieldOf(name);
    const change = (event) => set(name, one.truth ? String(event.target.checked) : event.target.value);
    if (one.truth) return html`<label key=${name} class="check"><input type="checkbox" name=${name} checked=${values[name] === "true"} onChange=${change} /> ${one.label}</label>`;
    if (one.choices) return html`<label key=${name} class="field">${one.label}<select name=${name} value=${values[name] ?? one.choices[0]} onChange=${change}>${one.choices.map((choice) => html`<option value=${choice}>${choice || "as the store says"}</option>`)}</select></label>`;
    if (one.lines) return html`<label key=${name} class="field wide">${one.label}<textarea name=${name} rows="4" required=${one.required} value=${values[name] ?? ""} onInput=${change} /></label>`;
    return html`<label key=${name} class=${one.wide ? "field wide" : "field"}>${one.label}
      <input name=${name} value=${values[name] ?? ""} placeholder=${one.hint ?? ""} inputmode=${one.number ? "numeric" : undefined} pattern=${one.number ? "[0-9]*" : undefined} required=${one.required} autocomplete="off" spellcheck="false" onInput=${change} /></label>`;
  })}</div>`;
}

// --- Any query: the form follows the OpenAPI document

function useSchema(isWanted, type) {
  const [schemas, setSchemas] = useState(null);
  const [failure, setFailure] = useState(null);
  useEffect(() => {
    if (isWanted && !schemas) openApi().then((document) => setSchemas(document.components.schemas), setFailure);
  }, [isWanted]);
  const types = (schemas?.Query.anyOf ?? []).map((one) => one.$ref.split("/").at(-1));
  const one = isWanted && schemas ? (schemas[type] ?? { properties: {} }) : null;
  return { types, one, schemas, failure };
}

function QueryFields({ schema, values, set }) {
  const type = values.type || "KeyQuery";
  if (!schema.one) return html`<${Told} failure=${schema.failure} /><p class="quiet">Reading the OpenAPI document ...</p>`;
  return html`
    <label class="field wide">Type <select name="type" value=${type} onChange=${(event) => set("type", event.target.value)}>
      ${schema.types.map((name) => html`<option value=${name}>${name}</option>`)}<option value="other">another type, as JSON</option></select></label>
    ${type === "other"
      ? html`<label class="field wide">The query as JSON<textarea name="members" rows="5" value=${values.members ?? '{"type": "TopKQuery", "by": "n", "k": 3}'} onInput=${(event) => set("members", event.target.value)} /></label>`
      : html`<p class="quiet">${schema.one.description}</p><div class="fields">${Object.entries(schema.one.properties).filter(([name]) => name !== "type").map(([name, property]) => {
        const id = `member.${name}`;
        const choices = (property.$ref && schema.schemas[property.$ref.split("/").at(-1)]?.enum) || property.enum;
        if (property.type === "boolean") return html`<label key=${id} class="check"><input type="checkbox" name=${id} checked=${values[id] === "true"} onChange=${(event) => set(id, String(event.target.checked))} /> ${name}</label>`;
        if (choices) return html`<label key=${id} class="field">${name}<select name=${id} value=${values[id] ?? property.default ?? ""} onChange=${(event) => set(id, event.target.value)}>${choices.map((choice) => html`<option value=${choice}>${choice}</option>`)}</select></label>`;
        return html`<label key=${id} class="field">${name}<input name=${id} value=${values[id] ?? ""} required=${schema.one.required?.includes(name)} autocomplete="off" spellcheck="false" onInput=${(event) => set(id, event.target.value)} /></label>`;
      })}</div>`}`;
}

// --- The question for other programs

function Elsewhere({ kindName, values, definition, schema }) {
  const [said, setSaid] = useState("");
  const missing = missingOf(kindName, values, schema);
  if (missing.length || (kindName === "query" && !schema)) {
    return html`<section class="card elsewhere"><p class="quiet">The question as curl, qss and Python comes here once the form has ${missing.length ? missing.join(", ") : "its fields"}.</p></section>`;
  }
  let texts;
  try {
    const request = requestOf(kindName, values, definition, { schema });
    texts = { curl: asCurl(request, asksToken()), qss: asCommand(kindName, values, definition, schema, asksToken()), Python: asPython(kindName, values, definition, schema, asksToken()) };
  } catch (error) {
    return html`<section class="card elsewhere"><${Told} failure=${error} /></section>`;
  }
  const copy = async (name, text) => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid(`${name} is copied.`);
    } catch {
      setSaid("The browser does not let the page copy: select the text.");
    }
  };
  return html`
    <section class="card elsewhere" aria-labelledby="elsewhere"><h2 id="elsewhere">The same question elsewhere</h2>
      ${Object.entries(texts).map(([name, text]) => html`<div class="snippet" key=${name}><span>${name}</span><pre class="scroll" tabindex="0">${text}</pre><button onClick=${() => copy(name, text)} aria-label=${`Copy ${name}`}>Copy</button></div>`)}
      <p><button onClick=${() => copy("The link", location.href)}>Copy a link to this question</button> <span role="status">${said}</span></p>
    </section>`;
}
