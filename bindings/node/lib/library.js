/**
 * Finds, checks and loads the shared library, and says in one sentence why that
 * failed. It happens at the first Runtime.open, not at import: a program that
 * never opens a runtime never starts Go.
 */

import { accessSync, closeSync, constants, existsSync, openSync, readSync, statSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import { ABI, MINOR, Status } from './abi.js'
import { readElf } from './elf.js'
import { LibraryError, statusError } from './errors.js'
import { Native } from './native.js'
import { ServedLibrary } from './serve.js'
import { PACKAGE, advice, fromCheckout, fromPlatformPackage, isMusl, libraryName, platformPackage, toolName } from './platform.js'

/** @type {{path: string, isServed: boolean, native: Promise<import('./native.js').Library>} | undefined} */
let loaded

/**
 * One library per process (and per worker thread, which has its own koffi): two
 * would be two Go runtimes. A failure is not remembered: the cause may be gone at
 * the next try.
 * @param {string} [explicit] the path that the program gave
 * @returns {Promise<import('./native.js').Library>}
 */
export async function loadLibrary(explicit) {
  if (!loaded) {
    const tool = servingTool()
    const path = tool ?? findLibrary({ explicit })
    const native = tool ? serve(tool) : load(path)
    loaded = { path, isServed: tool !== undefined, native }
    native.catch(() => {
      loaded = undefined
    })
  } else if (explicit !== undefined && !loaded.isServed && resolve(explicit) !== loaded.path) {
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

/** @param {string} path @returns {Promise<import('./native.js').Library>} */
async function load(path) {
  return fits(path, await loadNative(path))
}

/** @param {string} tool @returns {Promise<import('./native.js').Library>} */
async function serve(tool) {
  const library = await ServedLibrary.start(tool, () => (loaded = undefined))
  try {
    return fits(tool, library)
  } catch (error) {
    library.shutdown()
    throw error
  }
}

/**
 * @template {import('./native.js').Library} T
 * @param {string} path
 * @param {T} native
 */
function fits(path, native) {
  const status = native.check(ABI, MINOR)
  if (status === Status.EVERSION) {
    throw new LibraryError(
      `${path} has version ${native.version()}, but this package needs ABI ${ABI} with at least version ${ABI}.${MINOR}; install both from the same release`,
    )
  }
  if (status < 0) throw statusError(status)
  return native
}

/** @param {string} path */
async function loadNative(path) {
  refuseForeign(path)
  const koffi = await importKoffi()
  settleChildSignal()
  try {
    return new Native(koffi, path)
  } catch (error) {
    const [, glibc] = /version `GLIBC_([\d.]+)' not found/.exec(String(error)) ?? []
    const [what, advice] = glibc
      ? [`it needs glibc ${glibc}, and this system's is older`, 'set MCPRT_BACKEND=serve, which runs the command line tool in its place, use a newer system, or run "make build" on this one and set MCPRT_LIBRARY']
      : [reason(error), 'build it again or reinstall the package']
    throw new LibraryError(`${path} cannot be loaded as the mcprt library (${what}); ${advice}`, { cause: error })
  }
}

/**
 * @param {string} [program] the running Node
 * @returns {string | undefined} the command line tool, where it takes the place of the library
 */
export function servingTool(program = process.execPath) {
  const chosen = process.env.MCPRT_BACKEND || undefined
  if (chosen !== undefined && chosen !== 'library' && chosen !== 'serve') {
    throw new LibraryError(`MCPRT_BACKEND is ${JSON.stringify(chosen)}; it can be "library" or "serve", or be unset`)
  }
  const musl = isMusl(program)
  if (musl && chosen === 'library') {
    throw new LibraryError(`${MUSL}; unset MCPRT_BACKEND, so that the command line tool takes its place, or use a Node built for glibc, such as the image node:22-slim`)
  }
  return musl || chosen === 'serve' ? findTool({ isMusl: musl }) : undefined
}

// Go's runtime cannot be loaded into a musl process (golang/go#13492, golang/go#54805).
const MUSL = `this Node was built for musl (Alpine Linux and others, ${process.platform}-${process.arch}), where a Go library cannot be loaded`

/**
 * @param {object} [options]
 * @param {boolean} [options.isMusl] why it is looked for
 * @param {string} [options.packageFolder]
 * @returns {string} an existing path
 */
export function findTool({ isMusl = false, packageFolder = PACKAGE } = {}) {
  const named = process.env.MCPRT_TOOL
  if (named) {
    const path = resolve(named)
    requireFile('MCPRT_TOOL names', path)
    return path
  }
  const name = toolName()
  const built = fromCheckout(name, packageFolder)
  const onPath = (process.env.PATH ?? '').split(delimiter).filter(Boolean).map((folder) => join(folder, name))
  const path = fromPlatformPackage(`bin/${name}`, packageFolder) ?? (built && existsSync(built) ? built : onPath.find(isProgram))
  if (path) return path
  throw new LibraryError(
    `${isMusl ? MUSL : 'MCPRT_BACKEND=serve asks for "mcprt serve"'}, and the command line tool mcprt that would take its place was not found: not in the package ${platformPackage()}${built ? `, not at ${built}` : ''}, and not on PATH; ` +
      `install the tool (one static file, which runs on every libc) or name it in MCPRT_TOOL${isMusl ? ', or use a Node built for glibc, such as the image node:22-slim' : ''}`,
  )
}

/** Not a script of this name, as npm and pip write them: it would run us again. @param {string} path */
function isProgram(path) {
  try {
    accessSync(path, constants.X_OK)
    if (!statSync(path).isFile()) return false
    const file = openSync(path, 'r')
    try {
      const start = Buffer.alloc(2)
      readSync(file, start)
      return start.toString('latin1') !== '#!'
    } finally {
      closeSync(file)
    }
  } catch {
    return false
  }
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
    requireFile(where, path)
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

/** @param {string} where a person named it @param {string} path */
function requireFile(where, path) {
  if (!existsSync(path)) throw new LibraryError(`${where} ${path}, which does not exist; correct or unset it`)
  if (!statSync(path).isFile()) throw new LibraryError(`${where} ${path}, which is no file; correct or unset it`)
}

/** @param {string} path */
function refuseForeign(path) {
  if (process.platform !== 'linux') return
  const elf = elfOf(path)
  if (!elf) throw new LibraryError(`${path} is not a 64-bit Linux library; build it again or reinstall the package`)
  if (elf.arch !== process.arch) {
    throw new LibraryError(`${path} was built for ${elf.arch}, but this Node runs on ${process.arch}; install the library for ${process.arch}`)
  }
  if (!elf.isWhole) throw new LibraryError(`${path} is only the beginning of a library; copy or install it again`)
}

/** @param {string} path */
function elfOf(path) {
  try {
    return readElf(path)
  } catch (error) {
    throw new LibraryError(`${path} cannot be read (${reason(error)}); correct its permissions or reinstall the package`, { cause: error })
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
