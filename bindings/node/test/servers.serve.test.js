/** The tests of servers.test.js once more, over `mcprt serve` in the place of the library. */

import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const tool = fileURLToPath(new URL('../../../build/mcprt', import.meta.url))
if (!existsSync(tool)) throw new Error('run "make build" first')
process.env.MCPRT_BACKEND = 'serve'
process.env.MCPRT_TOOL = tool
await import('./servers.test.js')
