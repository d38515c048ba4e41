// JSON with exact ids: 64-bit integers, which a JavaScript number can't hold.

import type { IdInput } from "./models.js";

// Quotes within JSON strings are escaped, so these match only fields.
const ID_NUMBERS = /"(id|\w*Id)"\s*:\s*(-?\d+)(?=\s*[,}\]])/g;
const ID_STRINGS = /"(id|\w*Id)":"(-?\d+)"/g;

// Throws TypeError for a number that is not exact.
export function checkId(id: IdInput): string {
  if (typeof id === "number" && !Number.isSafeInteger(id)) throw new TypeError(`${id} is not an exact integer.`);
  return String(id);
}

// JSON, with ids as integers.
export function encode(body: unknown): string {
  const isId = (name: string) => name === "id" || name.endsWith("Id");
  const text = JSON.stringify(body, (name, value) => (isId(name) ? checkId(value) : value));
  return text.replace(ID_STRINGS, '"$1":$2');
}

// Parse JSON, with ids as strings.
export function decode(text: string): any {
  return JSON.parse(text.replace(ID_NUMBERS, '"$1":"$2"'));
}
