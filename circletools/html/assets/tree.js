// --- tree: the sources by module ---------------------------------------------------------------------------------

const MOST_BRANCHES = 1000;

const below = doc.modules.parent.map(() => []);
const topModules = [];
doc.modules.parent.forEach((parent, row) => (parent < 0 ? topModules : below[parent]).push(row));

function pathOf(row) {
  const parts = [];
  for (let at = row; at >= 0; at = doc.modules.parent[at]) parts.unshift(doc.modules.label[at]);
  return parts.join('').replace(/^[./:]+/, '');
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
        : 'Names by module: the model has no origins';
    this.rest = make('p', { class: 'quiet' });
    return make('div', { class: 'panel' }, card(from, this.box, this.rest));
  }

  fill() {
    this.box.replaceChildren(...this.#items(topModules.map((module) => ({ module })), 1));
    if (topModules.length <= 3) [...this.box.children].forEach((item) => this.#open(item, true));
    this.box.querySelector('[role="treeitem"]')?.setAttribute('tabindex', 0);
    const times = operatorTimes();
    this.rest.textContent =
      times && times.no_origin_ns ? `without an origin: ${duration(times.no_origin_ns / times.executions)}` : '';
  }

  #items(entries, level) {
    const rest = entries.length - MOST_BRANCHES;
    const items = entries.slice(0, MOST_BRANCHES).map((entry) => this.#item(entry, level));
    return rest > 0 ? [...items, make('p', { class: 'quiet' }, `and ${rest} more (use the search)`)] : items;
  }

  /** The contents of a module: modules, then its own sources. */
  #inside(row) {
    return [...below[row].map((module) => ({ module })), ...doc.modules.sources[row].map((source) => ({ source }))];
  }

  #item(entry, level) {
    const times = operatorTimes();
    const inside = entry.module === undefined ? [] : this.#inside(entry.module);
    const single = inside.length === 1 && inside[0].source !== undefined;
    const leaf = !inside.length || single;
    const source = single ? inside[0].source : entry.source;
    const own = entry.module === undefined;
    const time = !times ? null : own ? times.sources_ns[source] : times.modules_ns[entry.module];
    const operators = own ? operatorsOfSources([source]).length : doc.modules.operators[entry.module];
    const label =
      own
        ? shown(doc.origins.source_names[source].replace(/^.*(?:::|\/)(?=.)/s, ''))
        : shown(doc.modules.label[entry.module].replace(/^[./:]+(?=.)/, ''));
    const item = make(
      'div',
      {
        role: 'treeitem',
        tabindex: -1,
        'aria-level': level,
        'aria-selected': 'false',
        'aria-expanded': leaf ? null : 'false',
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
          label,
          source === undefined ? '' : [' ', lineOf(source)],
        ),
        make(
          'span',
          { class: 'number quiet' },
          `${operators} op${operators === 1 ? '' : 's'}`,
        ),
        make('span', { class: 'number' }, times ? duration(time / times.executions) : ''),
        make('span', { class: 'number' }, times ? percent(time, times.total_ns) : ''),
        times ? bar(time, times.total_ns) : '',
      ),
    );
    item.querySelector('.label').style.paddingLeft = `${(level - 1) * 18}px`;
    item.inside = leaf ? [] : inside;
    item.selection = source === undefined ? { kind: 'branch', row: entry.module } : { kind: 'source', row: source };
    return item;
  }

  #open(item, open = item.getAttribute('aria-expanded') !== 'true') {
    if (!item.hasAttribute('aria-expanded')) return;
    item.setAttribute('aria-expanded', String(open));
    item.querySelector('.twist').textContent = open ? '▾' : '▸';
    let group = item.querySelector(':scope > [role="group"]');
    if (open && !group) {
      group = make('div', { role: 'group' }, this.#items(item.inside, Number(item.getAttribute('aria-level')) + 1));
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
    select(item.selection, this);
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
