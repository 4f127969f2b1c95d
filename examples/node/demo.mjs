// The main job of mcprt, in JavaScript: discover the servers of the project in the
// current directory, connect them, look at the tools, call one, reload.

import { renameSync } from 'node:fs'
import { basename } from 'node:path'
import { Runtime } from 'mcprt'

const colored = process.stdout.isTTY && !process.env.NO_COLOR
const [bold, faint, red, green, yellow] = [1, 2, 31, 32, 33].map(
  (code) => (text) => (colored ? `\x1b[${code}m${text}\x1b[0m` : `${text}`),
)
// What servers say is shown on a terminal, so it must not steer it.
const clean = (text) => text.replace(/\p{Cc}+/gu, ' ')
const row = (title, text) => console.log(`  ${bold(title.padEnd(9))} ${text}`)

/** Shows on a terminal that something is waited for. */
async function waiting(doing, promise) {
  if (!process.stderr.isTTY) return await promise
  let frame = 0
  const timer = setInterval(() => process.stderr.write(`\r\x1b[K  ${'|/-\\'[frame++ % 4]} ${doing}`), 100)
  try {
    return await promise
  } finally {
    clearInterval(timer)
    process.stderr.write('\r\x1b[K')
  }
}

const rt = await Runtime.open({ projectTrust: 'always' })
try {
  const found = await waiting('reading config files', rt.discover())
  row('discover', `${found.servers.length} servers`)
  for (const { name, config } of found.servers) {
    const command = [basename(config.command), ...(config.args ?? [])].join(' ')
    row('', clean(name).padEnd(8) + faint(clean(command)))
  }

  const report = await waiting('connecting', rt.connect())
  row('connect', `${Math.round(report.elapsedMs)} ms`)
  const deferred = report.tools.filter((tool) => tool.deferred).length
  row('tools', `${green(`${report.tools.length - deferred} live`)}, ${yellow(`${deferred} deferred`)}`)
  for (const server of new Set(report.tools.map((tool) => tool.server))) {
    const own = report.tools.filter((tool) => tool.server === server)
    const state = own[0].deferred ? yellow('deferred ') : green('live     ')
    row('', clean(server).padEnd(8) + state + ' ' + clean(own.map((tool) => tool.tool).join(' ')))
  }
  for (const [name, error] of Object.entries(report.errors)) row(clean(name), red(clean(error.message)))

  await call('mcp_demo_add', { a: 2, b: 40 })
  await call('mcp_slow_echo', { text: 'worth the wait' })

  // Somebody edits the config: the broken server is mended.
  renameSync('next.mcp.json', '.mcp.json')
  const { changes } = await waiting('reloading', rt.reload({ tools: false }))
  const kinds = ['kept', 'changed', 'added', 'removed'].filter((kind) => changes[kind].length > 0)
  row('reload', kinds.map((kind) => `${bold(kind)} ${changes[kind].map(clean).join(' ')}`).join(', '))
} finally {
  await rt.close()
}

async function call(name, args) {
  const start = performance.now()
  const result = await waiting(`calling ${name}`, rt.call(name, args))
  const took = Math.round(performance.now() - start)
  row('call', `${name} ${faint(JSON.stringify(args))} -> ${clean(result.text)}  ${faint(`${took} ms`)}`)
}
