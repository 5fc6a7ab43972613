// A question for other programs: as a command of curl, as a command of qss, and as Python. Each text asks the same question;
// an option that qss does not have is named in a comment. The texts leave out the execution info, except that of an IQv2 query.

import { placeOfStore } from "./api.js";
import { KEY_MEMBERS, KINDS, given, jsonOrText, keyJson, keysOf, queryOf } from "./questions.js";
import { pythonOf } from "./json-text.js";

const quoted = (text) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// A link may come from anybody, and what is copied is run: other texts than numbers stay texts.
const numeral = (text) => (/^\s*\d{1,15}(\.\d{1,15})?\s*$/.test(text) ? text.trim() : JSON.stringify(text));

export function asCurl(request, withToken) {
  const parts = ["curl", "-s", quoted(placeOfStore().origin + request.path)];
  if (withToken) parts.push("-H", '"Authorization: Bearer $TOKEN"');
  if (request.body) parts.push("-d", quoted(request.body));
  return parts.join(" ");
}

// --- qss

const FLAGS = {
  from: "--from", to: "--to", prefix: "--prefix", keyFrom: "--key-from", keyTo: "--key-to", timeFrom: "--from", timeTo: "--to", endFrom: "--end-from", startTo: "--start-to",
  asOf: "--as-of", orderBy: "--order-by", order: "--order", limit: "--limit", exact: "--exact", partition: "--partition", partitions: "--partitions", isolation: "--isolation", requireActive: "--require-active",
  maxStaleness: "--max-staleness", positionBound: "--position-bound", timeout: "--timeout", executionInfo: "--execution-info", index: "--index", lower: "--from", upper: "--to",
};
const SWITCHES = new Set(["exact", "requireActive", "executionInfo"]);
const COMMANDS = { get: "get", many: "get", range: "scan", prefix: "scan", index: "scan", windowsOf: "windows", windows: "windows", sessionsOf: "sessions", sessions: "sessions", version: "versions", versions: "versions", count: "count", query: "query" };

export function asCommand(kindName, values, definition, schema, withToken) {
  // The latest version is a query: qss versions prints the history without --as-of.
  const isLatest = kindName === "version" && !values.asOf;
  const command = isLatest ? "query" : COMMANDS[kindName];
  const { fields, options } = KINDS[kindName];
  const words = isLatest ? ["VersionedKeyQuery", `key=${values.key}`] : wordsOf(kindName, values, definition, schema);
  const flags = [];
  const left = [];
  for (const [name, value] of given(values, [...fields, ...options])) {
    const flag = flagOf(name, value, command, kindName);
    if (flag) flags.push(flag);
    else if (name === "partition") left.push(`partition=${numeral(value)}`); // Of the latest version, which is a query.
  }
  const comment = left.length ? `# qss ${command} has no option for ${left.join(", ")}: this command leaves it out\n` : "";
  const { origin, kubectl } = placeOfStore();
  const place = kubectl.length ? kubectl.map(quoted) : ["--url", origin, ...(withToken ? ["--token-file", "TOKEN_FILE"] : [])];
  const start = [...(kubectl.length ? ["kubectl"] : []), "qss", command, quoted(definition.name)];
  const shown = words.map(quoted);
  const rest = [...flags, ...place];
  const parts = words.some((one) => one.startsWith("-")) ? [...start, ...rest, "--", ...shown] : [...start, ...shown, ...rest];
  return comment + parts.join(" ");
}

// The arguments behind the store's name.
function wordsOf(kindName, values, definition, schema) {
  if (kindName === "query") return queryWords(queryOf(kindName, values, definition, schema), definition.keySerde);
  if (kindName === "many") return keysOf(values);
  return KINDS[kindName].fields.includes("key") ? [values.key] : [];
}

// The words of an option; null for a usual value, for a field that is no option, and for an option that the command does not have.
function flagOf(name, value, command, kindName) {
  if (!(name in FLAGS) || (name === "partition" && command === "query") || (name === "executionInfo" && kindName !== "query")) return null;
  if ((name === "orderBy" && value === "key") || (name === "order" && value === "ANY" && command !== "versions")) return null;
  if (name === "order" && command === "scan") return value === "DESCENDING" ? "--descending" : null;
  if (SWITCHES.has(name)) return FLAGS[name];
  return value.startsWith("-") ? quoted(`${FLAGS[name]}=${value}`) : `${FLAGS[name]} ${quoted(value)}`;
}

const queryWords = ([[, type], ...rest], serde) => [JSON.parse(type), ...rest.map(([name, json]) => `${name}=${KEY_MEMBERS.has(name) && type !== '"IndexQuery"' ? keyWord(json, serde) : word(json)}`)];

// The text that a command reads as this JSON: a string needs no quotes where it is no other JSON.
function word(json) {
  if (json[0] !== '"') return json;
  const text = JSON.parse(json);
  return jsonOrText(text) === JSON.stringify(text) ? text : json;
}

