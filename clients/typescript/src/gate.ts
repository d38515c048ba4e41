// The wait that all clients of a process share for each API key.
//
// A 429 closes the gate of its key and origin. Until it opens, no request with that key is sent, so the
// process counts as one waiter, and the service does not ban the key.

import { ApiError, RateLimitError } from "./errors.js";

const MAX_JITTER = 500; // Milliseconds after the end of a wait, so that processes do not all start at once.
const MAX_WAITS = 3; // For one attempt to send, which others may overtake each time that the gate opens.
const LONGEST_TIMER = 2_000_000; // In seconds, of which a timer counts 2^31 milliseconds.

export class Gate {
  #inFlight = 0;
  #opensAt = 0; // By performance.now().
  #dueAt = 0; // The same without jitter.
  #closedBy: ApiError | undefined;
  #closures = 0; // Since the start, each until the gate opened again.
  #wakers = new Set<() => void>();

  // Wait until a request may be sent; call `leave` after its response. Throws RateLimitError at once if the
  // gate stays closed for more than `maxWait` seconds.
  async enter(maxInFlight: number, maxWait: number): Promise<void> {
    const waitedFor = new Set<number>();
    for (;;) {
      const now = performance.now();
      if (now < this.#opensAt) {
        waitedFor.add(this.#closures);
        const seconds = Math.max(this.#dueAt - now, 0) / 1000;
        if (seconds > maxWait || waitedFor.size > MAX_WAITS) {
          throw new RateLimitError({ ...(this.#closedBy as ApiError), retryAfter: seconds });
        }
        await sleep((this.#opensAt - now) / 1000, this.#wakers);
      } else if (this.#inFlight < maxInFlight) {
        this.#inFlight++;
        return;
      } else {
        await sleep(LONGEST_TIMER, this.#wakers);
      }
    }
  }

  // End a request. The Retry-After of an error closes the gate, before others may enter.
  leave(error?: unknown): void {
    this.#inFlight--;
    if (error instanceof ApiError && error.retryAfter !== null) {
      const now = performance.now();
      const dueAt = now + error.retryAfter * 1000;
      if (now >= this.#opensAt) this.#closures++;
      if (dueAt > this.#dueAt) {
        this.#dueAt = dueAt;
        this.#opensAt = dueAt + Math.random() * MAX_JITTER;
        this.#closedBy = error;
      }
    }
    for (const wake of this.#wakers) wake();
  }
}

const gates = new Map<string, Gate>();

// Return the process's gate. Operations of different buckets have separate limits.
export function getGate(origin: string, key: string, bucket: string): Gate {
  const name = `${origin} ${bucket} ${key}`;
  const gate = gates.get(name) ?? new Gate();
  gates.set(name, gate);
  return gate;
}

// Wait, at most until the function that it adds to `wakers` is called.
export function sleep(seconds: number, wakers = new Set<() => void>()): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      wakers.delete(wake);
      resolve();
    };
    const timer = setTimeout(wake, seconds * 1000);
    wakers.add(wake);
  });
}
