// --- model: the document, by operator, tensor and source ---------------------------------------------------------

const doc = JSON.parse(byId('document').textContent);
const devices = doc.affinity ? doc.affinity.devices : [];
const NO_DEVICE = '(no device)';
const state = { subgraph: 0, trace: 0, selection: null, grouping: 0 };

/** Call `then` for each entry of a list of lists: (entry, row). */
function eachEntry(lists, then) {
  for (let row = 0; row < lists.length; row++) for (const entry of lists[row]) then(entry, row);
}

class Subgraph {
  constructor(columns, index) {
    Object.assign(this, { index, operators: columns.operators, tensors: columns.tensors });
    Object.assign(this, { transfers: columns.transfers, partner: columns.partner, twin: columns.twin });
    const [{ edges }] = columns.layouts; // other layouts have their own lanes
    this.layouts = columns.layouts.map((one) => ({ ...one, edges: { ...edges, lane: one.edges.lane } }));
    this.count = columns.operators.code.length;
    this.facts = doc.model.subgraphs[index];
    this.producers = new Map();
    this.consumers = new Map();
    eachEntry(this.operators.outputs, (tensor, operator) => this.producers.set(tensor, operator));
    eachEntry(this.operators.inputs, (tensor, operator) => {
      const readers = this.consumers.get(tensor);
      if (!readers) this.consumers.set(tensor, [operator]);
      else if (readers[readers.length - 1] !== operator) readers.push(operator);
    });
    this.inputs = new Map(this.facts.inputs.map((entry, slot) => [entry.tensor, slot]));
    this.outputs = new Map(this.facts.outputs.map((entry, slot) => [entry.tensor, slot]));
  }

  code(operator) {
    return doc.codes[this.operators.code[operator]] ?? `(code ${this.operators.code[operator]} does not exist)`;
  }

  /** The name of the first output. */
  output(operator) {
    const tensor = this.operators.outputs[operator][0];
    return tensor === undefined ? '' : (this.tensors.name[tensor] ?? '');
  }

  device(operator) {
    return this.operators.device ? this.operators.device[operator] : null;
  }

  /** The positions of operators: by partition, or by module. */
  get layout() {
    return this.layouts[state.grouping] ?? this.layouts[0];
  }

  partition(operator) {
    return this.layouts[0].groups[this.layouts[0].group[operator]].partition;
  }

  sources(operator) {
    return doc.origins.sets[this.operators.origin[operator]];
  }

  type(tensor) {
    return `${doc.types[this.tensors.type[tensor]]}[${doc.shapes[this.tensors.shape[tensor]].join(', ')}]`;
  }

  time(operator) {
    const times = operatorTimes();
    return times ? times.subgraphs[this.index].total_ns[operator] : null;
  }

  fed(operator) {
    return this.operators.outputs[operator].flatMap((tensor) => this.consumers.get(tensor) ?? []);
  }

  feeders(operator) {
    const found = this.operators.inputs[operator].map((tensor) => this.producers.get(tensor));
    return [...new Set(found.filter((producer) => producer !== undefined))];
  }

  /** A label that distinguishes operators of several subgraphs, and of two models. */
  get prefix() {
    if (doc.diff) return `${'AB'[sideOf(this.index)]}${doc.subgraphs.length > 2 ? `${ownIndex(this.index)}/` : ' '}`;
    return doc.subgraphs.length > 1 ? `${this.index}/` : '';
  }

  label(operator) {
    return `${this.prefix}${operator} ${shown(this.code(operator))}`;
  }
}

const subgraphs = doc.subgraphs.map((columns, index) => new Subgraph(columns, index));
const operatorTimes = () => doc.operator_traces[state.trace] ?? null;
const deviceName = (device) => (device === null ? NO_DEVICE : shown(devices[device].name));

/** The operators of each set of sources, as [subgraph, operator]. */
const operatorsOfSet = doc.origins.sets.map(() => []);
for (const subgraph of subgraphs) {
  subgraph.operators.origin.forEach((set, operator) => operatorsOfSet[set].push([subgraph.index, operator]));
}

/** The sets that contain each source. */
const setsOfSource = doc.origins.source_ids.map(() => []);
eachEntry(doc.origins.sets, (source, set) => setsOfSource[source].push(set));

function operatorsOfSources(sources) {
  const sets = new Set();
  for (const source of sources) for (const set of setsOfSource[source]) sets.add(set);
  return [...sets].flatMap((set) => operatorsOfSet[set]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
}

const sideOf = (index) => Number(index >= doc.diff.split);
const ownIndex = (index) => index - sideOf(index) * doc.diff.split;

/** What a path refers to: {subgraph, operator}, {subgraph, tensor}, {subgraph} or null; `first`: its subgraph 0. */
function placeOf(location, first = 0) {
  const match = /^subgraphs\[(\d+)\](?:\.(operators|tensors|outputs|inputs)\[(\d+)\])?/.exec(location);
  const subgraph = match && subgraphs[Number(match[1]) + first];
  if (!subgraph) return null;
  const number = Number(match[3]);
  if (match[2] === 'operators')
    return number < subgraph.count ? { subgraph: subgraph.index, operator: number } : null;
  if (!match[2]) return { subgraph: subgraph.index };
  const tensor = match[2] === 'tensors' ? number : subgraph.facts[match[2]][number]?.tensor;
  return tensor in subgraph.tensors.name ? { subgraph: subgraph.index, tensor } : null;
}

/** Findings by `subgraph/operator`; those about a tensor belong to the operator that produces it. */
const findingsOf = new Map();
for (const finding of doc.findings) {
  const place = placeOf(finding.location);
  const operator = place && (place.operator ?? subgraphs[place.subgraph].producers.get(place.tensor));
  if (operator === null || operator === undefined) continue;
  const key = `${place.subgraph}/${operator}`;
  findingsOf.set(key, [...(findingsOf.get(key) ?? []), finding]);
}

/** The sums of operators' times by `key`: [key, operators, ns], the longest first. */
function sums(key) {
  const found = new Map();
  for (const subgraph of subgraphs) {
    for (let operator = 0; operator < subgraph.count; operator++) {
      const name = key(subgraph, operator);
      const entry = found.get(name) ?? found.set(name, [name, 0, 0]).get(name);
      entry[1] += 1;
      entry[2] += subgraph.time(operator) ?? 0;
    }
  }
  return [...found.values()].sort((a, b) => b[2] - a[2] || b[1] - a[1]);
}

// --- the selection: one thing at a time, passed on to all views ---

const listeners = [];
const whenSelected = (listener) => listeners.push(listener);

/** Select {kind: 'operator' | 'tensor' | 'group' | 'source' | 'branch', …}; `from` is the view that did it. */
function select(selection, from) {
  state.selection = selection;
  if (selection && selection.subgraph !== undefined) state.subgraph = selection.subgraph;
  for (const listener of listeners) listener(selection, from);
}

const selectOperator = (subgraph, operator, from) => select({ kind: 'operator', subgraph, operator }, from);
