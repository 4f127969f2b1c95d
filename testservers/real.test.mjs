// Calls every public server of mcp.json through the Node package.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Runtime } from '../bindings/node/index.js'

const here = fileURLToPath(new URL('.', import.meta.url))
const cases = JSON.parse(readFileSync(join(here, 'cases.json'), 'utf8'))
const servers = [...new Set(cases.map((c) => c.server))].sort()
const project = mkdtempSync(join(tmpdir(), 'mcprt-real-'))
let rt

before(async () => {
  execFileSync(join(here, 'project.sh'), [project])
  rt = await Runtime.open({
    cwd: project,
    env: { ...process.env, TESTSERVERS: here, TESTPROJECT: project },
    projectTrust: 'always',
    discovery: { user: 'none' },
    cache: { dir: join(project, 'cache') },
    startupTimeoutMs: 0,
    timeoutMs: 120_000,
  })
  const report = await rt.connect()
  assert.deepEqual(report.errors, {})
  assert.deepEqual(report.connected.toSorted(), servers)
})

after(async () => {
  await rt?.close()
  rmSync(project, { recursive: true, force: true })
})

for (const { server, tool, arguments: args, isError, text } of cases) {
  test(`${server} ${tool}${isError ? ' fails' : ''}`, async () => {
    const result = await rt.call(tool, args, { server })
    assert.ok(result.text.includes(text), result.text)
    assert.equal(result.isError, isError)
    assert.deepEqual(JSON.parse(result.raw.toString()).content, result.content)
  })
}

test('every tool is live', async () => {
  const { tools } = await rt.list()
  assert.deepEqual([...new Set(tools.map((tool) => tool.server))].sort(), servers)
  assert.deepEqual(tools.filter((tool) => tool.deferred || !tool.inputSchema).map((tool) => tool.name), [])
})
