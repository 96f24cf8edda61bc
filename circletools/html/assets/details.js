// --- details: what is known about the selection ------------------------------------------------------------------

const MOST_LISTED = 200;

function operatorLink(subgraph, operator) {
  return link(subgraphs[subgraph].label(operator), () => selectOperator(subgraph, operator, 'link'));
}

function sourceLink(row, short = false) {
  const { source_ids: ids, source_names: names } = doc.origins;
  const title = doc.origins.from === 'tables' ? `${ids[row]} ${names[row]}` : names[row];
  return link(short ? front(title) : shown(title), () => select({ kind: 'source', row }, 'link'));
}

/** The line that called a source, with a link if it has an address; null if the line is unknown. */
function lineOf(row) {
  const { source_lines: lines, source_urls: urls } = doc.origins;
  if (!lines?.[row]) return null;
  const text = shown(lines[row]);
  if (!urls?.[row]) return make('span', { class: 'quiet' }, text);
  return make('a', { href: urls[row], target: '_blank', rel: 'noreferrer' }, text);
}

function deviceChip(device, text = deviceName(device)) {
  return make(
    'span',
    { class: 'chip' },
    make('i', { class: 'swatch', background: device === null ? 'var(--none)' : devices[device].color }),
    text,
  );
}

/** The first entries of a long list, and the number of the others. */
function listed(entries, one, attributes = {}) {
  const items = entries.slice(0, MOST_LISTED).map((entry) => make('li', {}, one(entry)));
  if (entries.length > MOST_LISTED)
    items.push(make('li', { class: 'quiet' }, `and ${entries.length - MOST_LISTED} more`));
  return make('ul', attributes, items);
}

function joined(elements) {
  return elements.flatMap((element, at) => (at ? [', ', element] : [element]));
}

const detailsOf = {
  operator({ subgraph: index, operator }) {
    const subgraph = subgraphs[index];
    const group = subgraph.layouts[0].group[operator];
    const times = operatorTimes();
    const partition = subgraph.partition(operator);
    const goToPartition = () => select({ kind: 'group', subgraph: index, group }, 'link');
    return [
      make('h2', {}, `Operator ${operator}  ${shown(subgraph.code(operator))}`),
      terms([
        ['subgraph', doc.subgraphs.length > 1 && `${index} ${shown(subgraph.facts.name)}`],
        ['pair', doc.diff && pairLink(index, operator)],
        ['device', devices.length && deviceChip(subgraph.device(operator))],
        ['partition', partition !== null && link(String(partition), goToPartition)],
        ['time', times && timeOf(subgraph, operator, times)],
      ]),
      troubles(findingsOf.get(`${index}/${operator}`) ?? []),
      doc.diff ? changesAt(index, operator) : null,
      make('h3', {}, 'Inputs'),
      slots(subgraph, subgraph.operators.inputs[operator], (tensor) => whereFrom(subgraph, tensor)),
      make('h3', {}, 'Outputs'),
      slots(subgraph, subgraph.operators.outputs[operator], (tensor) => whereTo(subgraph, tensor)),
      make('h3', {}, doc.origins.from === 'tables' ? 'Origin' : 'Origin (own name: the model has no origins)'),
      subgraph.sources(operator).length
        ? listed(subgraph.sources(operator), (row) => [sourceLink(row), ' ', lineOf(row)])
        : make('p', { class: 'quiet' }, 'none'),
    ];
  },

  tensor({ subgraph: index, tensor }) {
    const subgraph = subgraphs[index];
    return [
      make('h2', {}, `Tensor ${tensor}`),
      make('p', {}, named(subgraph.tensors.name[tensor])),
      make('p', { class: 'quiet' }, describe(subgraph, tensor)),
      make('h3', {}, 'Produced by'),
      make('p', {}, whereFrom(subgraph, tensor)),
      make('h3', {}, 'Read by'),
      make('p', {}, whereTo(subgraph, tensor)),
    ];
  },

  group({ subgraph: index, group }) {
    const subgraph = subgraphs[index];
    const { group: groups } = subgraph.layouts[0];
    const { partition, device, operators } = subgraph.layouts[0].groups[group];
    const members = [...groups.keys()].filter((operator) => groups[operator] === group);
    const times = operatorTimes();
    const total = members.reduce((sum, operator) => sum + (subgraph.time(operator) ?? 0), 0);
    const part = (number) => number ?? 'no partition';
    const cuts = subgraph.transfers?.cuts ?? [];
    const cutList = (chosen) =>
      chosen.length
        ? listed(
            chosen,
            (cut) => [
              link(shown(subgraph.tensors.name[cut.tensor]), () =>
                select({ kind: 'tensor', subgraph: index, tensor: cut.tensor }, 'link'),
              ),
              make(
                'span',
                { class: 'quiet' },
                ` ${bytes(cut.size_bytes)}, ${part(cut.producer)} → ${cut.consumers.map(part).join(', ')}`,
              ),
            ],
            { class: 'slots' },
          )
        : make('p', { class: 'quiet' }, 'nothing');
    return [
      make('h2', {}, partition === null ? 'No partition' : `Partition ${partition}`),
      terms([
        ['device', deviceChip(device)],
        ['operators', String(operators)],
        ['time', times && `${duration(total / times.executions)}, ${percent(total, times.total_ns)}`],
      ]),
      make('h3', {}, 'Enters across a cut'),
      cutList(cuts.filter((cut) => cut.consumers.includes(partition))),
      make('h3', {}, 'Leaves across a cut'),
      cutList(cuts.filter((cut) => cut.producer === partition)),
      make('h3', {}, 'Operators'),
      listed(members, (operator) => operatorLink(index, operator)),
    ];
  },

  source({ row }) {
    const places = operatorsOfSources([row]);
    const times = operatorTimes();
    return [
      make('h2', {}, doc.origins.from === 'tables' ? `Source ${doc.origins.source_ids[row]}` : 'Name'),
      make('p', {}, named(doc.origins.source_names[row])),
      doc.origins.source_classes?.[row]
        ? make('p', { class: 'quiet' }, shown(doc.origins.source_classes[row]))
        : null,
      lineOf(row) && make('p', {}, lineOf(row)),
      times && sharePart(times.sources_ns[row], times),
      make('h3', {}, counted(places.length, 'operator')),
      listed(places, (place) => operatorLink(...place)),
    ];
  },

  branch({ row }) {
    const places = operatorsOfSources(sourcesBelow(row));
    const times = operatorTimes();
    return [
      make('h2', {}, 'Module'),
      make('p', {}, named(pathOf(row))),
      times && sharePart(times.modules_ns[row], times),
      make('h3', {}, counted(places.length, 'operator')),
      listed(places, (place) => operatorLink(...place)),
    ];
  },
};

