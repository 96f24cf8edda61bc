// --- tables: all operators; only visible rows are elements -------------------------------------------------------

const ROW_HEIGHT = 26;

class OperatorTable {
  /** Build the panel. */
  panel() {
    this.order = { column: 'index', down: false };
    this.filter = make('input', {
      type: 'search',
      placeholder: 'Filter by code, output, device or source',
      'aria-label': 'Filter operators',
      oninput: () => this.refresh(),
      spellcheck: 'false',
    });
    this.count = make('span', { class: 'quiet' });
    this.head = make('div', { class: 'grid-head', role: 'row' });
    this.space = make('div', { class: 'grid-space', role: 'presentation' });
    this.body = make(
      'div',
      {
        class: 'grid-body',
        tabindex: 0,
        role: 'grid',
        'aria-label': 'Operators',
        onscroll: () => this.#draw(),
        onkeydown: (event) => this.#key(event),
      },
      this.head,
      this.space,
    );
    return make(
      'div',
      { class: 'panel', id: 'operators' },
      make('div', { class: 'tools' }, this.filter, this.count),
      this.body,
    );
  }

  /** The columns: key, title, the shown value, the value to sort by. */
  columns() {
    const times = operatorTimes();
    return [
      ['index', 'index', (row) => row.index, (row) => row.place],
      ['code', 'code', (row) => shown(row.code), (row) => row.code],
      ['output', 'output', (row) => front(row.output), (row) => row.output],
      doc.diff
        ? ['change', 'change', (row) => row.change, (row) => row.change]
        : [
            'device',
            'device',
            (row) => (devices.length ? deviceChip(row.device) : ''),
            (row) => deviceName(row.device),
          ],
      ['partition', 'partition', (row) => row.partition ?? '', (row) => row.partition ?? -1, 'number'],
      ['macs', 'MACs', (row) => (row.macs > 0 ? row.macs.toLocaleString('en') : ''), (row) => row.macs, 'number'],
      [
        'time',
        'time',
        (row) => (times ? duration(row.time === null ? null : row.time / times.executions) : ''),
        (row) => row.time ?? -1,
        'number',
      ],
      ['share', 'share', (row) => (row.time === null ? '' : bar(row.time, this.most)), (row) => row.time ?? -1],
      ['origin', 'origin', (row) => front(row.origin), (row) => row.origin],
    ];
  }

  /** Read all operators again, when another trace is chosen or the page is opened. */
  reload() {
    this.all = subgraphs.flatMap((subgraph) =>
      Array.from({ length: subgraph.count }, (_, operator) => ({
        subgraph: subgraph.index,
        operator,
        place: subgraph.index * 1e9 + operator,
        index: `${subgraph.prefix}${operator}`,
        change: doc.diff ? (CHANGES[stateOf(subgraph.index, operator)]?.[0] ?? '') : '',
        code: subgraph.code(operator),
        output: subgraph.output(operator),
        device: subgraph.device(operator),
        partition: subgraph.partition(operator),
        macs: subgraph.operators.macs[operator],
        time: subgraph.time(operator),
        origin: subgraph
          .sources(operator)
          .slice(0, 20)
          .map((row) => doc.origins.source_names[row])
          .join(', '),
      })),
    );
    this.most = this.all.reduce((most, row) => Math.max(most, row.time ?? 0), 0);
    this.refresh();
  }

  /** Filter and sort. */
  refresh() {
    const wanted = this.filter.value.toLowerCase();
    const words = (row) => [row.code, row.output, row.origin, deviceName(row.device), row.change].join('\n');
    const matches = (row) => words(row).toLowerCase().includes(wanted);
    this.rows = wanted ? this.all.filter(matches) : [...this.all];
    const [, , , value] = this.columns().find(([key]) => key === this.order.column);
    const sign = this.order.down ? -1 : 1;
    this.rows.sort((a, b) => {
      const [first, second] = [value(a), value(b)];
      return sign * (first < second ? -1 : first > second ? 1 : 0) || a.place - b.place;
    });
    this.count.textContent = `${this.rows.length} of ${counted(this.all.length, 'operator')}`;
    this.body.setAttribute('aria-rowcount', this.rows.length + 1);
    this.head.replaceChildren(
      ...this.columns().map(([key, title, , , kind]) => {
        const down = this.order.column === key ? this.order.down : null;
        const sorted = down === null ? 'none' : down ? 'descending' : 'ascending';
        return make(
          'span',
          { role: 'columnheader', class: kind ?? null, 'aria-sort': sorted },
          make(
            'button',
            { type: 'button', onclick: () => this.sort(key) },
            `${title}${down === null ? '' : down ? ' ▾' : ' ▴'}`,
          ),
        );
      }),
    );
    this.space.style.height = `${this.rows.length * ROW_HEIGHT}px`;
    this.#draw();
  }

  sort(column, down) {
    const again = this.order.column === column;
    this.order = { column, down: down ?? (again ? !this.order.down : column === 'time' || column === 'share') };
    this.body.scrollTop = 0;
    this.refresh();
  }

  #draw() {
    const first = Math.max(0, Math.floor(this.body.scrollTop / ROW_HEIGHT) - 5);
    const count = Math.ceil((this.body.clientHeight || 600) / ROW_HEIGHT) + 10;
    const { selection } = state;
    const columns = this.columns();
    this.space.replaceChildren(
      ...this.rows.slice(first, first + count).map((row, at) => {
        const chosen =
          selection?.kind === 'operator' &&
          selection.subgraph === row.subgraph &&
          selection.operator === row.operator;
        const element = make(
          'div',
          {
            class: 'grid-row',
            role: 'row',
            id: `row-${row.subgraph}-${row.operator}`,
            'aria-selected': String(chosen),
            'aria-rowindex': first + at + 2,
            onclick: () => selectOperator(row.subgraph, row.operator, this),
            ondblclick: () => openTab('graph'),
          },
          columns.map(([, , content, , kind]) =>
            make('span', { role: 'gridcell', class: kind ?? null }, content(row)),
          ),
        );
        element.style.top = `${(first + at) * ROW_HEIGHT}px`;
        return element;
      }),
    );
    const current = selection?.kind === 'operator' ? `row-${selection.subgraph}-${selection.operator}` : '';
    this.body.setAttribute('aria-activedescendant', byId(current) ? current : '');
  }

  #key(event) {
    if (event.target !== this.body) return;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === 'Enter') openTab('graph');
    if (step === undefined || !this.rows.length) return;
    event.preventDefault();
    const at = this.#at(state.selection);
    const next = at < 0 ? 0 : Math.min(Math.max(at + step, 0), this.rows.length - 1);
    selectOperator(this.rows[next].subgraph, this.rows[next].operator, 'keys');
  }

  #at(selection) {
    if (selection?.kind !== 'operator') return -1;
    return this.rows.findIndex(
      ({ subgraph, operator }) => subgraph === selection.subgraph && operator === selection.operator,
    );
  }

  /** Scroll to the selected row. */
  reveal() {
    const at = this.#at(state.selection);
    const { scrollTop } = this.body;
    const height = this.body.clientHeight - this.head.offsetHeight;
    if (at >= 0 && height > 0 && (at * ROW_HEIGHT < scrollTop || (at + 1) * ROW_HEIGHT > scrollTop + height)) {
      this.body.scrollTop = at * ROW_HEIGHT - height / 2;
    }
    this.#draw();
  }
}

const operatorTable = new OperatorTable();
