// The kinds of question: their fields, and each as an HTTP request. Numbers keep the digits of the form: no number is parsed.

import { segment } from "./api.js";
import { isJson, membersOf } from "./json-text.js";

const field = (label, rest = {}) => ({ label, ...rest });
const TIME = { hint: "ms, RFC 3339, date" };
const FIELDS = {
  key: field("Key", { required: true, wide: true }),
  keys: field("Keys, one in each line", { required: true, wide: true, lines: true }),
  from: field("First key"), to: field("Last key"),
  prefix: field("Prefix", { required: true, wide: true }),
  keyFrom: field("First key"), keyTo: field("Last key"),
  timeFrom: field("From", TIME), timeTo: field("To", TIME),
  endFrom: field("Ends at or after", TIME), startTo: field("Starts at or before", TIME),
  asOf: field("As of", { ...TIME, hint: "a time; empty: the latest" }),
  orderBy: field("Order by", { choices: ["key", "time"] }),
  order: field("Order", { choices: ["ANY", "ASCENDING", "DESCENDING"] }),
  limit: field("Rows", { number: true, start: "100" }),
  exact: field("Count every row", { truth: true }),
  index: field("Index", { required: true }), lower: field("First index key"), upper: field("Last index key"),
};
const OPTIONS = {
  partition: field("Partition of the key", { number: true, hint: "where the partitioner is Explicit" }),
  partitions: field("Only partitions", { hint: "0,3" }),
  isolation: field("Isolation", { choices: ["", "READ_COMMITTED", "READ_UNCOMMITTED"] }),
  requireActive: field("Only actives answer", { truth: true }),
  maxStaleness: field("At most stale, seconds", { hint: "0.5" }),
  positionBound: field("At or after position", { hint: "a token of an answer" }),
  timeout: field("Timeout, seconds", { hint: "10" }),
  executionInfo: field("How it was answered", { truth: true }),
};
const POINT = ["partition", "isolation", "requireActive", "maxStaleness", "positionBound", "timeout", "executionInfo"];
const MANY = ["partitions", ...POINT.slice(1)];
const ROWS = ["KeyValue", "Custom"];

// `path` is the word behind /state/; `names` are the parameters' names where they differ from the fields'.
const TIMES_NAMES = { timeFrom: "from", timeTo: "to" };
export const KINDS = {
  get: { label: "One key", types: ROWS, path: "stores", fields: ["key"], options: POINT },
  many: { label: "Many keys", types: ROWS, fields: ["keys"], options: POINT, post: "get" },
  range: { label: "A range", types: ROWS, path: "stores", fields: ["from", "to", "order", "limit"], options: MANY },
  prefix: { label: "A prefix", types: ROWS, path: "stores", fields: ["prefix", "order", "limit"], options: MANY },
  index: { label: "An index", types: ["Custom"], fields: ["index", "lower", "upper", "order", "limit"], options: MANY, post: "query" },
  windowsOf: { label: "Windows of a key", types: ["Window"], path: "windows", fields: ["key", "timeFrom", "timeTo", "order", "limit"], options: POINT, names: TIMES_NAMES },
  windows: { label: "Windows of all keys", types: ["Window"], path: "windows", fields: ["keyFrom", "keyTo", "timeFrom", "timeTo", "orderBy", "order", "limit"], options: MANY, names: TIMES_NAMES },
  sessionsOf: { label: "Sessions of a key", types: ["Session"], path: "sessions", fields: ["key", "endFrom", "startTo", "order", "limit"], options: POINT },
  sessions: { label: "Sessions of all keys", types: ["Session"], path: "sessions", fields: ["keyFrom", "keyTo", "endFrom", "startTo", "orderBy", "order", "limit"], options: MANY },
  version: { label: "A version", types: ["Versioned"], path: "versions", fields: ["key", "asOf"], options: POINT },
  versions: { label: "The history of a key", types: ["Versioned"], path: "versions", fields: ["key", "timeFrom", "timeTo", "order", "limit"], options: POINT, names: TIMES_NAMES, start: { order: "DESCENDING" } },
  count: { label: "The number of rows", path: "count", fields: ["exact"], options: MANY },
  query: { label: "Any query (IQv2)", fields: [], options: [...MANY, "limit"], post: "query" },
};

export const fieldOf = (name) => FIELDS[name] ?? OPTIONS[name];
export const kindsOf = (type) => Object.entries(KINDS).filter(([, kind]) => !kind.types || kind.types.includes(type));

// A key as JSON text of its serde, from the text of a form.
export const keyJson = (text, serde) => (["string", "bytes", "uuid"].includes(serde) ? JSON.stringify(text) : jsonOrText(text));

// A value as JSON text: the text of a form itself where it is JSON.
export const jsonOrText = (text) => (isJson(text) ? text.trim() : JSON.stringify(text));

// The names of required fields that are empty.
export function missingOf(kindName, values, schema) {
  const own = KINDS[kindName].fields.filter((name) => FIELDS[name].required && (values[name] ?? "").replaceAll("\n", "") === "");
  const isForm = kindName === "query" && values.type !== "other";
  const members = isForm ? (schema?.required ?? []).filter((name) => name !== "type" && (values[`member.${name}`] ?? "") === "") : [];
  return [...own.map((name) => FIELDS[name].label), ...members];
}

