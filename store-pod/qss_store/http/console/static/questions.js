// The kinds of question: their fields, and each as an HTTP request, as a command of qss, and as Python.

import { parseJson, segment, toJson } from "./api.js";

const field = (label, rest = {}) => ({ label, ...rest });
const TIME = { hint: "milliseconds, RFC 3339 or a date" };
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

// A key as JSON of its serde, from the text of a form.
export function keyOfText(text, serde) {
  return ["string", "bytes", "uuid"].includes(serde) ? text : jsonOrText(text);
}

const given = (values, names) => names.filter((name) => (values[name] ?? "") !== "" && values[name] !== "false").map((name) => [name, values[name]]);

// The request of a question: {method, path, body}. `values` are texts by the names of fields.
export function requestOf(kindName, values, definition, { cursor = null, schema = null } = {}) {
  const kind = KINDS[kindName];
  const store = segment(definition.name);
  if (kind.post) return { method: "POST", path: `/state/${kind.post}/${store}`, body: toJson(bodyOf(kindName, kind, values, definition, cursor, schema)) };
  const parameters = new URLSearchParams();
  for (const [name, value] of given(values, [...kind.fields.filter((one) => one !== "key"), ...kind.options])) {
    if (!(name === "order" && value === "ANY") && !(name === "orderBy" && value === "key")) parameters.set(kind.names?.[name] ?? name, value);
  }
  if (cursor) parameters.set("cursor", cursor);
  const key = kind.fields.includes("key") ? `/${segment(values.key ?? "")}` : "";
  const query = parameters.toString();
  return { method: "GET", path: `/state/${kind.path}/${store}${key}${query ? `?${query}` : ""}` };
}

function bodyOf(kindName, kind, values, definition, cursor, schema) {
  const body = {};
  if (kindName === "many") body.keys = (values.keys ?? "").split("\n").filter((line) => line !== "").map((line) => keyOfText(line, definition.keySerde));
  if (kindName === "index") body.query = { type: "IndexQuery", ...members(given(values, ["index", "lower", "upper"]), null), ...(values.order && values.order !== "ANY" ? { order: values.order } : {}) };
  if (kindName === "query") body.query = queryOf(values, definition, schema);
  for (const [name, value] of given(values, [...kind.options, ...(kindName === "index" ? ["limit"] : [])])) {
    if (name === "partitions") body.partitions = value.split(",").map(Number);
    else if (["requireActive", "executionInfo"].includes(name)) body[name] = true;
    else body[name] = ["isolation", "positionBound"].includes(name) ? value : Number(value);
  }
  if (cursor) body.cursor = cursor;
  return body;
}

const KEY_MEMBERS = new Set(["key", "lower", "upper", "prefix", "keyFrom", "keyTo"]);

export function queryOf(values, definition, schema) {
  const type = values.type || "KeyQuery";
  if (type === "other") return orThrow(values.members || "{}");
  const query = { type };
  for (const [name, property] of Object.entries(schema?.properties ?? {})) {
    const text = values[`member.${name}`] ?? "";
    if (name === "type" || text === "" || text === "false") continue;
    if (property.type === "boolean") query[name] = true;
    else if (property.type === "string" || property.$ref) query[name] = text;
    else if (KEY_MEMBERS.has(name) && type !== "IndexQuery") query[name] = keyOfText(text, definition.keySerde);
    else query[name] = jsonOrText(text);
  }
  return query;
}

function orThrow(text) {
  try {
    return parseJson(text);
  } catch (error) {
    throw new Error(`The query is no JSON: ${error.message}.`);
  }
}

const members = (pairs) => Object.fromEntries(pairs.map(([name, text]) => [name, name === "index" ? text : jsonOrText(text)]));

