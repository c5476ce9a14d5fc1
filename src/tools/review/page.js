'use strict';
(() => {
  const { story } = JSON.parse(document.getElementById('data').textContent);
  const at = (id) => document.getElementById(id);
  // Every text of the story goes into the page by here, and never as markup.
  const make = (name, classes, text) => {
    const element = document.createElement(name);
    if (classes) element.className = classes;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const SIGNS = { create: 'A', modify: 'M', delete: 'D', rename: 'R' };
  const LINES_AT_ONCE = 3000;
  const WORDS_MAX = 400;
  const changes = story.changes;
  let wantsSplit = false;
  let isSplit = false;
  let current = null;

  // --- What is remembered, where the browser allows it.
  const remembered = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
  const remember = (key, value) => { try { localStorage.setItem(key, value); } catch { /* not here */ } };

  // --- Diffs.
  const hunksOf = (diff) => {
    const hunks = [];
    const lines = diff.split('\n');
    let hunk = null;
    let cut = false;
    for (let index = 0; index < lines.length; index += 1) {
      const line = lines[index];
      if (hunk && (hunk.oldLeft > 0 || hunk.newLeft > 0)) {
        const sign = line[0];
        if (sign === ' ') { hunk.oldLeft -= 1; hunk.newLeft -= 1; }
        else if (sign === '-') hunk.oldLeft -= 1;
        else if (sign === '+') hunk.newLeft -= 1;
        else if (sign !== '\\') { cut = true; break; }
        if (sign === '\\') { if (hunk.lines.length) hunk.lines[hunk.lines.length - 1].open = true; }
        else hunk.lines.push({ sign, text: line.slice(1), open: false });
        continue;
      }
      if (hunk && line[0] === '\\') { hunk.lines[hunk.lines.length - 1].open = true; continue; }
      const header = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
      if (header) {
        const count = (text) => (text === undefined ? 1 : Number(text));
        hunk = { header: line, oldStart: Number(header[1]), newStart: Number(header[3]), oldLeft: count(header[2]), newLeft: count(header[4]), lines: [] };
        hunks.push(hunk);
      } else if (line.startsWith('... more was left out')) cut = true;
    }
    return { hunks, cut };
  };

  // Characters that change how the rest of a line looks are shown by their number.
  const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/;
  const append = (parent, text) => {
    if (!ODD.test(text)) { parent.append(text); return; }
    let plain = '';
    for (const character of text) {
      if (!ODD.test(character)) { plain += character; continue; }
      if (plain) parent.append(plain);
      plain = '';
      const shown = character === '\r' ? '␍' : 'U+' + character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');
      parent.append(make('span', 'odd', shown));
    }
    if (plain) parent.append(plain);
  };

  const words = (text) => text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) || [];
  // Which words of two lines differ: a longest common subsequence; nothing where too little is the same.
  const compared = (one, other) => {
    const [a, b] = [words(one), words(other)];
    if (a.length > WORDS_MAX || b.length > WORDS_MAX) return null;
    const width = b.length + 1;
    const table = new Uint16Array((a.length + 1) * width);
    for (let i = a.length - 1; i >= 0; i -= 1) {
      for (let j = b.length - 1; j >= 0; j -= 1) {
        table[i * width + j] = a[i] === b[j] ? table[(i + 1) * width + j + 1] + 1 : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
      }
    }
    const marked = { one: [], other: [] };
    let [i, j, same] = [0, 0, 0];
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j]) {
        if (a[i].trim()) same += a[i].length;
        marked.one.push([a[i], false]); marked.other.push([b[j], false]);
        i += 1; j += 1;
      } else if (j >= b.length || (i < a.length && table[(i + 1) * width + j] >= table[i * width + j + 1])) {
        marked.one.push([a[i], true]); i += 1;
      } else { marked.other.push([b[j], true]); j += 1; }
    }
    const all = Math.max(one.trim().length, other.trim().length, 1);
    return same / all < 0.3 ? null : marked;
  };

  // Pairs each line that went with the one that came in its place.
  const pair = (lines) => {
    for (let start = 0; start < lines.length; start += 1) {
      if (lines[start].sign !== '-') continue;
      let middle = start;
      while (middle < lines.length && lines[middle].sign === '-') middle += 1;
      let end = middle;
      while (end < lines.length && lines[end].sign === '+') end += 1;
      for (let offset = 0; start + offset < middle && middle + offset < end; offset += 1) {
        const [gone, came] = [lines[start + offset], lines[middle + offset]];
        const marked = compared(gone.text, came.text);
        if (marked) { gone.words = marked.one; came.words = marked.other; }
      }
      start = Math.max(start, end - 1);
    }
  };

  const cell = (line, kind) => {
    const element = make('td', kind);
    if (line.words) {
      for (const [word, differs] of line.words) {
        if (differs) { const mark = make(line.sign === '-' ? 'del' : 'ins'); append(mark, word); element.append(mark); }
        else append(element, word);
      }
    } else append(element, line.text);
    if (line.open) element.append(make('span', 'odd', 'no newline at end'));
    return element;
  };
  const numberCell = (number) => make('td', 'number', number === null ? '' : String(number));

  const rowsOfUnified = (hunk) => {
    let [old, now] = [hunk.oldStart, hunk.newStart];
    return hunk.lines.map((line) => {
      const row = make('tr');
      const sign = make('td', 'number', line.sign === ' ' ? '' : line.sign);
      const kind = line.sign === '+' ? 'add' : line.sign === '-' ? 'del' : '';
      row.append(numberCell(line.sign === '+' ? null : old), numberCell(line.sign === '-' ? null : now), sign, cell(line, kind));
      if (line.sign !== '+') old += 1;
      if (line.sign !== '-') now += 1;
      return row;
    });
  };
  const rowsOfSplit = (hunk) => {
    const rows = [];
    let [old, now] = [hunk.oldStart, hunk.newStart];
    const push = (gone, came) => {
      const row = make('tr');
      if (gone) { row.append(numberCell(old), cell(gone, gone.sign === '-' ? 'del' : '')); old += 1; } else row.append(numberCell(null), make('td', 'none'));
      if (came) { row.append(numberCell(now), cell(came, came.sign === '+' ? 'add' : '')); now += 1; } else row.append(numberCell(null), make('td', 'none'));
      rows.push(row);
    };
    for (let index = 0; index < hunk.lines.length;) {
      if (hunk.lines[index].sign === ' ') { push(hunk.lines[index], hunk.lines[index]); index += 1; continue; }
      const [gone, came] = [[], []];
      while (index < hunk.lines.length && hunk.lines[index].sign !== ' ') {
        (hunk.lines[index].sign === '-' ? gone : came).push(hunk.lines[index]);
        index += 1;
      }
      for (let offset = 0; offset < Math.max(gone.length, came.length); offset += 1) push(gone[offset], came[offset]);
    }
    return rows;
  };

  const copied = (button, text) => {
    const say = (word) => { const was = button.textContent; button.textContent = word; setTimeout(() => { button.textContent = was; }, 1200); };
    const byHand = () => {
      const area = make('textarea', '', text);
      document.body.append(area);
      area.select();
      let done = false;
      try { done = document.execCommand('copy'); } catch { done = false; }
      area.remove();
      say(done ? 'Copied' : 'Not copied');
    };
    if (navigator.clipboard && navigator.clipboard.writeText) navigator.clipboard.writeText(text).then(() => say('Copied'), byHand);
    else byHand();
  };
  const commandOf = (text) => {
    const line = make('div', 'undo');
    const button = make('button', 'copy', 'Copy');
    button.type = 'button';
    button.addEventListener('click', () => copied(button, text));
    const code = make('code', '', '');
    append(code, text);
    code.dataset.command = text;
    line.append(button, code);
    return line;
  };

  const renderDiff = (file) => {
    const { rest, data, id } = file;
    rest.replaceChildren();
    file.rendered = isSplit ? 'split' : 'unified';
    // Of one file the change itself has the same command.
    if (data.undo && file.change.data.files.length > 1) rest.append(commandOf(data.undo));
    if (data.diff === undefined) { rest.append(make('p', '', 'The diff was left out.')); return; }
    const { hunks, cut } = hunksOf(data.diff);
    if (!hunks.length) {
      const binary = /^(Binary|Large) files /m.test(data.diff);
      rest.append(make('p', '', binary ? 'Not text: the bytes differ.' : 'No line differs.'));
    }
    const table = make('table', isSplit ? 'split' : 'unified');
    const columns = make('colgroup');
    for (const kind of isSplit ? ['number', '', 'number', ''] : ['number', 'number', 'number', '']) columns.append(make('col', kind));
    table.append(columns);
    const body = make('tbody');
    table.append(body);
    let shown = 0;
    const queue = hunks.map((hunk, index) => [hunk, index + 1]);
    const more = () => {
      while (queue.length && shown < LINES_AT_ONCE) {
        const [hunk, number] = queue.shift();
        pair(hunk.lines);
        const row = make('tr');
        const head = make('td', 'hunk');
        head.colSpan = 4;
        head.id = `${id}-h${number}`;
        const link = make('a', '', `#${number}`);
        link.href = `#${id}-h${number}`;
        link.title = 'Link to this hunk';
        head.append(link, hunk.header.replace(/^(@@ .* @@).*$/, '$1'), ' ');
        if (data.by_hunk) {
          const button = make('button', 'copy', 'Copy undo of hunk');
          button.type = 'button';
          const command = `${data.undo} --hunk ${number}`;
          button.title = command;
          button.dataset.command = command;
          button.addEventListener('click', () => copied(button, command));
          head.append(button);
        }
        row.append(head);
        body.append(row, ...(isSplit ? rowsOfSplit(hunk) : rowsOfUnified(hunk)));
        shown += hunk.lines.length;
      }
      if (queue.length) {
        const button = make('button', '', `Show ${queue.length} more hunks`);
        button.type = 'button';
        const line = make('p');
        button.addEventListener('click', () => { line.remove(); shown = 0; more(); });
        line.append(button);
        rest.append(line);
      }
    };
    rest.append(table);
    more();
    if (cut) rest.append(make('p', '', 'The rest of this diff was left out; the command `lbx diff` shows all of it.'));
  };

  // --- The story: what is not near the screen has no content yet.
  const main = at('story');
  const all = [];
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      const file = entry.target.lbxFile;
      if (file.element.open && file.rendered !== (isSplit ? 'split' : 'unified')) renderDiff(file);
    }
  }, { rootMargin: '800px 0px' });
  const refresh = (file) => {
    if (!file.element.open) { file.rest.replaceChildren(); file.rendered = ''; return; }
    near.unobserve(file.rest);
    near.observe(file.rest);
  };

  const amounts = (data) => {
    const parts = [];
    if (data.insertions === undefined) parts.push(make('span', '', ' not text'));
    else parts.push(make('span', 'plus', ` +${data.insertions}`), make('span', 'minus', ` −${data.deletions}`));
    return parts;
  };
  const openFiles = changes.length <= 200;

  const fileElement = (data, change, index) => {
    const id = `${change.id}-f${index + 1}`;
    const element = make('details', 'file');
    element.id = id;
    element.open = openFiles;
    const summary = make('summary');
    summary.append(make('span', 'sign', SIGNS[data.action]));
    const path = make('span', 'path');
    append(path, data.from ? `${data.from} → ${data.path}` : data.path);
    summary.append(path, ...amounts(data));
    const rest = make('div', 'rest');
    element.append(summary, rest);
    const file = { id, data, element, rest, change, rendered: '', names: `${data.path}\n${data.from || ''}`.toLowerCase() };
    rest.lbxFile = file;
    element.addEventListener('toggle', () => refresh(file));
    near.observe(rest);
    return file;
  };

  const fragment = document.createDocumentFragment();
  let turn;
  const turnOf = (data) => {
    if (data.seq === undefined || data.turn === turn) return;
    turn = data.turn;
    const found = (story.turns || []).find((one) => one.turn === turn);
    if (!found) return;
    const heading = make('h2', 'turn');
    append(heading, found.title === undefined ? `Turn ${turn}` : `Turn ${turn}: ${found.title}`);
    fragment.append(heading);
    if (found.undo) fragment.append(commandOf(found.undo));
  };
  changes.forEach((data, index) => {
    turnOf(data);
    const id = data.seq === undefined ? `d${index + 1}` : `c${data.seq}`;
    const change = { id, data, files: [], words: `${data.tool}\n${data.subject}\n${data.why || ''}`.toLowerCase() };
    const element = make('section', data.by === 'session' ? 'change' : 'change developer');
    element.id = id;
    change.element = element;
    const title = make('h2');
    const link = make('a', '', data.seq === undefined ? '·' : `#${data.seq}`);
    link.href = `#${id}`;
    link.title = 'Link to this change';
    title.append(link);
    append(title, data.subject);
    if (data.undone_by !== undefined) title.append(make('span', 'badge', `undone by #${data.undone_by}`));
    if (data.undone_in_part_by) title.append(make('span', 'badge', `undone in part by ${data.undone_in_part_by.map((seq) => '#' + seq).join(', ')}`));
    if (data.gate) title.append(make('span', 'badge', `gate ${data.gate}`));
    element.append(title);
    const facts = [data.by === 'session' ? data.tool : 'the developer', data.time];
    if (data.snapshot) facts.push(`snapshot ${data.snapshot.slice(0, 10)}`);
    element.append(make('p', 'facts', facts.join(' · ')));
    if (data.why) { const why = make('p', 'why'); append(why, data.why); element.append(why); }
    if (data.undo) element.append(commandOf(data.undo));
    data.files.forEach((file, at) => { change.files.push(fileElement(file, change, at)); element.append(change.files[at].element); });
    all.push(change);
    fragment.append(element);
  });
  const list = (id, title, items) => {
    if (!items.length) return;
    const element = make('details', 'list');
    element.id = id;
    element.open = items.length <= 30;
    element.append(make('summary', '', `${title} (${items.length})`));
    const rows = make('ul');
    for (const item of items) { const row = make('li'); append(row, item); rows.append(row); }
    element.append(rows);
    fragment.append(element);
  };
  list('refused', 'Refused', story.refused.map((one) => `${one.time} ${one.tool} ${one.path || ''} ${one.kind}: ${one.message}`));
  list('read', 'Read, not changed', story.read);
  main.append(fragment);

  // --- The lists beside it: what each change comes to, and why, tells those of one file apart.
  const totalsOf = (change) => {
    const counted = change.data.files.filter((file) => file.insertions !== undefined);
    const sum = (field) => counted.reduce((total, file) => total + file[field], 0);
    return counted.length ? amounts({ insertions: sum('insertions'), deletions: sum('deletions') }) : [];
  };
  const changeLinks = document.createDocumentFragment();
  for (const change of all) {
    const row = make('li');
    const link = make('a', change.data.undone_by === undefined ? '' : 'undone');
    link.href = `#${change.id}`;
    link.append(make('span', 'number', change.data.seq === undefined ? '·' : String(change.data.seq)));
    append(link, change.data.subject);
    link.append(...totalsOf(change));
    if (change.data.why) { const why = make('span', 'because'); append(why, change.data.why.split('\n')[0]); link.append(why); }
    link.title = change.data.subject;
    row.append(link);
    change.link = link;
    change.row = row;
    changeLinks.append(row);
  }
  at('list-changes').append(changeLinks);
  const byPath = new Map();
  for (const change of all) for (const file of change.files) {
    if (!byPath.has(file.data.path)) byPath.set(file.data.path, []);
    byPath.get(file.data.path).push(file);
  }
  const paths = [...byPath.keys()].sort();
  const rowsOfFiles = new Map();
  const fileLinks = document.createDocumentFragment();
  for (const path of paths) {
    const row = make('li');
    for (const [index, file] of byPath.get(path).entries()) {
      const link = make('a', index ? '' : 'path');
      link.href = `#${file.id}`;
      if (index === 0) { append(link, path); link.title = path; }
      else link.append(make('span', 'number', ''), `again in ${file.change.data.seq === undefined ? 'a change by the developer' : '#' + file.change.data.seq}`);
      row.append(link);
      file.link = link;
    }
    rowsOfFiles.set(path, row);
    fileLinks.append(row);
  }
  at('list-files').append(fileLinks);
  const showTab = (name) => {
    for (const tab of ['changes', 'files']) {
      at(`tab-${tab}`).setAttribute('aria-selected', String(tab === name));
      at(`list-${tab}`).hidden = tab !== name;
    }
  };
  at('tab-changes').addEventListener('click', () => showTab('changes'));
  at('tab-files').addEventListener('click', () => showTab('files'));

  // --- Totals and filter.
  const totals = story.totals;
  const counted = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;
  const facts = [counted(totals.changes, 'change'), `${counted(totals.files, 'file')} +${totals.insertions} −${totals.deletions}`];
  for (const [count, what, id] of [[totals.undone, 'undone'], [totals.refused, 'refused', 'refused'], [totals.developer, 'by the developer in between'], [story.read.length, 'only read', 'read']]) {
    if (!count) continue;
    const link = make(id ? 'a' : 'span', '', `${count} ${what}`);
    if (id) link.href = `#${id}`;
    facts.push(link);
  }
  if (story.began) facts.push(`${story.began} to ${story.ended}`);
  facts.forEach((fact, index) => at('totals').append(index ? ' · ' : '', fact));
  for (const tool of [...new Set(changes.map((change) => change.tool))].sort()) {
    const option = make('option', '', tool);
    option.value = tool;
    at('tool').append(option);
  }
  const hasText = (file, wanted) => {
    if (file.names.includes(wanted)) return true;
    if (file.lower === undefined) file.lower = (file.data.diff || '').toLowerCase();
    return file.lower.includes(wanted);
  };
  const filter = () => {
    const wanted = at('filter').value.trim().toLowerCase();
    const tool = at('tool').value;
    let [shownChanges, shownFiles] = [0, 0];
    const seen = new Set();
    for (const change of all) {
      const isTool = !tool || change.data.tool === tool;
      const isWhole = isTool && (!wanted || change.words.includes(wanted));
      let any = false;
      for (const file of change.files) {
        const isShown = isTool && (isWhole || hasText(file, wanted));
        file.element.hidden = !isShown;
        file.link.hidden = !isShown;
        any = any || isShown;
        if (isShown) { shownFiles += 1; seen.add(file.data.path); }
      }
      change.element.hidden = !(any || isWhole);
      change.row.hidden = change.element.hidden;
      if (!change.element.hidden) shownChanges += 1;
    }
    for (const [path, row] of rowsOfFiles) row.hidden = !seen.has(path);
    at('count').textContent = wanted || tool ? `${shownChanges} of ${all.length} changes, ${shownFiles} files in them` : '';
  };
  let waiting = 0;
  at('filter').addEventListener('input', () => { clearTimeout(waiting); waiting = setTimeout(filter, 80); });
  at('tool').addEventListener('change', filter);

  // --- Walking.
  const files = all.flatMap((change) => change.files);
  const visible = (items) => items.filter((item) => !item.element.hidden && (!item.change || !item.change.element.hidden));
  const select = (item, scroll) => {
    if (!item) return;
    document.querySelectorAll('.current').forEach((element) => element.classList.remove('current'));
    document.querySelectorAll('[aria-current]').forEach((element) => element.removeAttribute('aria-current'));
    current = item;
    item.element.classList.add('current');
    const change = item.change || item;
    change.link.setAttribute('aria-current', 'true');
    change.link.scrollIntoView({ block: 'nearest' });
    if (item.change) {
      item.link.setAttribute('aria-current', 'true');
      item.element.open = true;
    }
    if (scroll) {
      item.element.scrollIntoView({ block: 'start' });
      history.replaceState(null, '', `#${item.id}`);
    }
  };
  const step = (items, way) => {
    const shown = visible(items);
    if (!shown.length) return;
    let index = shown.indexOf(current);
    if (index < 0 && current) {
      // From a change to its files, and from a file to its change.
      const near = items === files ? (file) => file.change === current : (change) => change === current.change;
      index = shown.findIndex(near);
      if (index >= 0) index = items === files ? index - (way > 0 ? 1 : 0) : index - (way < 0 ? 0 : 0);
      if (index >= 0 && items !== files && way < 0) { select(shown[index], true); return; }
    }
    const next = index < 0 && !current ? 0 : Math.min(Math.max(index + way, 0), shown.length - 1);
    select(shown[next], true);
  };
  const go = () => {
    const list = location.hash && at(location.hash.slice(1));
    if (list && list.matches('details.list')) { list.open = true; list.scrollIntoView({ block: 'start' }); }
    const match = /^#([cd]\d+)(-f\d+)?(-h\d+)?$/.exec(location.hash);
    if (!match) return;
    const change = all.find((one) => one.id === match[1]);
    if (!change) return;
    const file = match[2] && change.files.find((one) => one.id === match[1] + match[2]);
    if (change.element.hidden || (file && file.element.hidden)) { at('filter').value = ''; at('tool').value = ''; filter(); }
    select(file || change, false);
    if (file) { file.element.open = true; if (!file.rendered) renderDiff(file); }
    const target = at(location.hash.slice(1));
    if (target) target.scrollIntoView({ block: 'start' });
  };
  window.addEventListener('hashchange', go);

  // --- Views.
  // Two texts beside each other need room.
  const wide = matchMedia('(min-width: 761px)');
  const setView = (split) => {
    wantsSplit = split;
    isSplit = split && wide.matches;
    at('view').textContent = split ? 'Unified' : 'Side by side';
    at('view').hidden = !wide.matches;
    files.forEach(refresh);
  };
  const toggleView = () => { setView(!wantsSplit); remember('lbx-view', wantsSplit ? 'split' : 'unified'); };
  wide.addEventListener('change', () => setView(wantsSplit));
  const isDark = () => {
    const theme = document.documentElement.dataset.theme;
    return theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  };
  const setTheme = (theme) => {
    if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
    at('theme').textContent = isDark() ? 'Light' : 'Dark';
  };
  const toggleTheme = () => { const theme = isDark() ? 'light' : 'dark'; setTheme(theme); remember('lbx-theme', theme); };
  const foldAll = () => {
    const open = !visible(files).some((file) => file.element.open);
    files.forEach((file) => { file.element.open = open; });
    at('fold').textContent = open ? 'Fold all' : 'Unfold all';
  };
  at('view').addEventListener('click', toggleView);
  at('theme').addEventListener('click', toggleTheme);
  at('fold').addEventListener('click', foldAll);
  at('help').addEventListener('click', () => at('keys').showModal());
  at('close').addEventListener('click', () => at('keys').close());
  at('fold').textContent = openFiles ? 'Fold all' : 'Unfold all';

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || at('keys').open) return;
    const inField = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === 'Escape') {
      if (at('filter').value || at('tool').value) { at('filter').value = ''; at('tool').value = ''; filter(); }
      at('filter').blur();
      return;
    }
    if (inField) return;
    const onButton = /^(BUTTON|A|SUMMARY)$/.test(event.target.tagName);
    const keys = {
      j: () => step(all, 1), k: () => step(all, -1), n: () => step(files, 1), p: () => step(files, -1),
      x: () => { if (current && current.change) current.element.open = !current.element.open; },
      a: foldAll, u: toggleView, t: toggleTheme,
      '/': () => { at('filter').focus(); at('filter').select(); },
      '?': () => at('keys').showModal(),
      c: () => { const button = current && current.element.querySelector('.copy'); if (button) button.click(); },
    };
    if (!onButton) keys.Enter = keys.x;
    const action = keys[event.key];
    if (action) { event.preventDefault(); action(); }
  });

  const measure = () => document.documentElement.style.setProperty('--top', `${at('top').offsetHeight}px`);
  measure();
  window.addEventListener('resize', measure);
  setTheme(remembered('lbx-theme'));
  setView(remembered('lbx-view') === 'split');
  go();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
