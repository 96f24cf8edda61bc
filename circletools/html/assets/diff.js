// --- diff: the differences between two models, whose subgraphs follow each other in the document -----------------

const CHANGES = {
  removed: ['only in A', '#e0675d'],
  added: ['only in B', '#5fae63'],
  changed: ['changed', '#e8a53c'],
  tensors: ['other tensors', '#7fa9dd'],
};
const SIGNS = { added: '+', removed: '-', changed: '~', moved: '>' };
const graphsShown = doc.diff ? doc.diff.split > 0 && doc.diff.split < subgraphs.length : subgraphs.length > 0;

/** The changes at each operator, by `subgraph/operator`: [kind of change, number], and whether its fields differ. */
const changesOf = new Map();

function mark(subgraph, operator, change, own) {
  const key = `${subgraph}/${operator}`;
  const entry = changesOf.get(key) ?? changesOf.set(key, { list: [], own: false }).get(key);
  entry.list.push(change);
  entry.own ||= own;
}

/** A change to a tensor belongs to the operator that produces it; a change to a constant, to all that read it. */
function markPlace(place, change) {
  if (place.operator !== undefined) mark(place.subgraph, place.operator, change, change[0].kind !== 'moved');
  if (place.tensor === undefined) return;
  const { producers, consumers } = subgraphs[place.subgraph];
  const maker = producers.get(place.tensor);
  const operators = maker === undefined ? (consumers.get(place.tensor) ?? []) : [maker];
  for (const operator of operators) mark(place.subgraph, operator, change, false);
}

const placesOfChange = (change, number) =>
  change.at[number].map((path, side) => (path ? placeOf(path, side * doc.diff.split) : null)).filter(Boolean);

for (const change of doc.diff?.changes ?? []) {
  change.at.forEach((_, number) => {
    for (const place of placesOfChange(change, number)) markPlace(place, [change, number]);
  });
}

function stateOf(subgraph, operator) {
  if (subgraphs[subgraph].partner[operator] === null) return sideOf(subgraph) ? 'added' : 'removed';
  const found = changesOf.get(`${subgraph}/${operator}`);
  return !found ? '' : found.own ? 'changed' : 'tensors';
}

function byChange(subgraph, { none }) {
  return {
    of: (operator) => CHANGES[stateOf(subgraph.index, operator)]?.[1] ?? none,
    legend: [...Object.values(CHANGES).map(([text, color]) => [color, text]), [none, 'equal']],
  };
}

function pairLink(subgraph, operator) {
  const { twin, partner } = subgraphs[subgraph];
  return partner[operator] === null
    ? CHANGES[stateOf(subgraph, operator)][0]
    : operatorLink(twin, partner[operator]);
}

const describedChange = ([{ lines, kind, path }, number]) => lines[number] ?? [`${SIGNS[kind]} ${path}`, ''];

/** The changes to an operator and its counterpart, each listed once. */
function changesAt(subgraph, operator) {
  const { twin, partner } = subgraphs[subgraph];
  const both = [`${subgraph}/${operator}`, `${twin}/${partner[operator]}`];
  const found = new Map();
  for (const change of both.flatMap((key) => changesOf.get(key)?.list ?? []))
    found.set(describedChange(change).join('\n'), change);
  if (!found.size) return null;
  return [
    make('h3', {}, 'Changes'),
    listed([...found.values()], (change) => {
      const [place, what] = describedChange(change);
      return [named(place), make('div', { class: 'type' }, shown(what))];
    }, { class: 'slots' }),
  ];
}

function changeEntry(change, number) {
  const [place, what] = describedChange([change, number]);
  const [first] = placesOfChange(change, number);
  const go = () => {
    if (first.operator !== undefined) selectOperator(first.subgraph, first.operator, 'link');
    else if (first.tensor !== undefined) select({ kind: 'tensor', ...first }, 'link');
    if (graphsShown) openTab('graph');
  };
  const linked = first && (first.operator !== undefined || first.tensor !== undefined);
  const about = make('span', { class: 'quiet' }, shown(what));
  return make('li', {}, linked ? link(shown(place), go) : named(place), ' ', about);
}

function changesPanel() {
  const { summary, changes } = doc.diff;
  const few = changes.length <= 6;
  const kinds = changes.map((change) => {
    const list = make('ul', { class: 'slots' });
    const fill = () => {
      if (list.childElementCount) return;
      list.append(...change.lines.map((_, number) => changeEntry(change, number)));
      const rest = change.at.length - change.lines.length;
      if (rest > 0) list.append(make('li', { class: 'quiet' }, `and ${rest.toLocaleString('en')} more`));
    };
    const open = few || change.at.length <= 3;
    if (open) fill();
    const title = `${SIGNS[change.kind]} ${shown(change.path)}`;
    const count = `${change.section}, ${counted(change.at.length, 'change')}`;
    return make(
      'details',
      { open, ontoggle: fill },
      make('summary', {}, `${title} `, make('span', { class: 'quiet' }, count)),
      list,
    );
  });
  return make(
    'div',
    { class: 'panel', id: 'changes' },
    card(
      'Summary',
      summary.length
        ? make(
            'ul',
            {},
            summary.map((line) => make('li', {}, shown(line))),
          )
        : 'only the file layout can differ',
    ),
    card('Changes', kinds.length ? kinds : make('p', { class: 'quiet' }, 'no differences')),
  );
}
