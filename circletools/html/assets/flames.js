// --- flames: the time of modules as a flame graph, with the whole model at the top -------------------------------

const LEAST_SHOWN = 0.002; // as a share of the frame at full width

/** The modules of each source; its time is divided evenly among them. */
const homesOfSource = doc.origins.source_ids.map(() => 0);
eachEntry(doc.modules.sources, (source) => (homesOfSource[source] += 1));

class FlameGraph {
  constructor(times) {
    this.times = times;
    this.box = make('div', {
      class: 'flames',
      role: 'tree',
      'aria-label': 'Time by module',
      onkeydown: (event) => this.#key(event),
    });
    this.#show([]);
  }

  card() {
    const hint = 'Choose a module to show it at full width; arrow keys move, Enter chooses.';
    const made = card('By module', this.box, make('p', { class: 'quiet' }, hint));
    made.classList.add('wide');
    return made;
  }

  /** Show the last module of a path at full width, below those that contain it. */
  #show(path) {
    this.box.replaceChildren(this.#item({ path: [], label: 'model', ns: this.times.total_ns }, 100, path));
    const shownAll = [...this.box.querySelectorAll('[role="treeitem"]')];
    const item = shownAll[path.length];
    item.tabIndex = 0;
    return item;
  }

  #module(row, path) {
    const label = doc.modules.label[row].replace(/^[./:]+(?=.)/, '');
    return { path: [...path, row], label, ns: this.times.modules_ns[row], selection: { kind: 'branch', row } };
  }

  #source(row, path) {
    const label = doc.origins.source_names[row].replace(/^.*(?:::|\/)(?=.)/s, '');
    const ns = this.times.sources_ns[row] / homesOfSource[row];
    return { path, label, ns, selection: { kind: 'source', row }, leaf: true };
  }

  /** The contents of a frame: modules and their own sources; for the model, also everything outside modules. */
  #inside({ path, ns, leaf }) {
    if (leaf) return [];
    const row = path[path.length - 1];
    const own = row === undefined ? [] : doc.modules.sources[row];
    const modules = (row === undefined ? topModules : below[row]).map((one) => this.#module(one, path));
    if (row !== undefined) {
      const alone = own.length === 1 && !modules.length; // the source is the module itself
      return [...modules, ...(alone ? [] : own.map((source) => this.#source(source, path)))];
    }
    const unnamed = this.times.no_origin_ns;
    const rest = ns - unnamed - modules.reduce((sum, one) => sum + one.ns, 0);
    const others = [['no origin', unnamed], ['in no module', rest]];
    return [...modules, ...others.map(([label, time]) => ({ path, label, ns: time, leaf: true }))];
  }

  /** A frame whose width is in percent; `path` leads from it to the frame at full width. */
  #item(frame, width, path, level = 1, shown = 1) {
    const { times } = this;
    const inside = path.length ? [this.#module(path[0], frame.path)] : this.#inside(frame);
    const items = inside
      .map((one) => [one, path.length ? 1 : one.ns / frame.ns])
      .filter(([, part]) => part * shown >= LEAST_SHOWN)
      .map(([one, part]) => this.#item(one, 100 * part, path.slice(1), level + 1, part * shown));
    const name = frame.path.length && !frame.leaf ? pathOf(frame.path[frame.path.length - 1]) : frame.label;
    const share = percent(frame.ns, times.total_ns);
    const what = `${tail(name, 300)}: ${duration(frame.ns / times.executions)}, ${share}`;
    const line = make(
      'div',
      { class: 'line', title: what, background: this.#color(frame), onclick: () => this.#choose(frame) },
      `${tail(frame.label, 80)} ${share}`,
    );
    const attributes = { role: 'treeitem', tabindex: -1, 'aria-level': level, 'aria-label': what, width };
    return make(
      'div',
      { ...attributes, 'aria-expanded': items.length ? 'true' : null },
      line,
      items.length ? make('div', { role: 'group' }, items) : null,
    );
  }

  /** Modules whose names differ only in a number have the same color. */
  #color({ label, selection }) {
    if (!selection) return 'var(--sunken)';
    const letters = [...label.replace(/\d+/g, '')];
    return PALETTE[letters.reduce((sum, one) => (sum * 31 + one.codePointAt(0)) % 9973, 0) % PALETTE.length];
  }

  #choose({ path, selection, leaf }) {
    select(selection ?? null, this);
    if (!leaf) this.#show(path).focus();
  }

  #key(event) {
    const item = event.target.closest('[role="treeitem"]');
    const next = {
      ArrowDown: item.querySelector('[role="treeitem"]'),
      ArrowUp: item.parentElement.closest('[role="treeitem"]'),
      ArrowLeft: item.previousElementSibling,
      ArrowRight: item.nextElementSibling,
    }[event.key];
    if (event.key === 'Enter') item.querySelector('.line').click();
    else if (!next) return;
    else {
      item.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }
    event.preventDefault();
  }
}