function sharePart(ns, times) {
  const text = `${duration(ns / times.executions)} each execution, ${percent(ns, times.total_ns)}`;
  return make('p', { class: 'quiet' }, text);
}

function timeOf(subgraph, operator, times) {
  const columns = times.subgraphs[subgraph.index];
  const total = columns.total_ns[operator];
  if (total === null) return 'not in the trace';
  const median = columns.median_ns[operator];
  const where = times.backends[columns.backend[operator]];
  return [
    `${duration(total / times.executions)} each execution, ${percent(total, times.total_ns)}`,
    make(
      'div',
      { class: 'quiet' },
      `${counted(columns.runs[operator], 'run')}` +
        `${median === null ? '' : `, median ${duration(median)}`}${where ? `, ran on ${shown(where)}` : ''}`,
    ),
    bar(total, times.total_ns),
  ];
}

function slots(subgraph, tensors, place) {
  if (!tensors.length) return make('p', { class: 'quiet' }, 'none');
  return listed(
    [...tensors],
    (tensor) => {
      if (tensor < 0) return make('span', { class: 'quiet' }, '(omitted)');
      if (!(tensor in subgraph.tensors.name))
        return make('span', { class: 'error' }, `tensor ${tensor} does not exist`);
      return [
        make('div', {}, named(subgraph.tensors.name[tensor] || '(noname)')),
        make('div', { class: 'type' }, describe(subgraph, tensor)),
        make('div', {}, place(tensor)),
      ];
    },
    { class: 'slots' },
  );
}

function describe(subgraph, tensor) {
  const { tensors } = subgraph;
  const parts = [subgraph.type(tensor), `tensor ${tensor}`];
  if (tensors.variable.includes(tensor)) parts.push('variable');
  const quantization = tensors.quantization[tensor];
  if (quantization) {
    const [scale, zero, scales] = quantization;
    const number = typeof scale === 'number' ? Number(scale.toPrecision(5)) : scale;
    parts.push(scales > 1 ? `${scales} scales from ${number}` : `scale ${number}, zero ${zero}`);
  }
  return parts.join(' · ');
}

function whereFrom(subgraph, tensor) {
  const producer = subgraph.producers.get(tensor);
  if (producer !== undefined) return ['← ', operatorLink(subgraph.index, producer)];
  if (subgraph.inputs.has(tensor))
    return make('span', { class: 'quiet' }, `graph input ${subgraph.inputs.get(tensor)}`);
  const size = subgraph.tensors.constant_bytes[tensor];
  return make('span', { class: 'quiet' }, size >= 0 ? `constant, ${bytes(size)}` : 'no operator');
}

function whereTo(subgraph, tensor) {
  const readers = subgraph.consumers.get(tensor) ?? [];
  const shownReaders = readers.slice(0, MOST_LISTED).map((operator) => operatorLink(subgraph.index, operator));
  if (readers.length > MOST_LISTED) shownReaders.push(`and ${readers.length - MOST_LISTED} more`);
  if (subgraph.outputs.has(tensor)) {
    shownReaders.push(make('span', { class: 'quiet' }, `graph output ${subgraph.outputs.get(tensor)}`));
  }
  return shownReaders.length ? ['→ ', ...joined(shownReaders)] : make('span', { class: 'quiet' }, 'no readers');
}

function troubles(findings) {
  return findings.length
    ? [
        make('h3', {}, 'Findings'),
        listed(findings, ({ code, severity, message }) => [
          make('b', { class: severity }, code),
          ` ${shown(message)}`,
        ]),
      ]
    : [];
}

function overviewOfSelection() {
  return [
    make('h2', {}, 'Nothing selected'),
    make(
      'p',
      { class: 'quiet' },
      'Select an operator, a partition, a source or a finding to see its details.',
    ),
    make('h3', {}, 'Keys'),
    terms([
      ['/', 'search'],
      ['Tab', 'go through the page'],
      ['arrows', 'in the graph: to readers, producers, neighbors'],
      ['Enter', 'in the graph: to the details'],
      ['C', 'fold or unfold a frame'],
      ['+  −  0', 'zoom in, zoom out, show all'],
      ['Esc', 'go back, and clear the selection'],
    ]),
    make(
      'p',
      { class: 'quiet' },
      'The mouse wheel moves the graph; with Ctrl, it zooms. A double click on a title folds its frame.',
    ),
  ];
}

function showDetails(selection) {
  const contents = selection ? detailsOf[selection.kind](selection) : overviewOfSelection();
  byId('details').replaceChildren(...contents.flat().filter((child) => child !== null));
  byId('details').scrollTop = 0;
}
