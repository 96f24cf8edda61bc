// --- search: operators, tensors and sources by name --------------------------------------------------------------

const MOST_FOUND = 40;

class Search {
  constructor() {
    this.input = byId('search');
    this.list = byId('found');
    this.hits = [];
    this.at = -1;
    this.input.addEventListener('input', () => this.#find());
    this.input.addEventListener('keydown', (event) => this.#key(event));
    this.input.addEventListener('focus', () => this.#find());
    document.addEventListener('pointerdown', (event) => {
      if (!byId('finder').contains(event.target)) this.close();
    });
  }

  /** Everything that can be found, collected on first use: [kind, text, lower-case text, selection]. */
  get entries() {
    if (this.known) return this.known;
    this.known = [];
    const add = (kind, text, selection) => this.known.push([kind, text, text.toLowerCase(), selection]);
    for (const subgraph of subgraphs) {
      for (let operator = 0; operator < subgraph.count; operator++) {
        add('operator', `${subgraph.prefix}${operator} ${subgraph.code(operator)} ${subgraph.output(operator)}`, {
          kind: 'operator',
          subgraph: subgraph.index,
          operator,
        });
      }
    }
    doc.origins.source_names.forEach((name, row) => add('source', name, { kind: 'source', row }));
    for (const subgraph of subgraphs) {
      subgraph.tensors.name.forEach((name, tensor) =>
        add('tensor', name, { kind: 'tensor', subgraph: subgraph.index, tensor }),
      );
    }
    return this.known;
  }

  #find() {
    const wanted = this.input.value.trim().toLowerCase();
    this.hits = [];
    if (wanted) {
      const most = { operator: MOST_FOUND / 2, source: MOST_FOUND / 4, tensor: MOST_FOUND / 4 };
      const exact = new RegExp(`(^|[/ ])${wanted.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')} `);
      for (const entry of this.entries) {
        if (entry[0] === 'operator' && exact.test(entry[2])) this.hits.unshift(entry);
        else if (most[entry[0]] > 0 && entry[2].includes(wanted)) {
          most[entry[0]] -= 1;
          this.hits.push(entry);
        }
      }
    }
    this.at = this.hits.length ? 0 : -1;
    this.#show(Boolean(wanted));
  }

  #show(open) {
    this.list.replaceChildren(
      ...this.hits.slice(0, MOST_FOUND).map(([kind, text], at) =>
        make(
          'li',
          {
            role: 'option',
            id: `found-${at}`,
            'aria-selected': String(at === this.at),
            onclick: () => this.#choose(at),
          },
          make('span', { class: 'kind' }, kind),
          named(text.length > 140 ? `${text.slice(0, 70)}…${text.slice(-69)}` : text),
        ),
      ),
    );
    if (open && !this.hits.length) this.list.append(make('li', { class: 'quiet' }, 'nothing found'));
    this.list.hidden = !open;
    this.input.setAttribute('aria-expanded', String(open));
    this.input.setAttribute('aria-activedescendant', this.at < 0 ? '' : `found-${this.at}`);
  }

  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.hits.length) {
      const count = Math.min(this.hits.length, MOST_FOUND);
      this.at = (this.at + step + count) % count;
      this.#show(true);
      byId(`found-${this.at}`).scrollIntoView({ block: 'nearest' });
      event.preventDefault();
    } else if (event.key === 'Enter' && this.at >= 0) this.#choose(this.at);
    else if (event.key === 'Escape') {
      event.stopPropagation();
      if (this.list.hidden) this.input.blur();
      this.close();
    }
  }

  #choose(at) {
    const [, , , selection] = this.hits[at];
    this.close();
    select(selection, 'search');
    if (openTab.current !== 'operators') openTab('graph');
    if (openTab.current === 'graph') views[0].canvas.focus();
    else operatorTable.body.focus();
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute('aria-expanded', 'false');
  }
}