// A key's text for a command; only a key of JSON is read as JSON.
function keyWord(json, serde) {
  if (json[0] !== '"') return json;
  return serde === "json" ? (/^\s*["[{]/.test(JSON.parse(json)) ? json : word(json)) : JSON.parse(json);
}

// --- Python

const timeValue = (text) => (/^-?\d+$/.test(text) ? text : JSON.stringify(text));

export function asPython(kindName, values, definition, schema, withToken) {
  const options = optionsOf(kindName, values);
  const { origin, kubectl } = placeOfStore();
  // A forwarded port leads to one pod.
  const rest = `${kubectl.length ? ", direct=False" : ""}${withToken ? ', token_file="TOKEN_FILE"' : ""}`;
  const imports = options ? "ReadOptions, Store" : "Store";
  return `from qss_client import ${imports}\nwith Store(${JSON.stringify(origin)}, ${JSON.stringify(definition.name)}${rest}) as store:\n    ${statement(kindName, values, definition, schema, options)}`;
}

const MEMBERS = {
  partition: ["partition", numeral], isolation: ["isolation", JSON.stringify], requireActive: ["require_active", () => "True"],
  maxStaleness: ["max_staleness_s", numeral], positionBound: ["position_bound", JSON.stringify], timeout: ["timeout_s", numeral],
};

function optionsOf(kindName, values) {
  const found = given(values, KINDS[kindName].options.filter((name) => name in MEMBERS)).map(([name, value]) => `${MEMBERS[name][0]}=${MEMBERS[name][1](value)}`);
  return found.length ? `ReadOptions(${found.join(", ")})` : "";
}

function statement(kindName, values, definition, schema, options) {
  const key = (text) => pythonOf(keyJson(text, definition.keySerde));
  const set = (name, value) => (values[name] ?? "" ? value(values[name]) : "");
  const named = (...pairs) => pairs.filter(([, value]) => value).map(([name, value]) => `${name}=${value}`).join(", ");
  const join = (...parts) => parts.filter(Boolean).join(", ");
  const order = ["order", set("order", (text) => (text === "ANY" && kindName !== "versions" ? "" : JSON.stringify(text)))];
  const limit = ["limit", set("limit", numeral)];
  const partitions = ["partitions", set("partitions", (text) => `[${text.split(",").map(numeral).join(", ")}]`)];
  const own = KINDS[kindName].options.includes("partitions") ? [partitions, ["options", options]] : [["options", options]];
  const times = [["from_", set("timeFrom", timeValue)], ["to", set("timeTo", timeValue)]];
  const sessions = [["end_from", set("endFrom", timeValue)], ["start_to", set("startTo", timeValue)]];
  const keys = [["key_from", set("keyFrom", key)], ["key_to", set("keyTo", key)], ["order_by", set("orderBy", (text) => (text === "time" ? '"time"' : ""))]];
  const rows = (call) => `for row in store.${call}:\n        print(row)`;
  switch (kindName) {
    case "get": return `print(store.get(${join(key(values.key), options)}))`;
    case "many": return `print(store.get_many(${join(`[${keysOf(values).map(key).join(", ")}]`, options)}))`;
    case "range": return rows(`range(${named(["lower", set("from", key)], ["upper", set("to", key)], order, limit, ...own)})`);
    case "prefix": return rows(`prefix(${join(key(values.prefix), named(order, limit, ...own))})`);
    case "index": {
      const bound = (name) => [name, set(name, (text) => pythonOf(jsonOrText(text)))];
      return rows(`range(${named(bound("lower"), bound("upper"), ["index", JSON.stringify(values.index)], order, limit, ...own)})`);
    }
    case "windowsOf": return rows(`windows(${join(key(values.key), named(...times, order, limit, ...own))})`);
    case "windows": return rows(`windows(${named(...keys, ...times, order, limit, ...own)})`);
    case "sessionsOf": return rows(`sessions(${join(key(values.key), named(...sessions, order, limit, ...own))})`);
    case "sessions": return rows(`sessions(${named(...keys, ...sessions, order, limit, ...own)})`);
    case "version": return `print(store.version(${join(key(values.key), named(["as_of", set("asOf", timeValue)], ...own))}))`;
    case "versions": return rows(`versions(${join(key(values.key), named(...times, order, limit, ...own))})`);
    case "count": return `print(store.count(${named(["exact", values.exact === "true" ? "True" : ""], ...own)}))`;
    default: {
      const [[, type], ...rest] = queryOf(kindName, values, definition, schema);
      const members = rest.length && `members={${rest.map(([name, json]) => `${JSON.stringify(name)}: ${pythonOf(json)}`).join(", ")}}`;
      return `print(store.query(${join(pythonOf(type), members, named(limit, ["execution_info", values.executionInfo === "true" ? "True" : ""], ...own))}))`;
    }
  }
}
