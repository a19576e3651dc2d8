// A client of stringd as its public one is described: Node's http, chunked bodies, one kept-alive connection, strict events.
import http from 'node:http';
import assert from 'node:assert/strict';

const [port, home] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const sockets = new Set();

function request(method, path, body, headers = {}) {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: Number(port), method, path, agent, headers };
    const sent = http.request(options, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
      response.on('error', reject);
    });
    sent.on('socket', (socket) => sockets.add(socket));
    sent.on('error', reject);
    // Without a length, Node sends chunks.
    if (body !== undefined) sent.write(JSON.stringify(body));
    sent.end();
  });
}

function events(text) {
  assert(!text.includes('\r'), 'a carriage return in the framing');
  const found = [];
  let event = {};
  for (const line of text.split('\n')) {
    if (line === '') {
      if (event.name !== undefined) found.push(event);
      event = {};
    } else if (line.startsWith('event: ')) event.name = line.slice(7);
    else if (line.startsWith('data: ')) {
      assert.equal(event.data, undefined, 'two data lines');
      event.data = JSON.parse(line.slice(6));
    } else assert.fail(`unexpected line ${line}`);
  }
  assert.deepEqual(found.map((each) => each.name), ['head', 'content', 'done']);
  return found;
}

async function exec(topic, cmd) {
  const headers = { 'Content-Type': 'application/json', 'X-User-Id': 'default' };
  const reply = await request('POST', '/exec', { cmd, topic }, headers);
  assert.equal(reply.status, 200, reply.text);
  assert.equal(reply.headers['content-type'], 'text/event-stream');
  const [head, content] = events(reply.text);
  return { ...head.data, content: content.data.slice(content.data.indexOf('\n') + 1) };
}

const health = await request('GET', '/health');
assert.deepEqual(JSON.parse(health.text), { ok: true, users: 0, sessions: 0 });
const json = { 'Content-Type': 'application/json' };
const user = await request('POST', '/users', { user_id: 'default', home }, json);
assert.equal(user.status, 200, user.text);
assert.equal(JSON.parse(user.text).created, true);
const first = await exec('bash:main', 'cd /; echo "ünï"');
assert.equal(first.ok, true);
assert.equal(first.content, 'exit: 0 | cwd: /\n---\nünï');
const second = await exec('bash:main', 'pwd; false');
assert.deepEqual([second.ok, second.code, second.meta], [false, 'EXIT_1', null]);
const text = await exec('file:main', 'no slash');
assert.equal(text.code, 'COMMAND_UNSUPPORTED');
const written = await exec('file:main', '/write plan.md\n---\ntitle: Plan\n---\n# Plan\n```act.say\nCLI echo {word}\n  word: string (required)\n```');
assert.equal(written.ok, true, written.content);
const opened = await exec('file:main', '/open plan.md');
assert.deepEqual([opened.ok, opened.code, opened.meta.title, opened.meta.actions], [true, null, 'Plan', ['say']]);
assert(opened.content.startsWith('Opened plan.md\n---\n') && opened.content.includes('# Plan'), opened.content);
const said = await exec('file:main', "/act.say --word '$(id) ünï'");
assert.equal(said.content, '$(id) ünï');
assert.equal((await exec('file:main', '/set {x} = "1"')).content, '{x} = "1"');
assert.equal((await exec('file:main', '/set $X = "2"')).content, '$X = "2" (global)');
const unnamed = await request('POST', '/exec', { cmd: '/info' }, json);
assert.deepEqual([unnamed.status, JSON.parse(unnamed.text)], [400, { error: 'X-User-Id header required' }]);
const full = await request('GET', '/health');
assert.equal(JSON.parse(full.text).sessions, 2);
const closed = await request('DELETE', '/sessions/default/bash%3Amain');
assert.deepEqual(JSON.parse(closed.text), { user_id: 'default', topic: 'bash:main', deleted: true });
const shutdown = await request('POST', '/shutdown');
assert.equal(JSON.parse(shutdown.text).ok, true);
console.log(`ok: ${sockets.size} connection${sockets.size === 1 ? '' : 's'}`);
agent.destroy();
