// mcprt's Runtime; the same under Bun.
import { Runtime } from 'mcprt'
import { main, textLength } from './bench.mjs'

await main({
  async open(specs, ready) {
    const cache = process.env.BENCH_CACHE
    const rt = await Runtime.open({
      servers: Object.fromEntries(specs.map((s) => [s.name, s.url ? { type: 'http', url: s.url } : { command: s.command, args: s.args }])),
      discovery: { project: false, user: 'none' },
      toolNames: { prefix: '' },
      cache: cache ? { enabled: true, dir: cache } : { enabled: false },
    })
    const index = new Map(specs.map((s, i) => [s.name, i]))
    const mixed = specs.some((s) => s.slow)
    if (mixed) {
      const seen = new Set()
      rt.on('tools_changed', ({ server, live }) => {
        if (!seen.has(server)) ready(index.get(server), live.length)
        seen.add(server)
      })
    }
    const report = await rt.connect(cache ? { gate: 'eager' } : { startupTimeoutMs: 0 })
    if (!mixed) {
      const counts = new Map()
      for (const tool of report.tools) counts.set(tool.server, (counts.get(tool.server) ?? 0) + 1)
      for (const s of specs) ready(index.get(s.name), counts.get(s.name))
    }
    return {
      list: async (i) => (await rt.tools({ server: specs[i].name, refresh: true })).filter((tool) => tool.inputSchema).length,
      call: async (i, tool, args) => textLength((await rt.call(`${specs[i].name}_${tool}`, args)).json),
    }
  },
})
