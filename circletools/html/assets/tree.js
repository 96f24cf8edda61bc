// --- tree: the sources by module -----------------------------------------------------------------------------

const MOST_BRANCHES = 1000;

const below = doc.modules.parent.map(() => []);
const topModules = [];
doc.modules.parent.forEach((parent, row) => (parent < 0 ? topModules : below[parent]).push(row));

function pathOf(row) {
  const parts = [];
  for (let at = row; at >= 0; at = doc.modules.parent[at]) parts.unshift(doc.modules.label[at]);
  return parts.join('');
}

function sourcesBelow(row) {
  const found = [];
  const waiting = [row];
  while (waiting.length) {
    const at = waiting.pop();
    for (const source of doc.modules.sources[at]) found.push(source);
    for (const child of below[at]) waiting.push(child);
  }
  return [...new Set(found)];
}

class ModuleTree {
  panel() {
    this.box = make('div', {
      class: 'tree',
      role: 'tree',
      'aria-label': 'Sources by module',
      onkeydown: (event) => this.#key(event),
    });
    const from =
      doc.origins.from === 'tables'
        ? `Sources by module (${doc.origins.state})`
        : 'Names by module: the model has no origins, so every operator stands for itself';
    this.rest = make('p', { class: 'quiet' });
    return make('div', { class: 'panel' }, card(from, this.box, this.rest));
  }

  fill() {
    this.box.replaceChildren(...this.#items(topModules, 1));
    if (topModules.length <= 3) [...this.box.children].forEach((item) => this.#open(item, true));
    this.box.querySelector('[role="treeitem"]')?.setAttribute('tabindex', 0);
    const times = operatorTimes();
    this.rest.textContent =
      times && times.no_origin_ns ? `without an origin: ${duration(times.no_origin_ns / times.executions)}` : '';
  }

  #items(rows, level) {
    const rest = rows.length - MOST_BRANCHES;
    const items = rows.slice(0, MOST_BRANCHES).map((row) => this.#item(row, level));
    return rest > 0 ? [...items, make('p', { class: 'quiet' }, `and ${rest} more, which the search finds`)] : items;
  }

  #item(row, level) {
    const times = operatorTimes();
    const leaf = !below[row].length;
    const time = times ? times.modules_ns[row] : null;
    const item = make(
      'div',
      {
        role: 'treeitem',
        tabindex: -1,
        'aria-level': level,
        'aria-selected': 'false',
        'aria-expanded': leaf ? null : 'false',
        'data-row': row,
      },
      make(
        'div',
        { class: 'line', onclick: () => this.#choose(item) },
        make(
          'span',
          { class: 'label' },
          make(
            'span',
            {
              class: 'twist',
              onclick: (event) => {
                event.stopPropagation();
                this.#open(item);
              },
            },
            leaf ? '' : '▸',
          ),
          shown(doc.modules.label[row]),
          leaf && doc.modules.sources[row].length === 1 ? [' ', lineOf(doc.modules.sources[row][0])] : '',
        ),
        make(
          'span',
          { class: 'number quiet' },
          `${doc.modules.operators[row]} op${doc.modules.operators[row] === 1 ? '' : 's'}`,
        ),
        make('span', { class: 'number' }, times ? duration(time / times.executions) : ''),
        make('span', { class: 'number' }, times ? percent(time, times.total_ns) : ''),
        times ? bar(time, times.total_ns) : '',
      ),
    );
    item.querySelector('.label').style.paddingLeft = `${(level - 1) * 18}px`;
    return item;
  }

  #open(item, open = item.getAttribute('aria-expanded') !== 'true') {
    if (!item.hasAttribute('aria-expanded')) return;
    item.setAttribute('aria-expanded', String(open));
    item.querySelector('.twist').textContent = open ? '▾' : '▸';
    const row = Number(item.dataset.row);
    let group = item.querySelector(':scope > [role="group"]');
    if (open && !group) {
      group = make('div', { role: 'group' }, this.#items(below[row], Number(item.getAttribute('aria-level')) + 1));
      item.append(group);
    }
    if (group) group.hidden = !open;
  }

  #choose(item) {
    for (const other of this.box.querySelectorAll('[aria-selected="true"]'))
      other.setAttribute('aria-selected', 'false');
    for (const other of this.box.querySelectorAll('[tabindex="0"]')) other.setAttribute('tabindex', -1);
    item.setAttribute('aria-selected', 'true');
    item.setAttribute('tabindex', 0);
    item.focus();
    const row = Number(item.dataset.row);
    const [source] = doc.modules.sources[row];
    if (!below[row].length && doc.modules.sources[row].length === 1) select({ kind: 'source', row: source }, this);
    else select({ kind: 'branch', row }, this);
  }

  #key(event) {
    const item = event.target.closest('[role="treeitem"]');
    const items = [...this.box.querySelectorAll('[role="treeitem"]')].filter((one) => one.offsetParent !== null);
    const at = items.indexOf(item);
    const open = item.getAttribute('aria-expanded');
    if (event.key === 'ArrowRight' && open === 'false') this.#open(item, true);
    else if (event.key === 'ArrowLeft' && open === 'true') this.#open(item, false);
    else if (event.key === 'ArrowLeft')
      item.parentElement.closest('[role="treeitem"]')?.querySelector('.line').click();
    else if (event.key === 'ArrowDown' || event.key === 'ArrowRight') items[at + 1]?.querySelector('.line').click();
    else if (event.key === 'ArrowUp') items[at - 1]?.querySelector('.line').click();
    else if (event.key === 'Enter') byId('details').focus();
    else return;
    event.preventDefault();
  }
}

const moduleTree = new ModuleTree();
