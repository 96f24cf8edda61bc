// --- main: tabs, theme, and the effects of a selection -----------------------------------------------------------

const overviewTab = doc.diff ? null : overviewPanel();
const timeTab = timePanel();
const tabs = [
  doc.diff
    ? { id: 'changes', title: 'Changes', panel: changesPanel() }
    : { id: 'summary', title: 'Overview', panel: overviewTab.panel, fill: overviewTab.fill },
  ...(graphsShown
    ? [
        {
          id: 'graph',
          title: 'Graph',
          panel: doc.diff
            ? make('div', { class: 'sides' }, views.map((view) => view.panel()))
            : views[0].panel(),
          opened: openGraph,
        },
      ]
    : []),
  {
    id: 'operators',
    title: 'Operators',
    panel: operatorTable.panel(),
    fill: () => operatorTable.reload(),
    opened: () => operatorTable.reveal(),
  },
  { id: 'origins', title: 'Origins', panel: moduleTree.panel(), fill: () => moduleTree.fill() },
  ...(doc.operator_traces.length || doc.traces.length
    ? [{ id: 'time', title: 'Time', panel: timeTab.panel, fill: timeTab.fill }]
    : []),
  ...(doc.fit ? [{ id: 'fit', title: 'Fit', panel: fitPanel() }] : []),
  ...(doc.diff ? [] : [{ id: 'findings', title: 'Findings', panel: findingsPanel() }]),
];

/** Show the beginning on first use, and what was selected while another tab was open. */
function openGraph() {
  if (!openGraph.done) views[0].home();
  openGraph.done = true;
  const [first] = views.filter((view) => view.later !== undefined);
  if (first) first.reveal(first.later);
  for (const view of views) view.later = undefined;
  views[0].draw();
}

function openTab(id, focus = false) {
  openTab.current = id;
  for (const tab of tabs) {
    const open = tab.id === id;
    tab.frame.hidden = !open;
    tab.button.setAttribute('aria-selected', String(open));
    tab.button.tabIndex = open ? 0 : -1;
    if (open && tab.stale) {
      tab.stale = false;
      tab.fill();
    }
    if (open && focus) tab.button.focus();
    if (open && tab.opened) tab.opened();
  }
}

function buildTabs() {
  for (const tab of tabs) {
    const worst =
      ['error', 'warning'].find((severity) => doc.findings.some((finding) => finding.severity === severity)) ?? '';
    const count =
      tab.id === 'findings' && doc.findings.length
        ? make('span', { class: `count ${worst}` }, String(doc.findings.length))
        : null;
    tab.button = make(
      'button',
      {
        type: 'button',
        role: 'tab',
        id: `tab-${tab.id}`,
        'aria-controls': `panel-${tab.id}`,
        onclick: () => openTab(tab.id),
      },
      tab.title,
      count,
    );
    tab.stale = Boolean(tab.fill);
    byId('tabs').append(tab.button);
    tab.frame = make(
      'div',
      { id: `panel-${tab.id}`, class: 'frame', role: 'tabpanel', 'aria-labelledby': `tab-${tab.id}` },
      tab.panel,
    );
    byId('main').append(tab.frame);
  }
  byId('tabs').addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = tabs.findIndex(({ id }) => id === openTab.current);
    if (step) openTab(tabs[(at + step + tabs.length) % tabs.length].id, true);
  });
}

function buildHeader() {
  byId('name').textContent = shown(doc.name);
  const operators = subgraphs.reduce((sum, { count }) => sum + count, 0);
  byId('facts').textContent = [
    doc.diff ? doc.diff.facts : doc.model.format,
    ...(doc.diff
      ? []
      : [
          bytes(doc.model.file_bytes),
          counted(operators, 'operator'),
          subgraphs.length > 1 ? counted(subgraphs.length, 'subgraph') : '',
        ]),
    devices.map(({ name }) => tail(name, 20)).join(', '),
  ]
    .filter(Boolean)
    .join(' · ');
  byId('trace-choice').hidden = doc.operator_traces.length < 2;
  byId('trace').append(...doc.operator_traces.map(({ name }, at) => make('option', { value: at }, tail(name, 40))));
  byId('trace').addEventListener('change', () => {
    state.trace = Number(byId('trace').value);
    for (const tab of tabs) tab.stale = Boolean(tab.fill);
    for (const view of views) view.recolor();
    openTab(openTab.current);
    showDetails(state.selection);
  });
}

function buildTheme() {
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    byId('theme').textContent = theme === 'dark' ? 'Light' : 'Dark';
    byId('theme').setAttribute('aria-label', `Change to the ${theme === 'dark' ? 'light' : 'dark'} theme`);
    for (const view of views) if (view.picture) view.recolor();
  };
  apply(dark.matches ? 'dark' : 'light');
  dark.addEventListener('change', () => apply(dark.matches ? 'dark' : 'light'));
  byId('theme').addEventListener('click', () =>
    apply(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'),
  );
}

/** The operators that the graph highlights: all those of a source or a module. */
function placesOf(selection) {
  if (selection?.kind === 'source') return operatorsOfSources([selection.row]);
  if (selection?.kind === 'branch') return operatorsOfSources(sourcesBelow(selection.row));
  return null;
}

whenSelected((selection, from) => {
  showDetails(selection);
  if (graphsShown) for (const view of views) view.follow(selection, from);
  if (!tabs.find(({ id }) => id === 'operators').stale) operatorTable.reveal();
  const { kind, subgraph, operator } = selection ?? {};
  byId('status').textContent =
    kind === 'operator'
      ? `Operator ${subgraphs[subgraph].label(operator)}, ${shown(subgraphs[subgraph].output(operator))}`
      : '';
});

document.addEventListener('keydown', (event) => {
  const typing = event.target.matches('input, select, textarea');
  if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey) {
    byId('search').focus();
    byId('search').select();
    event.preventDefault();
  } else if (event.key === 'Escape') {
    if (byId('details').contains(document.activeElement) && openTab.current === 'graph') views[0].canvas.focus();
    else select(null);
  }
});

buildHeader();
buildTabs();
buildTheme();
showDetails(null);
const search = new Search();
openTab(tabs[0].id);
if (graphsShown) views.forEach((view) => view.show(view.side ? doc.diff.split : 0));
new ResizeObserver(() => {
  if (openTab.current === 'graph') views[0].draw();
  if (openTab.current === 'operators') operatorTable.reveal();
}).observe(byId('main'));
window.addEventListener('beforeprint', () =>
  tabs.forEach((tab) => {
    if (tab.stale) tab.fill();
    tab.stale = false;
  }),
);
document.documentElement.dataset.ready = 'yes';
