/* Evaluates Alpine expressions without eval(), which the Content-Security-Policy forbids.
 *
 * It supports the subset of JavaScript that the pages use: literals, members, calls, operators, assignments, arrow
 * functions with an expression body, and if/else. Names resolve to Alpine's scopes, GLOBALS and APP_FUNCTIONS.
 */
"use strict";

(() => {
  // The browser globals that expressions may use. Of `window`, they see only the location.
  const GLOBALS = { Date, window: { location: window.location }, get localStorage() { return window.localStorage; } };
  // The functions of Unfold's app.js that expressions may use.
  const APP_FUNCTIONS = new Set(["getCurrentTab", "searchCommand", "searchDropdown", "searchForm", "theme"]);
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

  /* Returns the object that a name belongs to. Methods of the scope get the scope as `this`. */
  function getOwner(scope, name) {
    if (name in scope) return scope;
    if (Object.hasOwn(GLOBALS, name)) return GLOBALS;
    if (APP_FUNCTIONS.has(name)) return globalThis;
    throw new ReferenceError(`${name} is not defined`);
  }

  function tokenize(text) {
    const tokens = [];
    TOKENS.lastIndex = 0;
    while (text.slice(TOKENS.lastIndex).trim()) {
      const position = TOKENS.lastIndex;
      const match = TOKENS.exec(text);
      if (!match) throw new SyntaxError(`Unknown character at ${position} in: ${text}`);
      const [, number, string, name, sign] = match;
      if (number) tokens.push({ type: "value", value: Number(number) });
      else if (string) tokens.push({ type: "value", value: string.slice(1, -1).replace(/\\(.)/g, "$1") });
      else if (name) tokens.push({ type: "name", value: name });
      else tokens.push({ type: "sign", value: sign });
    }
    return tokens;
  }

  /* Each parsing function returns a function that evaluates in a scope. For an assignable expression, this function
   * has `set`. For a member, it also has `owner` and `key`.
   */
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
      const parsed = [];
      while (next < tokens.length && !is(end)) if (!take(";")) parsed.push(statement());
      return (scope) => parsed.reduce((_, run) => run(scope), undefined);
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
      for (let sign; (sign = BINARY[level].find((operator) => is(operator))); ) {
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
      const constructor = variable(name());
      const args = take("(") ? list(")") : () => [];
      return access((scope) => new (constructor(scope))(...args(scope)));
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
      const safeKey = (scope) => {
        const name = String(key(scope)); // Once, since an object could give a different string each time.
        if (FORBIDDEN.has(name)) throw new TypeError(`${name} can't be used in: ${text}`);
        return name;
      };
      const read = (scope) => allow(owner(scope)[safeKey(scope)]);
      read.owner = owner;
      read.key = safeKey;
      read.set = (scope, value) => (owner(scope)[safeKey(scope)] = value);
      return read;
    }

    /* Returns the value, unless it is a way out to everything that a script of the page may use. */
    function allow(value) {
      if (value === window || value === document || value === Function) {
        throw new TypeError(`The page itself can't be used in: ${text}`);
      }
      return value;
    }

    function call(callee, args) {
      if (!callee.owner) return (scope) => callee(scope)(...args(scope));
      return (scope) => {
        const owner = callee.owner(scope);
        return allow(owner[callee.key(scope)](...args(scope)));
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

    function variable(identifier) {
      const read = member(
        (scope) => getOwner(scope, identifier),
        () => identifier,
      );
      read.set = (scope, value) => (scope[identifier] = value);
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
      const identifier = name();
      return Object.hasOwn(CONSTANTS, identifier) ? () => CONSTANTS[identifier] : variable(identifier);
    }

    // As in x-data, a leading brace starts an object and not a block.
    const program = is("{") ? expression() : statements();
    if (next < tokens.length) throw new SyntaxError(`Unexpected token in: ${text}`);
    return program;
  }

  const programs = new Map();

  function compile(text) {
    if (!programs.has(text)) programs.set(text, parse(text));
    return programs.get(text);
  }

  function evaluator(element, expression) {
    return (receive = () => {}, { scope = {}, params = [] } = {}) => {
      const magics = {
        $el: element,
        $dispatch: (name, detail = {}) =>
          element.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true, cancelable: true })),
      };
      const data = Alpine.mergeProxies([scope, magics, ...Alpine.closestDataStack(element)]);
      try {
        let value = typeof expression === "function" ? expression : compile(expression)(data);
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
