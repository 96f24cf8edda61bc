// --- view: where one looks at the graph, and what one does there ---------------------------------------------

class GraphView extends GraphPainter {
  /** Build the panel. */
  panel() {
    this.canvas = make('canvas', {
      id: 'canvas',
      tabindex: 0,
      role: 'application',
      'aria-roledescription': 'graph',
      'aria-label':
        'Graph of operators. Arrow keys go to readers, feeders and neighbours; Enter to the details; ' +
        'C folds the partition; plus and minus zoom; 0 shows all.',
    });
    this.overview = make('canvas', { id: 'overview', 'aria-hidden': 'true' });
    this.chooser =
      subgraphs.length < 2
        ? null
        : make(
            'select',
            {
              id: 'subgraph',
              'aria-label': 'Subgraph',
              onchange: () => {
                state.subgraph = Number(this.chooser.value);
                select(null);
                this.home();
              },
            },
            subgraphs.map((one) => make('option', { value: one.index }, `${one.index} ${tail(one.facts.name, 40)}`)),
          );
    const ways = [
      ['device', 'device'],
      ['time', 'time'],
      ['code', 'operator code'],
    ].filter(([way]) => (way !== 'time' || operatorTimes()) && (way !== 'device' || devices.length));
    this.colorBy = ways[0][0];
    const color = make(
      'select',
      {
        id: 'color',
        'aria-label': 'Colour by',
        onchange: () => {
          this.colorBy = color.value;
          this.recolor();
        },
      },
      ways.map(([way, title]) => make('option', { value: way }, `Colour: ${title}`)),
    );
    this.folders = [
      ['Fold all', true],
      ['Unfold all', false],
    ].map(([title, folded]) =>
      make(
        'button',
        {
          type: 'button',
          onclick: () => {
            this.picture.foldAll(folded);
            this.home();
          },
        },
        title,
      ),
    );
    this.legend = make('div', { id: 'legend' });
    this.#listen();
    return make(
      'div',
      { class: 'panel', id: 'graph' },
      this.canvas,
      this.overview,
      make(
        'div',
        { id: 'tools' },
        this.chooser,
        color,
        make('button', { type: 'button', 'aria-label': 'Zoom in', onclick: () => this.zoom(1.25) }, '+'),
        make('button', { type: 'button', 'aria-label': 'Zoom out', onclick: () => this.zoom(0.8) }, '−'),
        make('button', { type: 'button', onclick: () => this.fit() }, 'Show all'),
        this.folders,
      ),
      this.legend,
    );
  }

  show(index) {
    const same = this.theme && this.shown === index;
    state.subgraph = this.shown = index;
    if (this.chooser) this.chooser.value = index;
    if (!this.pictures.has(index)) this.pictures.set(index, new Picture(subgraphs[index]));
    for (const folder of this.folders) folder.hidden = subgraphs[index].layout.groups.length < 2;
    if (!same) this.recolor();
  }

  // --- where one looks ---

  get size() {
    return { width: this.canvas.clientWidth - OVERVIEW_WIDTH, height: this.canvas.clientHeight };
  }

  /** Show all where that can be read, else the beginning. */
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

  /** Bring an operator into sight, unfolded. */
  reveal(operator) {
    const { picture } = this;
    if (!picture.visible(operator)) picture.fold(picture.subgraph.layout.group[operator], false);
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

  // --- what one does ---

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
    else if (hit.operator !== undefined) selectOperator(state.subgraph, hit.operator, this);
    else select({ kind: 'group', subgraph: state.subgraph, group: hit.group }, this);
  }

  #fold(group) {
    const before = this.picture.frames[group];
    this.picture.fold(group);
    const after = this.picture.frames[group];
    this.origin.x += after.x + after.width / 2 - before.x - before.width / 2;
    this.origin.y += after.y - before.y;
    this.draw();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { selection } = state;
    const operator = selection && selection.kind === 'operator' ? selection.operator : null;
    const { key } = event;
    if (key.startsWith('Arrow')) {
      const next = operator === null ? 0 : this.picture.next(operator, key);
      if (next !== null && next < this.picture.subgraph.count) selectOperator(state.subgraph, next, 'keys');
    } else if (key === 'Enter') byId('details').focus();
    else if (key === '+' || key === '=') this.zoom(1.25);
    else if (key === '-') this.zoom(0.8);
    else if (key === '0') this.fit();
    else if (key === 'Home') this.home();
    else if (key === 'PageDown') this.pan(0, this.size.height * 0.8);
    else if (key === 'PageUp') this.pan(0, -this.size.height * 0.8);
    else if (key === 'c' && this.picture.framed && (operator !== null || selection?.kind === 'group')) {
      this.#fold(operator === null ? selection.group : this.picture.subgraph.layout.group[operator]);
    } else return;
    event.preventDefault();
  }
}

const view = new GraphView();
