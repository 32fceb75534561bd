// Looks in the words of the manual as Find of package manual does: sections that have
// every word of the question, or one that begins with it, after what the question means.
// words.js has set manual and meanings.
const most = { asked: 8, found: 30 };
const split = (text) => text.toLowerCase().split(/[^\p{L}\p{Nd}_]+/u).filter((word) => word !== '');

function find(question) {
  const known = Object.keys(manual.words);
  let score = new Map();
  split(question).slice(0, most.asked).forEach((word, i) => {
    const has = new Map();
    for (const one of known.filter((k) => k.startsWith(word))) {
      for (const number of manual.words[one]) {
        if (i > 0 && !score.has(number)) continue;
        has.set(number, Math.max(has.get(number) ?? 0, (score.get(number) ?? 0) + worth(word, one, manual.sections[number])));
      }
    }
    score = has;
  });
  return [...score].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, most.found).map(([number]) => manual.sections[number]);
}

function worth(word, known, section) {
  let worth = word === known ? 3 : 1;
  if (split(section.heading ?? '').includes(known)) worth += 4;
  if (split(`${section.topic} ${section.page}`).includes(known)) worth += section.heading ? 3 : 6;
  return worth;
}

function meaning(question) {
  const asked = question.toLowerCase().split(/\s+/).filter((word) => word !== '').join(' ');
  const known = [asked, asked.replace(/s$/, '')].find((word) => Object.hasOwn(meanings, word));
  return known === undefined ? { sections: [] } : meanings[known];
}

const question = new URLSearchParams(location.search).get('q') ?? '';
const place = document.getElementById('found');
document.querySelector('input[name=q]').value = question;
if (question !== '') {
  const { answer, commands, sections } = meaning(question);
  const found = [...new Set([...sections.map((number) => manual.sections[number]), ...find(question)])].slice(0, most.found);
  const above = [];
  const paragraph = (name) => {
    above.push(document.createElement('p'));
    above.at(-1).className = name;
    return above.at(-1);
  };
  if (answer) paragraph('answer').textContent = answer;
  if (commands) {
    const line = paragraph('commands');
    line.append('In a terminal: ');
    commands.forEach((name, i) => {
      if (i > 0) line.append(', ');
      line.appendChild(document.createElement('code')).textContent = `berth help ${name}`;
    });
  }
  const list = document.createElement('ol');
  list.className = 'found';
  for (const section of found) {
    const item = list.appendChild(document.createElement('li'));
    const link = item.appendChild(document.createElement('a'));
    link.href = `${section.topic}.html${section.anchor ? `#${section.anchor}` : ''}`;
    link.textContent = section.heading ? `${section.page} › ${section.heading}` : section.page;
    item.appendChild(document.createElement('p')).textContent = section.lead;
  }
  if (found.length > 0) place.replaceChildren(...above, list);
  else place.textContent = 'No section of the manual has all of these words. Ask with fewer, or with the beginning of one.';
}
