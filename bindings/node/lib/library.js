/**
 * Finds, checks and loads the shared library, and says in one sentence why that
 * failed. It happens at the first Runtime.open, not at import: a program that
 * never opens a runtime never starts Go.
 */

import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import { ABI, MINOR, Status } from './abi.js'
import { readElf } from './elf.js'
import { LibraryError, statusError } from './errors.js'
import { Native } from './native.js'
import { PACKAGE, advice, fromCheckout, fromPlatformPackage, isMusl, libraryName, platformPackage } from './platform.js'

/** @type {{path: string, native: Promise<Native>} | undefined} */
let loaded

/**
 * One library per process (and per worker thread, which has its own koffi): two
 * would be two Go runtimes. A failure is not remembered: the cause may be gone at
 * the next try.
 * @param {string} [explicit] the path that the program gave
 * @returns {Promise<Native>}
 */
export async function loadLibrary(explicit) {
  if (!loaded) {
    refuseMusl(process.execPath)
    const path = findLibrary({ explicit })
    const native = load(path)
    loaded = { path, native }
    native.catch(() => {
      loaded = undefined
    })
  } else if (explicit !== undefined && resolve(explicit) !== loaded.path) {
    throw new LibraryError(`this process uses the mcprt library ${loaded.path} already, and cannot use ${resolve(explicit)} besides; give each open the same path`)
  }
  return loaded.native
}

/**
 * The first child of a Node program makes libuv set a handler for SIGCHLD that runs
 * on whatever stack is in use. On a thread of Go that stack is too small for it, and
 * other memory is overwritten. Go mends the handlers that exist when it starts: so
 * let there be one, and let it stay. (The library mends later ones at its next call.)
 */
function settleChildSignal() {
  if (isMainThread && process.platform !== 'win32') process.on('SIGCHLD', () => {})
}

/** @param {string} path */
async function load(path) {
  refuseForeign(path)
  const koffi = await importKoffi()
  settleChildSignal()
  let native
  try {
    native = new Native(koffi, path)
  } catch (error) {
    const [, glibc] = /version `GLIBC_([\d.]+)' not found/.exec(String(error)) ?? []
    const [what, advice] = glibc
      ? [`it needs glibc ${glibc}, and this system's is older`, 'use a newer system, or run "make build" on this one and set MCPRT_LIBRARY']
      : [reason(error), 'build it again or reinstall the package']
    throw new LibraryError(`${path} cannot be loaded as the mcprt library (${what}); ${advice}`, { cause: error })
  }
  const status = native.check(ABI, MINOR)
  if (status === Status.EVERSION) {
    throw new LibraryError(
      `${path} has version ${native.version()}, but this package needs ABI ${ABI} with at least version ${ABI}.${MINOR}; install both from the same release`,
    )
  }
  if (status < 0) throw statusError(status)
  return native
}

/**
 * In this order: the path that the program gave, MCPRT_LIBRARY, the package of this
 * platform, the build of a checkout.
 * @param {object} [options]
 * @param {string} [options.explicit]
 * @param {string} [options.variable] the value of MCPRT_LIBRARY
 * @param {string} [options.packageFolder]
 * @returns {string} an existing path
 */
export function findLibrary({ explicit, variable = process.env.MCPRT_LIBRARY, packageFolder = PACKAGE } = {}) {
  const named = explicit ?? (variable || undefined)
  if (named !== undefined) {
    const path = resolve(named)
    const where = explicit === undefined ? 'MCPRT_LIBRARY names' : 'the option library names'
    if (!existsSync(path)) throw new LibraryError(`${where} ${path}, which does not exist; correct or unset it`)
    return path
  }
  const name = libraryName()
  const built = fromCheckout(name, packageFolder)
  const path = fromPlatformPackage(name, packageFolder) ?? (built && existsSync(built) ? built : undefined)
  if (path) return path
  const places = [`in the package ${platformPackage()}`, ...(built ? [`at ${built}`] : [])]
  throw new LibraryError(
    `the mcprt library for ${process.platform}-${process.arch} was not found: ${name} is not ${places.join(' nor ')}; ` +
      `${advice(packageFolder)}, or set MCPRT_LIBRARY to the path of a library that you built for this machine`,
  )
}

/**
 * Go's runtime cannot be loaded into a musl process (golang/go#13492).
 * @param {string} program the running Node
 */
export function refuseMusl(program) {
  if (isMusl(program)) {
    throw new LibraryError('this Node was built for musl (Alpine Linux), where a Go library cannot be loaded; use a Node built for glibc, such as the image node:22-slim')
  }
}

/** @param {string} path */
function refuseForeign(path) {
  if (process.platform !== 'linux') return
  const elf = readElf(path)
  if (!elf) throw new LibraryError(`${path} is not a 64-bit Linux library; build it again or reinstall the package`)
  if (elf.arch !== process.arch) {
    throw new LibraryError(`${path} was built for ${elf.arch}, but this Node runs on ${process.arch}; install the library for ${process.arch}`)
  }
}

async function importKoffi() {
  try {
    return (await import('koffi')).default
  } catch (error) {
    // npm links a package that is a folder, and does not install what the folder needs.
    const advice = existsSync(join(PACKAGE, 'package-lock.json'))
      ? `run "npm ci" in ${PACKAGE}`
      : 'run "npm install" again without --omit=optional'
    throw new LibraryError(
      `koffi, through which Node calls the mcprt library, cannot be loaded (${reason(error)}); ${advice}`,
      { cause: error },
    )
  }
}

/** @param {unknown} error @returns {string} its first line */
function reason(error) {
  return String(error instanceof Error ? error.message : error).split('\n')[0]
}
