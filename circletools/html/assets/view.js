// --- view: the visible part of the graph, and interaction with it ------------------------------------------------

class GraphView extends GraphPainter {
  /** A view of one model, or of one `side` of two; both show the same place. */
  constructor(side = null) {
    super();
    this.side = side;
  }

  #id(name) {
    return this.side ? `${name}-b` : name;
  }

  /** Build the panel. */
  panel() {
    this.canvas = make('canvas', {
      id: this.#id('canvas'),
      class: 'canvas',
      tabindex: 0,
      role: 'application',
      'aria-roledescription': 'graph',
      'aria-label':
        `Graph of operators${this.side === null ? '' : ` of ${'AB'[this.side]}`}. ` +
        'Arrow keys go to readers, producers and neighbors, Enter goes to the details, ' +
        'C folds the frame, plus and minus zoom, 0 shows all.',
    });
    this.overview = make('canvas', { id: this.#id('overview'), class: 'strip-of-all', 'aria-hidden': 'true' });
    const own = subgraphs.filter(({ index }) => this.side === null || sideOf(index) === this.side);
    this.chooser =
      own.length < 2
        ? null
        : make(
            'select',
            {
              id: this.#id('subgraph'),
              'aria-label': 'Subgraph',
              onchange: () => {
                state.subgraph = Number(this.chooser.value);
                select(null);
                this.home();
              },
            },
            own.map((one) => make('option', { value: one.index }, `${one.index} ${tail(one.facts.name, 40)}`)),
          );
    const chosen = (id, label, entries, then) => {
      const element = make(
        'select',
        { id: this.#id(id), 'aria-label': label, onchange: () => then(element.value) },
        entries.map(([value, title]) => make('option', { value }, title)),
      );
      return element;
    };
    const ways = colorings().map(([way, title]) => [way, `Color: ${title}`]);
    const color = chosen('color', 'Color by', ways, (way) => {
      for (const one of views) {
        one.colorBy = way;
        one.recolor();
      }
    });
    const frames = [[0, 'Frames: partitions'], [1, 'Frames: modules']];
    const grouping = chosen('grouping', 'Frames', frames, (way) => {
      state.grouping = Number(way);
      this.show(this.index, true);
      this.follow(state.selection, this);
      this.home();
    });
    grouping.hidden = doc.diff || !doc.modules.parent.length;
    this.folders = [
      ['Fold all', true],
      ['Unfold all', false],
    ].map(([title, folded]) =>
      make(
        'button',
        {
          type: 'button',
          onclick: () => {
            this.#both((picture) => picture.foldAll(folded));
            this.home();
          },
        },
        title,
      ),
    );
    this.legend = make('div', { id: this.#id('legend'), class: 'legend' });
    this.#listen();
    return make(
      'div',
      { class: 'panel graph', id: this.#id('graph') },
      this.canvas,
      this.overview,
      make(
        'div',
        { id: this.#id('tools'), class: 'over-graph' },
        this.side === null ? '' : make('b', {}, `${'AB'[this.side]}  ${tail(doc.diff.names[this.side], 30)}`),
        this.chooser,
        this.side ? '' : [color, grouping],
        make('button', { type: 'button', 'aria-label': 'Zoom in', onclick: () => this.zoom(1.25) }, '+'),
        make('button', { type: 'button', 'aria-label': 'Zoom out', onclick: () => this.zoom(0.8) }, '−'),
        make('button', { type: 'button', onclick: () => this.fit() }, 'Show all'),
        this.folders,
      ),
      this.legend,
    );
  }

  show(index, anew = !this.theme || this.index !== index) {
    this.index = index;
    if (this.side === null) state.subgraph = index;
    if (this.chooser) this.chooser.value = index;
    const key = `${index}/${state.grouping}`;
    const { twin } = subgraphs[index];
    if (!this.pictures.has(key)) this.pictures.set(key, new Picture(subgraphs[index], subgraphs[twin]));
    for (const folder of this.folders) folder.hidden = this.side || subgraphs[index].layout.groups.length < 2;
    if (anew) this.recolor();
  }

  /** Show the selected object, or its counterpart; `from` is the view that selected it. */
  follow(selection, from) {
    const mine = this.side === null || sideOf(state.subgraph) === this.side;
    const index = mine ? state.subgraph : subgraphs[state.subgraph].twin;
    if (index !== null && index !== undefined) this.show(index);
    const places = placesOf(selection);
    this.highlight(places);
    this.chosen = { group: selection?.kind === 'group' && mine ? selection.group : this.#group(selection) };
    if (selection?.kind === 'operator') {
      const operator = mine ? selection.operator : subgraphs[selection.subgraph].partner?.[selection.operator];
      if (operator !== null && index !== null) this.chosen.operator = operator;
    }
    const first =
      this.chosen.operator ??
      places?.find(([subgraph]) => subgraph === this.index)?.[1] ??
      (selection?.kind === 'tensor' && mine ? subgraphs[this.index].producers.get(selection.tensor) : undefined);
    if (first !== undefined && from !== this && !views.includes(from) && openTab.current === 'graph')
      this.reveal(first);
    this.later = from !== this && openTab.current !== 'graph' ? first : undefined;
    this.draw();
  }

  #group(selection) {
    if (selection?.kind !== 'branch') return undefined;
    const found = this.picture.layout.groups.findIndex(({ module }) => module === selection.row);
    return found < 0 ? undefined : found;
  }

  /** Call a function with the pictures of all views. */
  #both(then) {
    for (const one of views) if (one.picture) then(one.picture);
  }

  /** Draw, and move the other views to the same place. */
  draw() {
    super.draw();
    for (const one of views) {
      if (one === this || !one.theme) continue;
      Object.assign(one, { scale: this.scale, origin: { ...this.origin } });
      GraphPainter.prototype.draw.call(one);
    }
  }

  // --- the visible part ---

  get size() {
    return { width: this.canvas.clientWidth - OVERVIEW_WIDTH, height: this.canvas.clientHeight };
  }

  /** Show everything if that is legible, else the beginning. */
  home() {
    this.fit();
    if (this.scale < 0.5) {
      this.scale = 0.8;
      const frame = this.picture.frames[0] ?? { x: 0, width: 0, y: 0 };
      this.origin = { x: frame.x + frame.width / 2 - this.size.width / 2 / this.scale, y: -70 / this.scale };
      this.draw();
    }
  }

  fit() {
    const { left, right, height } = this.picture;
    const { width: w, height: h } = this.size;
    this.scale = Math.min(1.25, w / (right - left + 60), h / (height + 120));
    this.origin = { x: (left + right) / 2 - w / 2 / this.scale, y: height / 2 - h / 2 / this.scale };
    this.draw();
  }

  zoom(factor, at = { x: this.size.width / 2, y: this.size.height / 2 }) {
    const scale = Math.min(4, Math.max(0.002, this.scale * factor));
    this.origin.x += at.x / this.scale - at.x / scale;
    this.origin.y += at.y / this.scale - at.y / scale;
    this.scale = scale;
    this.draw();
  }

  pan(dx, dy) {
    this.origin.x += dx / this.scale;
    this.origin.y += dy / this.scale;
    this.draw();
  }

  /** Scroll to an operator, and unfold its groups. */
  reveal(operator) {
    const { picture } = this;
    if (!picture.visible(operator)) {
      const group = picture.layout.group[operator];
      this.#both((one) => one.fold(group, false));
    }
    const { width, height } = this.size;
    if (this.scale < 0.4) this.scale = 0.8;
    const x = (picture.x[operator] + BOX.width / 2 - this.origin.x) * this.scale;
    const y = (picture.y[operator] + BOX.height / 2 - this.origin.y) * this.scale;
    if (x < 120 || x > width - 120 || y < 90 || y > height - 60) {
      this.origin.x += (x - width / 2) / this.scale;
      this.origin.y += (y - height / 2) / this.scale;
    }
    this.draw();
  }

  // --- interaction ---

  #listen() {
    const { canvas } = this;
    let drag = null;
    canvas.addEventListener('pointerdown', (event) => {
      drag = { x: event.offsetX, y: event.offsetY, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!drag) {
        this.#hover(event);
        return;
      }
      const [dx, dy] = [drag.x - event.offsetX, drag.y - event.offsetY];
      if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
      drag = { x: event.offsetX, y: event.offsetY, moved: true };
      this.pan(dx, dy);
    });
    canvas.addEventListener('pointerup', (event) => {
      if (drag && !drag.moved) this.#click(event);
      drag = null;
    });
    canvas.addEventListener('dblclick', (event) => {
      const hit = this.#under(event);
      if (hit && hit.group !== undefined) this.#fold(hit.group);
    });
    canvas.addEventListener(
      'wheel',
      (event) => {
        event.preventDefault();
        const pixels = event.deltaMode === 1 ? 24 : 1;
        if (event.ctrlKey || event.metaKey)
          this.zoom(Math.exp(-event.deltaY * pixels * 0.004), { x: event.offsetX, y: event.offsetY });
        else
          this.pan(
            event.shiftKey ? event.deltaY * pixels : event.deltaX * pixels,
            event.shiftKey ? 0 : event.deltaY * pixels,
          );
      },
      { passive: false },
    );
    canvas.addEventListener('keydown', (event) => this.#key(event));
    const jump = (event) => {
      if (event.buttons !== 1) return;
      this.origin.y =
        (event.offsetY / this.overview.clientHeight) * this.picture.height - this.size.height / 2 / this.scale;
      this.draw();
    };
    this.overview.addEventListener('pointerdown', jump);
    this.overview.addEventListener('pointermove', jump);
  }

  #under(event) {
    return this.picture.at(event.offsetX / this.scale + this.origin.x, event.offsetY / this.scale + this.origin.y);
  }

  #hover(event) {
    const hit = this.#under(event);
    this.canvas.style.cursor = hit ? 'pointer' : 'grab';
    this.canvas.title =
      hit && hit.operator !== undefined
        ? tail(`${this.picture.subgraph.label(hit.operator)}  ${this.picture.subgraph.output(hit.operator)}`, 200)
        : '';
  }

  #click(event) {
    const hit = this.#under(event);
    if (!hit) select(null, this);
    else if (hit.operator !== undefined) selectOperator(this.index, hit.operator, this);
    else {
      const { module } = this.picture.layout.groups[hit.group];
      const group = { kind: 'group', subgraph: this.index, group: hit.group };
      if (module !== null) select({ kind: 'branch', row: module }, this);
      else select(state.grouping || doc.diff ? null : group, this);
    }
  }

  #fold(group) {
    const before = this.picture.frames[group];
    this.#both((picture) => picture.fold(group));
    const after = this.picture.frames[group];
    this.origin.x += after.x + after.width / 2 - before.x - before.width / 2;
    this.origin.y += after.y - before.y;
    this.draw();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const operator = this.chosen.operator ?? null;
    const { key } = event;
    if (key.startsWith('Arrow')) {
      const next = operator === null ? 0 : this.picture.next(operator, key);
      if (next !== null && next < this.picture.subgraph.count) selectOperator(this.index, next, 'keys');
    } else if (key === 'Enter') byId('details').focus();
    else if (key === '+' || key === '=') this.zoom(1.25);
    else if (key === '-') this.zoom(0.8);
    else if (key === '0') this.fit();
    else if (key === 'Home') this.home();
    else if (key === 'PageDown') this.pan(0, this.size.height * 0.8);
    else if (key === 'PageUp') this.pan(0, -this.size.height * 0.8);
    else if (key === 'c' && this.picture.framed && (operator !== null || this.chosen.group !== undefined)) {
      this.#fold(operator === null ? this.chosen.group : this.picture.layout.group[operator]);
    } else return;
    event.preventDefault();
  }
}

const views = doc.diff ? [new GraphView(0), new GraphView(1)] : [new GraphView()];
