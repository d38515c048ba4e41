/* An evaluator for Alpine expressions that works without eval(), which the Content-Security-Policy forbids.
 *
 * It supports the subset of JavaScript that the pages use: literals, members, calls, operators, assignments, arrow
 * functions with an expression body, and if/else. Names resolve to Alpine's scopes, GLOBALS and APP.
 */
"use strict";

(() => {
  // Browser globals and functions of Unfold's app.js that expressions may use. Of `window`, only the location.
  const GLOBALS = { Date, window: { location: window.location }, get localStorage() { return window.localStorage; } };
  const APP = new Set(["getCurrentTab", "searchCommand", "searchDropdown", "searchForm", "theme"]);
  const FORBIDDEN = new Set(["__proto__", "constructor", "prototype"]);
  const CONSTANTS = { true: true, false: false, null: null, undefined: undefined };
  const TOKENS =
    /\s*(?:(\d+(?:\.\d+)?)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|([A-Za-z_$][\w$]*)|(=>|===|!==|==|!=|<=|>=|&&|\|\||[-+*%<>=!?:.,;()[\]{}]))/y;
  const BINARY = [["||"], ["&&"], ["===", "!==", "==", "!="], ["<", ">", "<=", ">="], ["+", "-"], ["*", "%"]];
  const OPERATIONS = {
    "===": (a, b) => a === b,
    "!==": (a, b) => a !== b,
    "==": (a, b) => a == b,
    "!=": (a, b) => a != b,
    "<": (a, b) => a < b,
    ">": (a, b) => a > b,
    "<=": (a, b) => a <= b,
    ">=": (a, b) => a >= b,
    "+": (a, b) => a + b,
    "-": (a, b) => a - b,
    "*": (a, b) => a * b,
    "%": (a, b) => a % b,
  };

  /* The object that a name belongs to: the scope, so that its methods get it as `this`, or the globals. */
  function holder(scope, name) {
    if (name in scope) return scope;
    if (Object.hasOwn(GLOBALS, name)) return GLOBALS;
    if (APP.has(name)) return globalThis;
    throw new ReferenceError(`${name} is not defined`);
  }

  function tokenize(text) {
    const tokens = [];
    TOKENS.lastIndex = 0;
    while (text.slice(TOKENS.lastIndex).trim()) {
      const at = TOKENS.lastIndex;
      const match = TOKENS.exec(text);
      if (!match) throw new SyntaxError(`Unknown character at ${at} in: ${text}`);
      const [, number, string, name, sign] = match;
      if (number) tokens.push({ type: "value", value: Number(number) });
      else if (string) tokens.push({ type: "value", value: string.slice(1, -1).replace(/\\(.)/g, "$1") });
      else if (name) tokens.push({ type: "name", value: name });
      else tokens.push({ type: "sign", value: sign });
    }
    return tokens;
  }

  /* Parsing functions return functions from a scope to a value. Assignable ones have `set`, members `owner`. */
  function parse(text) {
    const tokens = tokenize(text);
    let next = 0;

    const is = (value, ahead = 0) => tokens[next + ahead]?.type !== "value" && tokens[next + ahead]?.value === value;
    const take = (value) => is(value) && Boolean(++next);
    const expect = (value) => {
      if (!take(value)) throw new SyntaxError(`Expected ${value} in: ${text}`);
    };
    const name = () => {
      if (tokens[next]?.type !== "name") throw new SyntaxError(`Expected a name in: ${text}`);
      return tokens[next++].value;
    };

    function statements(end) {
      const all = [];
      while (next < tokens.length && !is(end)) if (!take(";")) all.push(statement());
      return (scope) => all.reduce((_, run) => run(scope), undefined);
    }

    function statement() {
      if (take("{")) {
        const body = statements("}");
        expect("}");
        return body;
      }
      if (!take("if")) return expression();
      expect("(");
      const test = expression();
      expect(")");
      const yes = statement();
      take(";");
      const no = take("else") ? statement() : () => undefined;
      return (scope) => (test(scope) ? yes(scope) : no(scope));
    }

    function expression() {
      if (tokens[next]?.type === "name" && is("=>", 1)) return arrow();
      const target = ternary();
      if (!take("=")) return target;
      if (!target.set) throw new SyntaxError(`Can't assign in: ${text}`);
      const value = expression();
      return (scope) => target.set(scope, value(scope));
    }

    function arrow() {
      const parameter = name();
      expect("=>");
      const body = expression();
      return (scope) => (argument) => body(Alpine.mergeProxies([{ [parameter]: argument }, scope]));
    }

    function ternary() {
      const test = binary(0);
      if (!take("?")) return test;
      const yes = expression();
      expect(":");
      const no = expression();
      return (scope) => (test(scope) ? yes(scope) : no(scope));
    }

    function binary(level) {
      if (level === BINARY.length) return unary();
      let left = binary(level + 1);
      for (let sign; (sign = BINARY[level].find((one) => is(one))); ) {
        next++;
        const [a, b] = [left, binary(level + 1)];
        if (sign === "||") left = (scope) => a(scope) || b(scope);
        else if (sign === "&&") left = (scope) => a(scope) && b(scope);
        else left = (scope) => OPERATIONS[sign](a(scope), b(scope));
      }
      return left;
    }

    function unary() {
      if (take("!")) {
        const operand = unary();
        return (scope) => !operand(scope);
      }
      if (take("-")) {
        const operand = unary();
        return (scope) => -operand(scope);
      }
      if (!take("new")) return access(primary());
      const made = variable(name());
      const given = take("(") ? list(")") : () => [];
      return access((scope) => new (made(scope))(...given(scope)));
    }

    function access(start) {
      let value = start;
      for (;;) {
        if (take(".")) {
          const key = name();
          value = member(value, () => key);
        } else if (take("[")) {
          const key = expression();
          expect("]");
          value = member(value, key);
        } else if (take("(")) value = call(value, list(")"));
        else return value;
      }
    }

    function member(owner, key) {
      const safe = (scope) => {
        const found = key(scope);
        if (FORBIDDEN.has(String(found))) throw new TypeError(`${found} can't be used in: ${text}`);
        return found;
      };
      const read = (scope) => owner(scope)[safe(scope)];
      read.owner = owner;
      read.key = safe;
      read.set = (scope, value) => (owner(scope)[safe(scope)] = value);
      return read;
    }

    function call(what, given) {
      if (!what.owner) return (scope) => what(scope)(...given(scope));
      return (scope) => {
        const owner = what.owner(scope);
        return owner[what.key(scope)](...given(scope));
      };
    }

    function list(end) {
      const items = [];
      while (!take(end)) {
        items.push(expression());
        if (!is(end)) expect(",");
      }
      return (scope) => items.map((item) => item(scope));
    }

    function object() {
      const members = [];
      while (!take("}")) {
        const key = tokens[next].type === "value" ? tokens[next++].value : name();
        members.push([key, take(":") ? expression() : variable(key)]);
        if (!is("}")) expect(",");
      }
      return (scope) => Object.fromEntries(members.map(([key, value]) => [key, value(scope)]));
    }

    function variable(wanted) {
      const read = member(
        (scope) => holder(scope, wanted),
        () => wanted,
      );
      read.set = (scope, value) => (scope[wanted] = value);
      return read;
    }

    function primary() {
      const token = tokens[next];
      if (!token) throw new SyntaxError(`Unfinished: ${text}`);
      if (token.type === "value") {
        next++;
        return () => token.value;
      }
      if (take("(")) {
        const inner = expression();
        expect(")");
        return inner;
      }
      if (take("[")) return list("]");
      if (take("{")) return object();
      const wanted = name();
      return Object.hasOwn(CONSTANTS, wanted) ? () => CONSTANTS[wanted] : variable(wanted);
    }

    // A leading brace starts an object, as in x-data, not a block.
    const program = is("{") ? expression() : statements();
    if (next < tokens.length) throw new SyntaxError(`Can't read the rest of: ${text}`);
    return program;
  }

  const programs = new Map();

  function compiled(text) {
    if (!programs.has(text)) programs.set(text, parse(text));
    return programs.get(text);
  }

  function evaluator(element, expression) {
    return (receive = () => {}, { scope = {}, params = [] } = {}) => {
      const own = {
        $el: element,
        $dispatch: (name, detail = {}) =>
          element.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true, cancelable: true })),
      };
      const data = Alpine.mergeProxies([scope, own, ...Alpine.closestDataStack(element)]);
      try {
        let value = typeof expression === "function" ? expression : compiled(expression)(data);
        if (typeof value === "function") value = value.apply(data, params);
        if (value instanceof Promise) value.then(receive);
        else receive(value);
      } catch (error) {
        console.error(`In "${expression}":`, error);
      }
    };
  }

  document.addEventListener("alpine:init", () => Alpine.setEvaluator(evaluator));
})();
