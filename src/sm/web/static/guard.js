// Keeps the buttons of a decision dead for a moment after they appear, change or move, so that nobody decides on words
// that they have not read. The same rule as board/guard.py.

export const DEAD_MS = 500;

export class ButtonGuard {
  #shown = new Map(); // key -> [what is drawn, since when]
  #pressed = null;

  /** Note what is drawn now. `drawn`: a Map of the key to all that is drawn for it, with its place. */
  see(drawn, clock) {
    const before = this.#shown;
    this.#shown = new Map();
    for (const [key, content] of drawn) {
      const known = before.get(key);
      this.#shown.set(key, known?.[0] === content ? known : [content, clock]);
    }
  }

  /** Note that the finger went down on a button of this request. */
  press(key, digest) {
    this.#pressed = { key, digest };
  }

  /** The digest that the finger went down on; undefined: no finger did, as with a key. */
  release(key) {
    const pressed = this.#pressed;
    this.#pressed = null;
    return pressed?.key === key ? pressed.digest : undefined;
  }

  isDead(key, clock) {
    const known = this.#shown.get(key);
    return known === undefined || clock - known[1] < DEAD_MS;
  }

  /** Milliseconds until the last dead button lives; 0: all do. */
  nextMs(clock) {
    return Math.max(0, ...[...this.#shown.values()].map(([, since]) => since + DEAD_MS - clock));
  }
}