export const given = (values, names) => names.filter((name) => (values[name] ?? "") !== "" && values[name] !== "false").map((name) => [name, values[name]]);

// The request of a question: {method, path, body}. `values` are texts by the names of fields.
export function requestOf(kindName, values, definition, { cursor = null, schema = null } = {}) {
  const kind = KINDS[kindName];
  const store = segment(definition.name);
  const post = kindName === "get" && !fitsPath(values.key ?? "", definition.keySerde) ? "get" : kind.post;
  if (post) return { method: "POST", path: `/state/${post}/${store}`, body: objectOf(bodyOf(kindName, kind, values, definition, cursor, schema)) };
  const key = values.key ?? "";
  const hasKey = kind.fields.includes("key");
  const isRange = hasKey && RANGES.has(kindName) && !fitsPath(key, definition.keySerde);
  const refusal = hasKey && !isRange ? refusalOf(key) : null;
  if (refusal) throw new Error(refusal);
  const parameters = new URLSearchParams(isRange ? { keyFrom: key, keyTo: key, ...(values.partition && { partitions: values.partition }) } : {});
  for (const [name, value] of given(values, [...kind.fields, ...kind.options])) {
    if (name === "key" || (name === "partition" && isRange)) continue;
    if (!(name === "order" && value === "ANY" && kindName !== "versions") && !(name === "orderBy" && value === "key")) parameters.set(kind.names?.[name] ?? name, value);
  }
  if (cursor) parameters.set("cursor", cursor);
  const query = parameters.toString();
  return { method: "GET", path: `/state/${kind.path}/${store}${hasKey && !isRange ? `/${segment(key)}` : ""}${query ? `?${query}` : ""}` };
}

// Questions of a key that become a range of this one key where a path cannot have it.
const RANGES = new Set(["windowsOf", "sessionsOf"]);

// Says that an address cannot have a key; null where it can.
export const refusalOf = (key) => ([".", ".."].includes(key) ? `The key "${key}" is a folder in an address, which a browser resolves: choose "Any query (IQv2)" in Ask.` : null);

// A path holds no empty key, and keys of up to 2048 stored bytes; an item of a list may take many times the bytes of its text.
const fitsPath = (text, serde) => text !== "" && !refusalOf(text) && new TextEncoder().encode(text).length <= (serde.startsWith("list") ? 256 : 2048);

export const objectOf = (members) => `{${members.map(([name, json]) => `${JSON.stringify(name)}: ${json}`).join(", ")}}`;
export const keysOf = (values) => (values.keys ?? "").split("\n").filter((line) => line !== "");

// The members of a body, each with its JSON text.
function bodyOf(kindName, kind, values, definition, cursor, schema) {
  const body = [];
  if (kindName === "get") body.push(["keys", `[${keyJson(values.key, definition.keySerde)}]`]);
  if (kindName === "many") body.push(["keys", `[${keysOf(values).map((line) => keyJson(line, definition.keySerde)).join(", ")}]`]);
  if (["index", "query"].includes(kindName)) body.push(["query", objectOf(queryOf(kindName, values, definition, schema))]);
  for (const [name, value] of given(values, [...kind.options, ...(kindName === "index" ? ["limit"] : [])])) {
    if (name === "partitions") body.push([name, `[${value}]`]);
    else if (["isolation", "positionBound"].includes(name)) body.push([name, JSON.stringify(value)]);
    else body.push([name, jsonOrText(value)]);
  }
  if (cursor) body.push(["cursor", JSON.stringify(cursor)]);
  return body;
}

export const KEY_MEMBERS = new Set(["key", "lower", "upper", "prefix", "keyFrom", "keyTo"]);

// The members of an IQv2 query, each with its JSON text; the first is the type.
export function queryOf(kindName, values, definition, schema) {
  if (kindName === "index") {
    const bounds = given(values, ["lower", "upper"]).map(([name, text]) => [name, jsonOrText(text)]);
    const order = values.order && values.order !== "ANY" ? [["order", JSON.stringify(values.order)]] : [];
    return [["type", '"IndexQuery"'], ["index", JSON.stringify(values.index ?? "")], ...bounds, ...order];
  }
  const type = values.type || "KeyQuery";
  if (type === "other") return typeFirst(membersOf(values.members || "{}"));
  const query = [["type", JSON.stringify(type)]];
  for (const [name, property] of Object.entries(schema?.properties ?? {})) {
    const text = values[`member.${name}`] ?? "";
    if (name === "type" || text === "" || text === "false") continue;
    if (property.type === "boolean") query.push([name, "true"]);
    else if (property.type === "string" || property.$ref) query.push([name, JSON.stringify(text)]);
    else query.push([name, KEY_MEMBERS.has(name) && type !== "IndexQuery" ? keyJson(text, definition.keySerde) : jsonOrText(text)]);
  }
  return query;
}

function typeFirst(members) {
  const type = members.find(([name, json]) => name === "type" && json[0] === '"');
  if (!type) throw new Error('The query has no "type": name one, as {"type": "KeyQuery", "key": "a"}.');
  return [type, ...members.filter(([name]) => name !== "type")];
}
