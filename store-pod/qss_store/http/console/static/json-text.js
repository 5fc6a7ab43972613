// Reads JSON as text: whole numbers beyond 2^53 and long fractions keep their digits in every browser.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;
const PYTHON = { true: "True", false: "False", null: "None" };

export function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// The members of an object, each with its JSON text. Throws an Error that says what the text is instead.
export function membersOf(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`The query is no JSON: ${error.message}.`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error('The query is no JSON object: write it as {"type": "KeyQuery", "key": "a"}.');
  const found = [];
  let depth = 0;
  let member = [];
  for (const token of text.match(TOKEN)) {
    if (depth === 1 && (token === "," || token === "}")) {
      if (member.length) found.push([JSON.parse(member[0]), member.slice(2).join("")]);
      member = [];
    } else if (depth > 0) member.push(token);
    depth += { "{": 1, "[": 1, "}": -1, "]": -1 }[token] ?? 0;
  }
  return found;
}

// JSON as a literal of Python.
export const pythonOf = (json) =>
  json.match(TOKEN).map((token) => (token[0] === '"' ? JSON.stringify(JSON.parse(token)) : (PYTHON[token] ?? { ":": ": ", ",": ", " }[token] ?? token))).join("");