function jsonOrText(text) {
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

// --- The same question elsewhere

const quoted = (text) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// A link may come from anybody, and what is copied is run: other texts than numbers stay texts.
const numeral = (text) => (/^\s*\d{1,15}(\.\d{1,15})?\s*$/.test(text) ? text.trim() : JSON.stringify(text));

export function asCurl(request, withToken) {
  const parts = ["curl", "-s", quoted(location.origin + request.path)];
  if (withToken) parts.push("-H", '"Authorization: Bearer $TOKEN"');
  if (request.body) parts.push("-d", quoted(request.body));
  return parts.join(" ");
}

const FLAGS = {
  from: "--from", to: "--to", prefix: "--prefix", keyFrom: "--key-from", keyTo: "--key-to", timeFrom: "--from", timeTo: "--to", endFrom: "--end-from", startTo: "--start-to",
  asOf: "--as-of", orderBy: "--by", limit: "--limit", partitions: "--partitions", isolation: "--isolation", maxStaleness: "--max-staleness", positionBound: "--position-bound", timeout: "--timeout",
  index: "--index", lower: "--from", upper: "--to",
};
const COMMANDS = { get: "get", many: "get", range: "scan", prefix: "scan", index: "scan", windowsOf: "windows", windows: "windows", sessionsOf: "sessions", sessions: "sessions", version: "versions", versions: "versions", count: "count", query: "query" };
const WITH_ORDER = new Set(["windows", "sessions", "versions"]);
const OF_SCANS = new Set(["scan", "windows", "sessions", "versions", "query"]);

export function asCommand(kindName, values, definition, request, withToken) {
  const command = COMMANDS[kindName];
  const parts = ["qss", command, quoted(definition.name)];
  let words = [];
  if (kindName === "many") words = values.keys.split("\n").filter(Boolean);
  else if (kindName === "query") words = queryWords(JSON.parse(request.body).query);
  else if (KINDS[kindName].fields.includes("key")) words = [values.key ?? ""];
  const isLikeAnOption = words.some((word) => word.startsWith("-"));
  if (!isLikeAnOption) parts.push(...words.map(quoted));
  for (const [name, value] of given(values, Object.keys(FLAGS))) {
    if (![...KINDS[kindName].fields, ...KINDS[kindName].options].includes(name)) continue;
    if (name === "partitions" && !["scan", "query"].includes(command)) continue;
    if (name === "limit" && !OF_SCANS.has(command)) continue;
    if (name === "orderBy" && value === "key") continue;
    parts.push(FLAGS[name], quoted(value));
  }
  if (values.order === "DESCENDING" && command === "scan") parts.push("--descending");
  else if (values.order && values.order !== "ANY" && WITH_ORDER.has(command) && kindName !== "version") parts.push("--order", quoted(values.order));
  if (values.exact === "true" && command === "count") parts.push("--exact");
  if (values.requireActive === "true") parts.push("--require-active");
  if (values.executionInfo === "true" && command === "query") parts.push("--execution-info");
  parts.push("--url", location.origin);
  if (withToken) parts.push("--token-file", "TOKEN_FILE");
  if (isLikeAnOption) parts.push("--", ...words.map(quoted));
  return parts.join(" ");
}

const queryWords = ({ type, ...rest }) => [String(type), ...Object.entries(rest).map(([name, value]) => `${name}=${typeof value === "string" ? value : toJson(value)}`)];

function python(value) {
  if (value === null || value === undefined) return "None";
  if (value === true || value === false) return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${python(one)}`).join(", ")}}`;
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

const timeValue = (text) => (/^-?\d+$/.test(text) ? text : JSON.stringify(text));

export function asPython(kindName, values, definition, request, withToken) {
  const options = optionsOf(kindName, values);
  const token = withToken ? ', token_file="TOKEN_FILE"' : "";
  const imports = options ? "ReadOptions, Store" : "Store";
  return `from qss_client import ${imports}\nwith Store(${JSON.stringify(location.origin)}, ${JSON.stringify(definition.name)}${token}) as store:\n    ${statement(kindName, values, definition, request, options)}`;
}

function optionsOf(kindName, values) {
  const found = [];
  const names = { maxStaleness: "max_staleness_s", timeout: "timeout_s", requireActive: "require_active" };
  for (const [name, value] of given(values, ["requireActive", "maxStaleness", "timeout"])) {
    if (KINDS[kindName].options.includes(name)) found.push(`${names[name]}=${name === "requireActive" ? "True" : numeral(value)}`);
  }
  return found.length ? `ReadOptions(${found.join(", ")})` : "";
}

function statement(kindName, values, definition, request, options) {
  const key = (text) => python(keyOfText(text ?? "", definition.keySerde));
  const named = (pairs) => [...pairs.filter(([, value]) => value).map(([name, value]) => `${name}=${value}`), ...(options ? [`options=${options}`] : [])].join(", ");
  const set = (name, value) => (values[name] ?? "" ? value(values[name]) : "");
  const order = ["order", set("order", (text) => (text === "ANY" ? "" : JSON.stringify(text)))];
  const limit = ["limit", set("limit", numeral)];
  const partitions = ["partitions", set("partitions", (text) => `[${text.split(",").map(numeral).join(", ")}]`)];
  const times = (one, other) => [[one, set("timeFrom", timeValue)], [other, set("timeTo", timeValue)]];
  const keys = [["key_from", set("keyFrom", key)], ["key_to", set("keyTo", key)]];
  const by = ["order_by", set("orderBy", (text) => (text === "time" ? '"time"' : ""))];
  const sessions = [["end_from", set("endFrom", timeValue)], ["start_to", set("startTo", timeValue)]];
  const join = (...parts) => parts.filter(Boolean).join(", ");
  switch (kindName) {
    case "get": return `print(store.get(${join(key(values.key), options)}))`;
    case "many": return `print(store.get_many(${join(python(JSON.parse(request.body).keys), options)}))`;
    case "range": return `for row in store.range(${named([["lower", set("from", key)], ["upper", set("to", key)], order, limit, partitions])}):\n        print(row)`;
    case "prefix": return `for row in store.prefix(${join(key(values.prefix), named([order, limit, partitions]))}):\n        print(row)`;
    case "index": return `for row in store.range(${named([["lower", set("lower", (text) => python(jsonOrText(text)))], ["upper", set("upper", (text) => python(jsonOrText(text)))], ["index", JSON.stringify(values.index ?? "")], order, limit, partitions])}):\n        print(row)`;
    case "windowsOf": return `for row in store.windows(${join(key(values.key), named([...times("from_", "to"), order, limit]))}):\n        print(row)`;
    case "windows": return `for row in store.windows(${named([...keys, ...times("from_", "to"), by, order, limit])}):\n        print(row)`;
    case "sessionsOf": return `for row in store.sessions(${join(key(values.key), named([...sessions, order, limit]))}):\n        print(row)`;
    case "sessions": return `for row in store.sessions(${named([...keys, ...sessions, by, order, limit])}):\n        print(row)`;
    case "version": return `print(store.version(${join(key(values.key), set("asOf", timeValue), options && `options=${options}`)}))`;
    case "versions": return `for row in store.versions(${join(key(values.key), named([...times("from_", "to"), order, limit]))}):\n        print(row)`;
    case "count": return `print(store.count(${named([["exact", values.exact === "true" ? "True" : ""]])}))`;
    default: {
      const { type, ...rest } = JSON.parse(request.body).query;
      const more = [partitions, limit, ["execution_info", values.executionInfo === "true" ? "True" : ""]];
      return `print(store.query(${join(JSON.stringify(type), Object.keys(rest).length && `members=${python(rest)}`, named(more))}))`;
    }
  }
}
