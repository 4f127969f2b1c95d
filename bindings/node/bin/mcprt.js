#!/usr/bin/env node
/**
 * `npx mcprt`: hands over to the command line tool of this platform's package, or of a checkout.
 */

import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { constants } from 'node:os'
import { PACKAGE, advice, fromCheckout, fromPlatformPackage, platformPackage, toolName } from '../lib/platform.js'

const built = fromCheckout(toolName(), PACKAGE)
const tool = fromPlatformPackage(`bin/${toolName()}`, PACKAGE) ?? (built && existsSync(built) ? built : undefined)
if (tool === undefined) {
  fail(`the command line tool for ${process.platform}-${process.arch} was not found: it is not in the package ${platformPackage()}${built ? ` nor at ${built}` : ''}; ${advice(PACKAGE)}`)
}

const child = spawn(tool, process.argv.slice(2), { stdio: 'inherit' })
// The tool decides what a signal means. One from the terminal's keyboard reaches it without us.
const isAtTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'])) {
  process.on(signal, () => {
    if (signal === 'SIGTERM' || signal === 'SIGHUP' || !isAtTerminal) child.kill(signal)
  })
}
child.on('error', (error) => fail(`${tool} cannot be started (${error.message}); install the packages again`))
child.on('exit', (code, signal) => {
  // Whatever ended the tool ends us, as a shell reports it.
  process.exitCode = code ?? 128 + (signal ? constants.signals[signal] : 0)
})

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(`mcprt: ${message}`)
  process.exit(1)
}
